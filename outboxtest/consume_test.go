package outboxtest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/outboxtest"
)

func TestEverythingIsHandledOrHasFailedWhenConsumeReturns(t *testing.T) {
	t.Parallel()
	db, brokers := pgtest.New(t), outboxtest.Kafka(t, "quiet")
	p := processor(t, db)
	for n := range 100 {
		commit(t, db, event("seen.v1", fmt.Sprint("key-", n)))
	}
	commit(t, db, event("seen.v1", "bad"), event("seen.v1", "bad"), event("other.v1", "bad"))
	outboxtest.Drain(t, db.Pool(t), brokers)
	got := outboxtest.Consume(t, p, brokers, "shop.order", "quiet")
	if got.Handled != 100 || got.Repeats != 0 || got.Ignored != 1 || len(got.Failed) != 2 || seen(t, db) != 100 {
		t.Errorf("got %+v and %d effects; want 100 handled, 1 ignored, 2 failed, 100 effects", got, seen(t, db))
	}
	for _, f := range got.Failed {
		want(t, f.String(), `seen.v1, key "bad" at shop.order, partition `, ": key bad is bad")
	}
	// Again: what was handled is a repeat.
	failure := failureOf(t, func(tb testing.TB) { outboxtest.RequireConsumed(tb, p, brokers, "shop.order") })
	want(t, failure, "2 of 103 records not handled", "key bad is bad")
	if n := seen(t, db); n != 100 {
		t.Errorf("%d effects after a repeat, want 100", n)
	}
	if got := outboxtest.RequireConsumed(t, p, brokers, "quiet"); got.Handled+got.Repeats != 0 {
		t.Errorf("an empty topic: %+v", got)
	}
}

// A handler that publishes, as a service with a relay of its own does: what it adds while the topics are read is handled as well.
func TestWhatIsAddedMeanwhileIsHandledToo(t *testing.T) {
	t.Parallel()
	db, brokers := pgtest.New(t), outboxtest.Kafka(t)
	pool := db.Pool(t)
	const steps = 5
	handlers := inbox.NewHandlers[pgx.Tx]()
	inbox.On(handlers, "step.v1", func(ctx context.Context, _ pgx.Tx, e inbox.Event[struct{ N int }]) error {
		if e.Payload.N == steps {
			return nil
		}
		commit(t, db, outbox.Event{AggregateType: "Step", AggregateID: fmt.Sprint(e.Payload.N), Type: "step.v1", Topic: "steps", Payload: map[string]int{"n": e.Payload.N + 1}})
		outboxtest.Drain(t, pool, brokers)
		return nil
	})
	p, err := inbox.NewProcessor("walker", inbox.Pool(pool), handlers, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, db, outbox.Event{AggregateType: "Step", AggregateID: "0", Type: "step.v1", Topic: "steps", Payload: map[string]int{"n": 1}})
	outboxtest.Drain(t, pool, brokers)
	if got := outboxtest.RequireConsumed(t, p, brokers, "steps"); got.Handled != steps {
		t.Errorf("%d steps, want %d", got.Handled, steps)
	}
}

func TestWhatCannotBeConsumedAtAllFailsTheTest(t *testing.T) {
	t.Parallel()
	db, brokers := pgtest.New(t), outboxtest.Kafka(t)
	p := processor(t, db)
	want(t, failureOf(t, func(tb testing.TB) { outboxtest.Consume(tb, p, brokers, "nowhere") }), "nowhere", "is each of them there?")
	want(t, failureOf(t, func(tb testing.TB) { outboxtest.Consume(tb, p, brokers) }), "name at least one topic")
	commit(t, db, event("seen.v1", "a"))
	outboxtest.Drain(t, db.Pool(t), brokers)
	gone := pgtest.New(t, pgtest.Empty).Pool(t)
	handlers := inbox.NewHandlers[pgx.Tx]()
	inbox.On(handlers, "seen.v1", func(context.Context, pgx.Tx, inbox.Event[[]byte]) error { return nil })
	away, err := inbox.NewProcessor("seer", inbox.Pool(gone), handlers, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	want(t, failureOf(t, func(tb testing.TB) { outboxtest.Consume(tb, away, brokers, "shop.order") }), "shop.order, partition", "not available")
}

// What a transaction of Kafka leaves in a topic besides its records is no record, and what it has taken back is none either.
func TestTopicsThatEndWithATransactionAreReadToTheirEnd(t *testing.T) {
	t.Parallel()
	db, brokers := pgtest.New(t), outboxtest.Kafka(t, "shop.order")
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.TransactionalID("exactly-once"), kgo.DefaultProduceTopic("shop.order"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for key, end := range map[string]kgo.TransactionEndTry{"kept": kgo.TryCommit, "taken back": kgo.TryAbort} {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Key: []byte(key), Value: []byte("{}"), Headers: []kgo.RecordHeader{{Key: "x-event-id", Value: []byte(key)}, {Key: "x-event-type", Value: []byte("seen.v1")}}}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	if got := outboxtest.RequireConsumed(t, processor(t, db), brokers, "shop.order"); got.Handled != 1 {
		t.Errorf("got %+v, want one handled", got)
	}
}
