package competing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox/relay"
)

// noteTopics writes down which topics are held, when that has changed: what the metric counts is then in the status too. Keys are not written down: nobody
// can do anything about one but mend the event, and it is tried again by itself.
func (t *term) noteTopics() error {
	_, errs := t.held.count()
	held := []relay.HeldTopic{}
	for _, name := range slices.Sorted(maps.Keys(errs)) {
		code, reason := reasonOf(errs[name])
		held = append(held, relay.HeldTopic{Topic: name, Code: code, Reason: reason})
	}
	if t.noted != nil && slices.Equal(t.noted, held) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.stop), attemptTimeout)
	defer cancel()
	if err := t.source.HoldTopics(ctx, t.owner, held); err != nil {
		return fmt.Errorf("write down the held topics: %w", err)
	}
	t.noted = held
	return nil
}

// reasonOf returns a failure's stable code, and what it says to people without naming the topic again.
func reasonOf(err error) (code, reason string) {
	var p *relay.PublishError
	if errors.As(err, &p) && p.Err != nil {
		return p.Code, p.Err.Error()
	}
	return "", err.Error()
}

// short bounds a text of the table for the log.
func short(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
