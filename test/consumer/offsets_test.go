//go:build integration && unix

package consumer_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/kafka"
)

// into gives a partition the events of some numbers, of ten accounts.
func (m *mailroom) into(partition int32, from, to int) {
	m.Helper()
	var all []*kgo.Record
	for n := from; n < to; n++ {
		all = append(all, m.event(n, 0))
	}
	m.produceInto(partition, all...)
}

func (m *mailroom) produceInto(partition int32, records ...*kgo.Record) {
	m.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(m.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(10_000_000))
	if err != nil {
		m.Fatal(err)
	}
	defer client.Close()
	for _, r := range records {
		r.Partition = partition
	}
	if err := client.ProduceSync(m.Context(), records...).FirstErr(); err != nil {
		m.Fatal(err)
	}
}

// removed deletes what is before an offset, as retention does.
func (m *mailroom) removed(partition int32, before int64) {
	m.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: m.topic, Partition: partition, At: before})
	answers, err := kadm.NewClient(m.client).DeleteRecords(m.Context(), offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		m.Fatal(err)
	}
}

// missing is how many records the consumers have said to be missing.
func (m *mailroom) missing() (sum int) {
	for _, found := range regexp.MustCompile(`records were removed before they were handled.* records=(\d+)`).FindAllStringSubmatch(m.journal.Text(), -1) {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			m.Fatal(err)
		}
		sum += n
	}
	return sum
}

func bothWays(t *testing.T, test func(t *testing.T, nextGen func(*kafka.ConsumerConfig))) {
	for name, nextGen := range map[string]bool{"members assign": false, "brokers assign": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(cfg *kafka.ConsumerConfig) { cfg.NextGen = nextGen })
		})
	}
}

func TestWhatRetentionRemovesWhileTheConsumerIsAwayIsCounted(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, nextGen func(*kafka.ConsumerConfig)) {
		m := newMailroom(t)
		m.into(1, 0, 100)
		_, stop := m.consume(nextGen)
		await.Until(t, "the first ones are handled", func() bool { return m.count(effects) == 100 })
		stop()
		m.into(1, 100, 200)
		m.removed(1, 130)
		m.consume(nextGen)
		await.Until(t, "what is left is handled", func() bool { return m.count(effects) == 170 })
		if n := m.missing(); n != 30 {
			t.Errorf("%d records are said to be missing of 30", n)
		}
	})
}

// A key that is stuck has its partition paused, until retention has passed it.
func TestWhatRetentionRemovesInFrontOfARunningConsumerIsCounted(t *testing.T) {
	t.Parallel()
	const all, left = 6000, 50
	m := newMailroom(t)
	stuck := make(chan struct{})
	m.first = func(ctx context.Context, e inbox.Event[paid]) error {
		if e.Payload.Seq != 0 {
			return nil
		}
		select {
		case <-stuck:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.into(1, 0, 200)
	c, _ := m.consume(func(cfg *kafka.ConsumerConfig) { cfg.Run.MaxUncommitted = 100 })
	await.Until(t, "the partition is full", func() bool { return c.Stats().InFlight >= 100 })
	m.into(1, 200, all)
	m.removed(1, all-left)
	close(stuck)
	await.Until(t, "what is left is handled", func() bool {
		return m.count(fmt.Sprintf(`SELECT count(*) FROM effect WHERE seq >= %d`, all-left)) == left
	})
	handled := m.count(effects)
	if n := m.missing(); n == 0 || n+handled != all {
		t.Errorf("%d records are handled and %d said to be missing, of %d", handled, n, all)
	}
}

// The new topic has more records than the group had read of the old one: an offset that was left over would hide some.
func TestATopicThatWasMadeAgainIsReadFromItsStart(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]bool{"in front of a running consumer": false, "while the consumer is away": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothWays(t, func(t *testing.T, nextGen func(*kafka.ConsumerConfig)) {
				m := newMailroom(t)
				m.into(1, 0, 100)
				_, stop := m.consume(nextGen)
				await.Until(t, "the old ones are handled", func() bool { return m.count(effects) == 100 })
				if away {
					stop()
				}
				m.makeTopicAgain()
				m.into(1, 100, 250)
				if away {
					_, stop = m.consume(nextGen)
				}
				await.Until(t, "the new ones are handled", func() bool { return m.count(effects) == 250 })
				if !away && !m.journal.Says("topics were deleted") {
					t.Errorf("nothing is said of it:\n%s", m.journal.Text())
				}
				stop()
				committed, err := kadm.NewClient(m.client).FetchOffsets(t.Context(), m.group)
				if err != nil {
					t.Fatal(err)
				}
				if at, _ := committed.Lookup(m.topic, 1); at.At != 150 {
					t.Errorf("the group goes on at %d of 150", at.At)
				}
			})
		})
	}
}

func (m *mailroom) makeTopicAgain() {
	m.Helper()
	if _, err := kadm.NewClient(m.client).DeleteTopic(m.Context(), m.topic); err != nil {
		m.Fatal(err)
	}
	await.Until(m, "the topic is made again", func() bool { return devkafka.CreateTopic(m.Context(), m.brokers, m.topic, 3, nil) == nil })
}

func TestPartitionsThatAreAddedAreReadFromTheirStart(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, nextGen func(*kafka.ConsumerConfig)) {
		m := newMailroom(t)
		m.into(0, 0, 100)
		c, _ := m.consume(nextGen)
		await.Until(t, "the first ones are handled", func() bool { return m.count(effects) == 100 })
		if _, err := kadm.NewClient(m.client).UpdatePartitions(t.Context(), 6, m.topic); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "all brokers know the partitions", func() bool {
			topics, err := kadm.NewClient(m.client).ListTopics(t.Context(), m.topic)
			return err == nil && len(topics[m.topic].Partitions.Numbers()) == 6
		})
		m.into(5, 100, 200)
		await.Until(t, "those of a new partition are handled", func() bool { return m.count(effects) == 200 })
		if s := c.Stats(); s.Failures+s.Repeats > 0 {
			t.Errorf("%+v", s)
		}
	})
}
