package operate

import (
	"context"
	"fmt"
)

// pruner is the store's part that deletes.
func (s *Service) pruner() (Pruner, error) {
	p, ok := s.store.(Pruner)
	if !ok {
		return nil, Refuse(CodeUnavailable, "this service cannot delete")
	}
	return p, nil
}

// PlanPrune counts what a prune would delete, and deletes nothing.
func (s *Service) PlanPrune(ctx context.Context, a Actor, request Prune) (PrunePlan, error) {
	if err := a.may(VerbPrune); err != nil {
		return PrunePlan{}, err
	}
	if err := request.Check(); err != nil {
		return PrunePlan{}, err
	}
	p, err := s.pruner()
	if err != nil {
		return PrunePlan{}, err
	}
	return p.PlanPrune(ctx, request)
}

// Prune deletes what is old, with a row in the audit. What is deleted when ctx ends, or an error comes, stays deleted: the result is valid beside an error.
// reason is needed. progress, which may be nil, is called after each step.
func (s *Service) Prune(ctx context.Context, a Actor, request Prune, reason string, progress func(Pruned)) (pruned Pruned, err error) {
	if err := request.Check(); err != nil {
		return Pruned{}, err
	}
	switch {
	case reason == "":
		return Pruned{}, Refuse(CodeInvalid, "prune needs a reason: it is kept in the audit")
	case !storable(reason):
		return Pruned{}, Refuse(CodeInvalid, "the reason is no UTF-8, or holds a NUL")
	}
	err = s.audited(ctx, a, VerbPrune, request, reason, func() (change, error) {
		p, err := s.pruner()
		if err != nil {
			return change{}, err
		}
		pruned, err = p.Prune(ctx, request, progress)
		return change{affected: pruned.Rows(), outcome: pruned.summary()}, err
	})
	return pruned, err
}

func (p Pruned) summary() string {
	text := fmt.Sprintf("%d settled events, %d dead ones, %d rows of the audit, %d requests and %d jobs deleted", p.Events, p.Dead, p.Audit, p.Requests, p.Jobs)
	if len(p.Created)+len(p.Dropped) > 0 {
		text += fmt.Sprintf("; %d partitions created, %d dropped with about %d rows", len(p.Created), len(p.Dropped), p.DroppedRows)
	}
	return text
}
