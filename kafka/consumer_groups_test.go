package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
)

// namedDesk is a desk under another name.
type namedDesk struct {
	*desk
	name string
}

func (d namedDesk) Consumer() string { return d.name }

func TestTwoGroupsWithRetryTopicsHaveOneLetterEachForAnEvent(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.SeedTopics(2, orders)).ListenAddrs()
	produce(t, brokers, orders, 0, 3, 3)
	var groups []*Consumer
	for _, name := range []string{"billing", "search"} {
		d := namedDesk{&desk{handle: func(*inbox.Record) error { return errors.New("no such account") }}, name}
		c, _ := consume(t, d, ConsumerConfig{
			Config: Config{Brokers: brokers, CreateTopics: &TopicSpec{Partitions: 1, Replication: 1}}, Topics: []string{orders},
			Run: inbox.RunnerConfig{CommitInterval: 20 * time.Millisecond, Retry: inbox.Retry{
				Attempts: 1, Topics: []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}, GiveUp: inbox.DeadLetter,
			}},
		})
		groups = append(groups, c)
	}
	// Each reads three records of the topic, its own three twice more, and those of the other.
	eventually(t, "each group to have read the retry topics", func() bool {
		for _, c := range groups {
			if n := c.Stats(); n.Ignored+n.Retried+n.DeadLettered < 15 {
				return false
			}
		}
		return true
	})
	for _, c := range groups {
		if n := c.Stats(); n.DeadLettered != 3 || n.Retried != 6 || n.Ignored != 6 {
			t.Errorf("%+v, want 3 letters, 6 records sent to retry topics, and those of the other group ignored", n)
		}
	}
	reader := plainClient(t, brokers, kgo.ConsumeTopics(orders+"-dlt"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	letters := map[string]int{}
	for n := 0; n < 6; {
		for _, r := range received(reader.PollRecords(testContext(t), 10).Records()) {
			letters[inbox.ReadLetter(r).Consumer]++
			n++
		}
	}
	if letters["billing"] != 3 || letters["search"] != 3 {
		t.Errorf("the letters are %v, want 3 of each group", letters)
	}
}
