package operate

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// pruner is the store's ability to prune.
func (s *Service) pruner() (Pruner, error) {
	if p, able := s.store.(Pruner); able {
		return p, nil
	}
	return nil, Refuse(CodeUnavailable, "this service cannot prune")
}

// audited is the request as the audit keeps it, with ages that people can read.
func (p Prune) audited() map[string]any {
	filter := map[string]any{}
	if e := p.Events; e != nil {
		filter["events"] = map[string]any{"older_than": ageText(e.OlderThan), "keep": e.Keep}
	}
	if p.Dead != nil {
		filter["dead"] = map[string]any{"older_than": ageText(*p.Dead)}
	}
	if p.Audit != nil {
		filter["audit"] = map[string]any{"older_than": ageText(*p.Audit)}
	}
	if r := p.Partitions; r != nil {
		filter["partitions"] = map[string]any{"older_than": ageText(r.OlderThan), "ahead": r.Ahead}
	}
	return filter
}

// ageText is 168h, not 168h0m0s.
func ageText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// PlanPrune says what [Service.Prune] would do. It is asked by whoever may prune, and leaves no row in the audit.
func (s *Service) PlanPrune(ctx context.Context, a Actor, p Prune) (PrunePlan, error) {
	pruner, err := s.pruner()
	if err == nil {
		err = a.may(VerbPrune)
	}
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return PrunePlan{}, err
	}
	return pruner.PlanPrune(ctx, p)
}

// Prune deletes what is old, as [Pruner] says. What was deleted before an error came, or before ctx ended, is in the result, and in the audit.
func (s *Service) Prune(ctx context.Context, a Actor, p Prune, reason string, progress func(Pruned)) (pruned Pruned, err error) {
	pruner, err := s.pruner()
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return Pruned{}, err
	}
	err = s.audited(ctx, a, VerbPrune, p.audited(), reason, func(int64) (change, error) {
		var err error
		pruned, err = pruner.Prune(ctx, p, progress)
		outcome := ""
		if n := len(pruned.Created) + len(pruned.Dropped) + len(pruned.Attached); n > 0 {
			outcome = fmt.Sprintf("done: %d partitions created, %d dropped", len(pruned.Created), len(pruned.Dropped))
		}
		if n := len(pruned.Attached); n > 0 {
			outcome += fmt.Sprintf(", %d attached again", n)
		}
		return change{affected: pruned.Rows(), outcome: outcome}, err
	})
	return pruned, err
}
