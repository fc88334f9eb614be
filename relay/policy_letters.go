package relay

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox/internal/engine"
	"github.com/outbox-relay/outbox/internal/topicname"
)

// TopicLister is an optional ability of a [Source]: it knows topics of its events.
type TopicLister interface {
	// Topics returns topics that rows of the table have, each once. It may leave some out: no index leads to them, and it takes a second or so at most.
	Topics(ctx context.Context) ([]string, error)
}

// lookForLetterTopics says which dead-letter topics of topics in the table take no letters: an event that has to go there stops its key. Nobody has named them one by
// one, so they stop nothing: most topics never need theirs. It asks once, before the relay works for the first time.
func (t *term) lookForLetterTopics(ctx context.Context) {
	lister, ok := t.source.(TopicLister)
	named := slices.ContainsFunc(t.cfg.Policies, func(p Policy) bool { return strings.Contains(p.DeadLetterTopic, topicPlaceholder) })
	if !ok || !named || t.life.Opened {
		return
	}
	topics, err := lister.Topics(ctx)
	if err != nil {
		t.cfg.Logger.Debug("look for topics in the table", "error", err)
		return
	}
	wanted := t.cfg.namedAfter(topics)
	found, err := t.publisher.CheckTopics(ctx, slices.Sorted(maps.Keys(wanted)))
	if err != nil {
		t.cfg.Logger.Debug("look at dead-letter topics", "error", err)
		return
	}
	t.warnOfLetterTopics(wanted, found)
}

// warnOfLetterTopics bounds its lines: where one is missing, all may be.
func (t *term) warnOfLetterTopics(wanted map[string]string, found map[string]error) {
	missing := 0
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if found[name] == nil || t.warned[name] {
			continue
		}
		if missing++; missing > burstLines {
			continue
		}
		t.warned[name] = true
		code, reason := ReasonOf(found[name])
		t.cfg.Logger.Warn("a dead-letter topic takes no letters: events that have to go there will stop their keys", "dead_letter_topic", name,
			"topic", engine.Short(wanted[name]), "code", code, "reason", reason)
	}
	if missing > burstLines {
		t.cfg.Logger.Warn("more dead-letter topics take no letters", "topics", missing-burstLines)
	}
}

// namedAfter returns the dead-letter topics that have their names from the given topics, and which topic each belongs to.
func (c *Config) namedAfter(topics []string) map[string]string {
	wanted := map[string]string{}
	for _, topic := range topics {
		p := c.policyOf(topic)
		if name := p.letterTopic(topic); strings.Contains(p.DeadLetterTopic, topicPlaceholder) && topicname.Check(name) == nil {
			wanted[name] = topic
		}
	}
	return wanted
}
