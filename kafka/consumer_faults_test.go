package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
)

// limited makes a topic of one partition whose records may have so many bytes.
func limited(t *testing.T, admin *kadm.Client, topic, limit string) {
	t.Helper()
	if _, err := admin.CreateTopic(testContext(t), 1, 1, map[string]*string{"max.message.bytes": &limit}, topic); err != nil {
		t.Fatal(err)
	}
}

// A client's own limit for a batch is smaller than what topics may take, and is that of no topic.
func TestALargeRecordGoesToItsDeadLetterTopicWhenThatTakesIt(t *testing.T) {
	t.Parallel()
	brokers := fake(t).ListenAddrs()
	client := plainClient(t, brokers, kgo.ProducerBatchMaxBytes(10<<20))
	admin := kadm.NewClient(client)
	limited(t, admin, orders, "8000000")
	limited(t, admin, orders+"-dlt", "1048588")
	value := bytes.Repeat([]byte("x"), 2<<20)
	if err := client.ProduceSync(testContext(t), &kgo.Record{Topic: orders, Key: []byte("k"), Value: value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c, stop := consume(t, &desk{handle: func(*inbox.Record) error { return inbox.Permanent(errors.New("no such account")) }}, ConsumerConfig{
		Config: Config{Brokers: brokers}, Topics: []string{orders},
		Run: inbox.RunnerConfig{Retry: inbox.Retry{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, GiveUp: inbox.DeadLetter}},
	})
	eventually(t, "the dead-letter topic to refuse it", func() bool { return c.Stats().Failures > 1 })
	if c.Stats().DeadLettered != 0 || committed(t, brokers, "desk") != 0 {
		t.Errorf("%+v: a topic has taken more than it takes", c.Stats())
	}
	raised := "8000000"
	if _, err := admin.AlterTopicConfigs(testContext(t), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &raised}}, orders+"-dlt"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the record to be given up", func() bool { return c.Stats().DeadLettered == 1 })
	stop()
	reader := plainClient(t, brokers, kgo.ConsumeTopics(orders+"-dlt"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if got := reader.PollRecords(testContext(t), 1).Records(); len(got) != 1 || !bytes.Equal(got[0].Value, value) {
		t.Errorf("the dead-letter topic has %d records", len(got))
	}
}

func TestRecordsThatAreRemovedBehindAStuckKeyAreReported(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.SeedTopics(1, orders)).ListenAddrs()
	var healed atomic.Bool
	d := &desk{handle: func(r *inbox.Record) error {
		if string(r.Key) == "0" && !healed.Load() {
			return errors.New("no such account")
		}
		return nil
	}}
	said := &await.Journal{}
	produce(t, brokers, orders, 0, 2000, 100)
	c, _ := consume(t, d, ConsumerConfig{
		Config: Config{Brokers: brokers, Logger: slog.New(slog.NewTextHandler(said, nil))}, Topics: []string{orders},
		Run: inbox.RunnerConfig{MaxUncommitted: 100, Retry: inbox.Retry{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond}},
	})
	eventually(t, "the partition to be full", func() bool { return c.Stats().InFlight >= 100 && c.Stats().Failures > 20 })
	var before kadm.Offsets
	before.AddOffset(orders, 0, 1500, -1)
	if _, err := kadm.NewClient(plainClient(t, brokers)).DeleteRecords(testContext(t), before); err != nil {
		t.Fatal(err)
	}
	healed.Store(true)
	eventually(t, "the group to go on with the oldest", func() bool { return committed(t, brokers, "desk") == 2000 })
	if !said.Says("records were removed before they were handled") || !said.Says("to=1500") {
		t.Errorf("the log says nothing of what was removed: %s", said.Text())
	}
}

// What a transaction took back, and the ends of transactions, are nothing that was to be handled.
func TestTheRemovalOfWhatATransactionTookBackIsNoLoss(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.SeedTopics(1, orders)).ListenAddrs()
	client := plainClient(t, brokers, kgo.TransactionalID("x"))
	said := &await.Journal{}
	d := &desk{}
	c, _ := consume(t, d, ConsumerConfig{Config: Config{Brokers: brokers, Logger: slog.New(slog.NewTextHandler(said, nil))}, Topics: []string{orders}})
	at := func(end int64) bool {
		c.log.mu.Lock()
		defer c.log.mu.Unlock()
		return c.log.from[inbox.Partition{Topic: orders}] == end
	}
	transact(t, client, 3, kgo.TryCommit)
	transact(t, client, 5, kgo.TryAbort)
	eventually(t, "the consumer to be behind the transactions", func() bool { return d.handled() == 3 && at(10) })
	var before kadm.Offsets
	before.AddOffset(orders, 0, 10, -1)
	if _, err := kadm.NewClient(plainClient(t, brokers)).DeleteRecords(testContext(t), before); err != nil {
		t.Fatal(err)
	}
	transact(t, client, 1, kgo.TryCommit)
	eventually(t, "the next record", func() bool { return d.handled() == 4 && committed(t, brokers, "desk") >= 11 })
	if said.Says("records were removed") {
		t.Errorf("an alarm: %s", said.Text())
	}
}

func TestAStopWithoutKafkaEndsInTime(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*kfake.Cluster, *valve){
		"it is down":          func(c *kfake.Cluster, _ *valve) { c.Close() },
		"the cable is pulled": func(_ *kfake.Cluster, v *valve) { v.shut() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newValve()
			cluster := fake(t, kfake.SeedTopics(1, orders), kfake.ListenFn(v.listen))
			t.Cleanup(v.heal)
			produce(t, cluster.ListenAddrs(), orders, 0, 20, 4)
			d := &desk{}
			c, err := NewConsumer(d, ConsumerConfig{Config: Config{Brokers: cluster.ListenAddrs()}, Topics: []string{orders}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			eventually(t, "all to be handled", func() bool { return d.handled() == 20 })
			end(cluster, v)
			began := time.Now()
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("Run = %v", err)
				}
				t.Logf("it took %s", time.Since(began))
			case <-time.After(patience):
				t.Errorf("a consumer that cannot reach Kafka has not ended within %s", patience)
			}
		})
	}
}

func TestATopicThatIsCalledLikeARetryTopicIsRefused(t *testing.T) {
	t.Parallel()
	_, err := NewConsumer(&desk{}, ConsumerConfig{
		Config: Config{Brokers: []string{"127.0.0.1:9092"}}, Topics: []string{"a", "b-retry-1000", "c-retry-2000"},
		Run: inbox.RunnerConfig{Retry: inbox.Retry{GiveUp: inbox.DeadLetter, Topics: []time.Duration{time.Second}}},
	})
	if err == nil || !strings.Contains(err.Error(), `"b-retry-1000" is called like a retry topic`) || strings.Contains(err.Error(), "c-retry-2000") {
		t.Errorf("%v", err)
	}
}

func TestTheGroupWaitsLongerThanAMemberDrains(t *testing.T) {
	t.Parallel()
	for drain, want := range map[time.Duration]time.Duration{0: time.Minute, 20 * time.Second: time.Minute, 5 * time.Minute: 5*time.Minute + 30*time.Second} {
		if got := rebalanceTimeout(drain); got != want {
			t.Errorf("with %s of draining it waits %s, want %s", drain, got, want)
		}
	}
}

// Kafka deletes no single records: who wants to be rid of letters of a compacted topic makes it anew.
func TestADeadLetterTopicThatIsMadeAgainTakesLetters(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.SeedTopics(1, orders, orders+"-dlt")).ListenAddrs()
	c, _ := consume(t, &desk{handle: func(*inbox.Record) error { return inbox.Permanent(errors.New("no such account")) }}, ConsumerConfig{
		Config: Config{Brokers: brokers}, Topics: []string{orders},
		Run: inbox.RunnerConfig{Retry: inbox.Retry{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, GiveUp: inbox.DeadLetter}},
	})
	produce(t, brokers, orders, 0, 1, 1)
	eventually(t, "the first letter", func() bool { return c.Stats().DeadLettered == 1 })
	admin := kadm.NewClient(plainClient(t, brokers))
	if _, err := admin.DeleteTopic(testContext(t), orders+"-dlt"); err != nil {
		t.Fatal(err)
	}
	limited(t, admin, orders+"-dlt", "1048588")
	produce(t, brokers, orders, 1, 20, 5)
	eventually(t, "all letters", func() bool { return c.Stats().DeadLettered == 21 })
	reader := plainClient(t, brokers, kgo.ConsumeTopics(orders+"-dlt"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for got := 0; got < 20; {
		fetches := reader.PollRecords(testContext(t), 20)
		if err := fetches.Err(); err != nil {
			t.Fatalf("the new topic has %d letters: %v", got, err)
		}
		got += fetches.NumRecords()
	}
}

// A key of the old topic that was stuck stops nothing of the new one.
func TestAPartitionThatWasPausedIsReadWhenItsTopicIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, nextGen := range map[string]bool{"members assign": false, "brokers assign": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokers := fake(t, kfake.SeedTopics(2, orders)).ListenAddrs()
			d := &desk{handle: func(r *inbox.Record) error {
				if string(r.Value) == "stuck" {
					return errors.New("no such account")
				}
				return nil
			}}
			into := func(partition int32, n int, value string) {
				t.Helper()
				client := plainClient(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
				for i := range n {
					if err := client.ProduceSync(testContext(t), &kgo.Record{Topic: orders, Partition: partition, Key: fmt.Append(nil, value, i), Value: []byte(value)}).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}
			into(0, 1, "stuck")
			into(0, 150, "old")
			into(1, 5, "old")
			said := &await.Journal{}
			c, _ := consume(t, d, ConsumerConfig{
				Config: Config{Brokers: brokers, Logger: slog.New(slog.NewTextHandler(said, nil))}, Topics: []string{orders}, NextGen: nextGen,
				Run: inbox.RunnerConfig{MaxUncommitted: 100, Retry: inbox.Retry{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond}},
			})
			paused := func() bool { return len(c.log.client.PauseFetchPartitions(nil)[orders]) > 0 }
			eventually(t, "the partition to be paused", func() bool { return c.Stats().Failures > 20 && paused() })
			admin := kadm.NewClient(plainClient(t, brokers))
			if _, err := admin.DeleteTopic(testContext(t), orders); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.CreateTopic(testContext(t), 2, 1, nil, orders); err != nil {
				t.Fatal(err)
			}
			into(0, 20, "new")
			into(1, 10, "new")
			eventually(t, "the consumer to notice", func() bool { return said.Says("topics were deleted") })
			eventually(t, "the new records", func() bool { return committed(t, brokers, "desk") == 30 })
		})
	}
}

// The group has nothing left to do behind the end of a transaction, and nothing is missing when that is removed while no member is there.
func TestAGroupIsBehindTheEndOfATransaction(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.SeedTopics(1, orders)).ListenAddrs()
	client := plainClient(t, brokers, kgo.TransactionalID("x"))
	said := &await.Journal{}
	cfg := ConsumerConfig{Config: Config{Brokers: brokers, Logger: slog.New(slog.NewTextHandler(said, nil))}, Topics: []string{orders}}
	d := &desk{}
	_, stop := consume(t, d, cfg)
	transact(t, client, 3, kgo.TryCommit)
	eventually(t, "the group to be at the end", func() bool { return committed(t, brokers, "desk") == 4 })
	transact(t, client, 5, kgo.TryAbort)
	eventually(t, "the group to be at the end again", func() bool { return committed(t, brokers, "desk") == 10 })
	stop()
	var before kadm.Offsets
	before.AddOffset(orders, 0, 10, -1)
	if _, err := kadm.NewClient(client).DeleteRecords(testContext(t), before); err != nil {
		t.Fatal(err)
	}
	_, stop = consume(t, d, cfg)
	transact(t, client, 1, kgo.TryCommit)
	eventually(t, "the next record", func() bool { return d.handled() == 4 && committed(t, brokers, "desk") == 12 })
	stop()
	if said.Says("records were removed") {
		t.Errorf("an alarm: %s", said.Text())
	}
}

// transact makes a transaction of n records, and ends it.
func transact(t *testing.T, client *kgo.Client, n int, end kgo.TransactionEndTry) {
	t.Helper()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := client.ProduceSync(testContext(t), &kgo.Record{Topic: orders, Value: []byte("{}")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.EndTransaction(testContext(t), end); err != nil {
		t.Fatal(err)
	}
}
