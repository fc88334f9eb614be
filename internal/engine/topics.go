package engine

import (
	"context"
	"errors"
	"time"
)

// TopicGrace is how long a topic may be missing before that counts: brokers learn of one that was just made, or that they make by themselves when they are asked
// for it, a moment later.
const TopicGrace = 5 * time.Second

// topicAgain is how long it is until they are asked again.
const topicAgain = 400 * time.Millisecond

// MissingTopics asks for topics that must exist, for up to TopicGrace, and returns what is wrong with those that are not in order then, in the order of the names;
// nil when all are. A deadline of ctx ends that earlier; err is check's own, or that ctx was cancelled.
func MissingTopics(ctx context.Context, names []string, check func(context.Context, []string) (map[string]error, error)) (missing, err error) {
	for until := time.Now().Add(TopicGrace); ; {
		found, err := check(ctx, names)
		if err != nil {
			return nil, err
		}
		var errs []error
		for _, name := range names {
			errs = append(errs, found[name])
		}
		if missing = errors.Join(errs...); missing == nil || !time.Now().Before(until) {
			return missing, nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return missing, nil
			}
			return nil, ctx.Err()
		case <-time.After(topicAgain):
		}
	}
}
