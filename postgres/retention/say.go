package retention

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// look reads what the table holds, once a minute, and says at the first time whether it grows without end.
func (r *Retention) look(ctx context.Context, row pg.Source) error {
	first := r.lookedAt.IsZero()
	if !first && r.now().Sub(r.lookedAt) < retainLook {
		return nil
	}
	h, err := readHolding(ctx, r.pruner.db, row)
	if err != nil {
		return err
	}
	r.lookedAt = r.now()
	r.note(func(s *Stats) { s.Holding = h })
	if h.Partitioned {
		if err := r.lost(ctx, row); err != nil {
			return err
		}
	}
	if first && r.cfg.Rules.Events == nil && !r.cfg.Deleted && h.Endless() {
		oldest := "unknown"
		if h.OldestSettledAge > 0 {
			oldest = h.OldestSettledAge.Round(time.Second).String()
		}
		r.log.Warn("nothing deletes settled events, so the table grows without end: set --retain 168h or run outbox prune from time to time, or settle by delete",
			"table_bytes", h.Bytes, "oldest_settled_age", oldest)
	}
	return nil
}

// endlessAfter is how long nobody has pruned until the table is said to grow without end.
const endlessAfter = 35 * 24 * time.Hour

// Endless tells that nothing deletes settled events: no relay does, and nobody has for over a month.
func (h Holding) Endless() bool {
	return !h.Retained && time.Since(h.PrunedAt) > endlessAfter
}

// role notes who deletes, and says so when that changes.
func (r *Retention) role(other string) {
	r.note(func(s *Stats) {
		s.Active = other == ""
		if other != "" {
			s.CaughtUp, s.Overdue = false, 0
		}
	})
	if other != "" {
		r.say("other "+other, func() { r.log.Info("retention: another relay deletes what is old", "relay", other) })
		return
	}
	r.say("active", func() { r.log.Info("retention: this relay deletes what is old", "rules", ruleText(r.cfg.Rules)) })
}

// outcome notes how a turn went, and says so when that changes.
func (r *Retention) outcome(err error) {
	r.note(func(s *Stats) { s.LastError = err })
	if err != nil && r.cfg.deletes() {
		r.say("error "+withoutDigits(err.Error()), func() { r.log.Warn("retention: nothing old is deleted now; it is tried again", "error", err) })
	}
}

// say says a state when it is another one than before.
func (r *Retention) say(state string, log func()) {
	if r.said != state {
		r.said = state
		log()
	}
}

// withoutDigits makes texts the same that differ in a number, such as an id.
func withoutDigits(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, s)
}

// ruleText is for people.
func ruleText(rules operate.Prune) string {
	var parts []string
	if e := rules.Events; e != nil {
		part := "settled events older than " + e.OlderThan.String()
		if e.Keep > 0 {
			part += " but the newest " + strconv.FormatInt(e.Keep, 10)
		}
		parts = append(parts, part)
	}
	if rules.Dead != nil {
		parts = append(parts, "dead events older than "+rules.Dead.String())
	}
	if rules.Audit != nil {
		parts = append(parts, "audit, requests and jobs older than "+rules.Audit.String())
	}
	return strings.Join(parts, ", ")
}
