//go:build integration && unix

package consumer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/kafka"
)

// A handler that takes longer than the session lasts keeps its partition: heartbeats do not wait for it.
func TestAHandlerThatIsSlowerThanTheSessionKeepsItsPartition(t *testing.T) {
	t.Parallel()
	m := newMailroom(t)
	var once sync.Once
	m.first = func(context.Context, inbox.Event[paid]) error {
		once.Do(func() { <-time.After(sessionTimeout * 3 / 2) })
		return nil
	}
	m.into(0, 0, 20)
	c, _ := m.consume(func(cfg *kafka.ConsumerConfig) { cfg.SessionTimeout = sessionTimeout })
	await.Until(t, "all is handled and committed", func() bool { return c.Stats().Handled == 20 && m.committedOffsets() == 20 })
	if s := c.Stats(); s.Repeats+s.Failures != 0 {
		t.Errorf("%+v", s)
	}
}

// Kafka is gone when the consumer is told to stop. It ends all the same, and what it could not commit comes again as repeats.
func TestAConsumerStopsAlthoughKafkaIsGone(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]struct {
		leave, comeBack func(*devkafka.Node, context.Context) error
	}{
		"killed": {func(n *devkafka.Node, _ context.Context) error { return n.Kill() }, func(n *devkafka.Node, ctx context.Context) error { return n.Restart(ctx) }},
		"frozen": {func(n *devkafka.Node, _ context.Context) error { return n.Pause() }, func(n *devkafka.Node, _ context.Context) error { return n.Continue() }},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := devkafka.Start(t.Context(), devkafka.Options{Config: shortSessions})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := cluster.Close(); err != nil {
					t.Error(err)
				}
			})
			m := newMailroomOn(t, cluster.Brokers())
			m.into(0, 0, 100)
			// Nothing is committed before the stop.
			quiet := func(cfg *kafka.ConsumerConfig) {
				cfg.Run.CommitInterval, cfg.SessionTimeout = time.Hour, sessionTimeout
			}
			_, stop := m.consume(quiet)
			await.Until(t, "all is handled", func() bool { return m.count(effects) == 100 })
			node := cluster.Nodes()[0]
			if err := gone.leave(node, t.Context()); err != nil {
				t.Fatal(err)
			}
			stopped := make(chan struct{})
			began := time.Now()
			go func() {
				defer close(stopped)
				stop()
			}()
			select {
			case <-stopped:
				t.Logf("stopped in %s", time.Since(began).Round(time.Millisecond))
			case <-time.After(await.Limit):
				t.Error("the consumer does not stop")
			}
			if err := gone.comeBack(node, t.Context()); err != nil {
				t.Fatal(err)
			}
			<-stopped
			c, _ := m.consume()
			await.Until(t, "the records come again", func() bool { return c.Stats().Repeats == 100 })
			if n := m.count(effects); n != 100 {
				t.Errorf("%d effects of 100 events", n)
			}
			await.Until(t, "all is committed", func() bool {
				offsets, err := kadm.NewClient(m.client).FetchOffsets(t.Context(), m.group)
				at, _ := offsets.Lookup(m.topic, 0)
				return err == nil && at.At == 100
			})
		})
	}
}
