package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// bookkeeping is how long what has to be written down after a change may take; an interrupted command writes it down all the same.
const bookkeeping = 10 * time.Second

// detached outlives ctx for the bookkeeping.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), bookkeeping)
}

// change is what an audited function has done.
type change struct {
	affected, job int64
	outcome       string
	// open tells that nobody knows yet what becomes of it: the row stays open, and whoever looks at it is told by the request that it names.
	open bool
}

// audited does something with a row of outbox.audit around it. Whoever may not do it leaves a row too, if he has a name.
func (s *Service) audited(ctx context.Context, actor Actor, verb Verb, filter any, reason string, do func(audit int64) (change, error)) error {
	text, err := json.Marshal(filter)
	if err != nil {
		return fmt.Errorf("write down the filter: %w", err)
	}
	start := AuditStart{Actor: actor.Name, Verb: verb, Filter: text, Reason: reason}
	if refused := actor.may(verb); refused != nil {
		if actor.Name == "" {
			return refused
		}
		return s.auditRefusal(ctx, start, refused)
	}
	id, err := s.store.StartAudit(ctx, start)
	if err != nil {
		return fmt.Errorf("write the audit; nothing was changed: %w", err)
	}
	done, err := do(id)
	if done.open {
		return err
	}
	if done.outcome == "" {
		done.outcome = "done"
	}
	if err != nil && done.affected > 0 {
		done.outcome += "; then: " + err.Error()
	} else if err != nil {
		done.outcome = err.Error()
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	if auditErr := s.store.EndAudit(ctx, id, done.affected, done.job, done.outcome); auditErr != nil && err == nil {
		return fmt.Errorf("it was done (%s), but row %d of outbox.audit could not be completed: %w", done.outcome, id, auditErr)
	}
	return err
}

func (s *Service) auditRefusal(ctx context.Context, start AuditStart, refused error) error {
	if id, err := s.store.StartAudit(ctx, start); err == nil {
		// That it was refused is what the caller has to hear, whether or not it could be written down.
		_ = s.store.EndAudit(ctx, id, 0, 0, "refused: "+refused.Error())
	}
	return refused
}
