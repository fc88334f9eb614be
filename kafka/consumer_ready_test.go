package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/inbox"
)

// counter is a desk with a database that is asked for its tables.
type counter struct {
	*desk
	asked atomic.Int64
	check func(n int64) error
}

func (c *counter) Check(context.Context) error { return c.check(c.asked.Add(1)) }

func TestAConsumerEndsAtItsStartWhenItsDatabaseLacksSomething(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.SeedTopics(1, orders)).ListenAddrs()
	lacking := errors.New("run outbox migrate up")
	// What does not answer is asked again.
	d := &counter{desk: &desk{}, check: func(n int64) error {
		if n == 1 {
			return fmt.Errorf("%w: connection refused", inbox.ErrUnavailable)
		}
		return lacking
	}}
	c, err := NewConsumer(d, ConsumerConfig{Config: Config{Brokers: brokers}, Topics: []string{orders}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(testContext(t)); !errors.Is(err, lacking) || d.asked.Load() != 2 {
		t.Errorf("Run = %v after %d questions, want it to end with the second answer", err, d.asked.Load())
	}
}

func TestAConsumerBeginsWhenItsDatabaseIsThere(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.SeedTopics(1, orders)).ListenAddrs()
	produce(t, brokers, orders, 0, 5, 2)
	d := &counter{desk: &desk{}, check: func(n int64) error {
		if n < 3 {
			return fmt.Errorf("%w: connection refused", inbox.ErrUnavailable)
		}
		return nil
	}}
	consume(t, d, ConsumerConfig{Config: Config{Brokers: brokers}, Topics: []string{orders}})
	eventually(t, "all to be handled", func() bool { return d.handled() == 5 })
}
