package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// alone refuses a redrive, whose job is written down already, when an earlier one of the same dead-letter topics is under way: both would send what the other has not written down
// yet. Of two that begin in the same moment the one with the lower number goes on.
func (s *Service) alone(ctx context.Context, id int64, p RedrivePlan) error {
	verb := string(VerbRedrive)
	page, err := s.store.Jobs(ctx, s.cfg.LookTimeout, JobQuery{State: JobRunning, Verb: &verb, Limit: MaxPage})
	if err != nil {
		return fmt.Errorf("look for another redrive; nothing was sent: %w", err)
	}
	for _, j := range page.Jobs {
		var other Redrive
		if j.ID >= id || json.Unmarshal(j.Filter, &other) != nil {
			continue
		}
		for _, at := range p.Through {
			if other.takes(at.Topic) {
				return Refuse(CodeConflict, "%s sends letters of %s back by job %d, seen at %s UTC: nothing was sent; wait for its end, or end it, also when its command was killed: outbox jobs cancel %[3]d",
					j.Actor, at.Topic, j.ID, j.SeenAt.UTC().Format(time.TimeOnly))
			}
		}
	}
	return nil
}

// takes tells whether a dead-letter topic is among those that the selection names.
func (l LetterSelection) takes(topic string) bool {
	return slices.ContainsFunc(l.Topics, func(name string) bool { return isOf(topic, name, l.Force) }) ||
		slices.ContainsFunc(l.Refs, func(ref LetterRef) bool { return isOf(topic, ref.Topic, l.Force) })
}
