package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/relay"
)

// mortal is a publisher that events of one type end, with the process.
type mortal struct {
	relay.Publisher
	of string
}

func (m mortal) Publish(events []*relay.Event, done func(*relay.Event, error)) {
	for _, e := range events {
		if m.of != "" && e.Type == m.of {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	m.Publisher.Publish(events, done)
}

func TestProcessesThatOneEventKillsFindItAndParkItsKey(t *testing.T) {
	t.Parallel()
	c := newCrashBench(t, rand.New(rand.NewPCG(1, 1)))
	c.write(t, 100)
	c.add(t, "deadly", "order.deadly.v1")
	c.write(t, 100)
	c.add(t, "deadly", "order.changed.v1")
	deaths := 0
	for ; !c.runMortal(t); deaths++ {
		if deaths > 10 {
			t.Fatal("ten relays were killed, and the key is not parked")
		}
	}
	// The first death is not written down, five are.
	if deaths != 6 {
		t.Errorf("%d relays were killed, want 6", deaths)
	}
	var got string
	err := c.pool.QueryRow(t.Context(), `
SELECT concat_ws(' / ', (SELECT concat_ws(' ', code, event_type, partition_key) FROM outbox.parked_key), (SELECT string_agg(concat_ws(' ', partition_key, attempts, crashes), ', ') FROM outbox.failure),
    (SELECT count(*) FROM outbox_event WHERE published_at IS NULL))`).Scan(&got)
	if want := "CRASH_LOOP order.deadly.v1 deadly / deadly 5 0 / 2"; err != nil || got != want {
		t.Errorf("parked key / records / unpublished: %s, %v; want %s", got, err, want)
	}
}

// add commits one event.
func (c *crashBench) add(t *testing.T, key, eventType string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) error {
		_, err := c.events.Write(t.Context(), tx, outbox.Event{AggregateType: "Order", AggregateID: key, Type: eventType, Topic: c.topic, Payload: map[string]int{"n": 1}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// runMortal runs a relay until it has published all that it can, or is killed; then false.
func (c *crashBench) runMortal(t *testing.T) (survived bool) {
	t.Helper()
	c.expireLeases(t)
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	var out bytes.Buffer
	cmd := c.command(ctx, &out, crashType+"=order.deadly.v1")
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("the relay has not ended:\n%s", out.String())
	}
	if err == nil {
		return true
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatal(fmt.Errorf("%w:\n%s", err, out.String()))
	}
	return false
}
