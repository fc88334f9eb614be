package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// all gives back everything, as if Kafka had acknowledged it.
func all(_ context.Context, events []*relay.Event) []relay.Ref {
	refs := make([]relay.Ref, len(events))
	for i, e := range events {
		refs[i] = e.Ref()
	}
	return refs
}

func TestAPassThatLosesItsTransactionInterruptsPublishing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c := openCompeting(t, db)
	c.every = 5 * time.Millisecond
	insert(t, db, relay.Key{Topic: "t", PartitionKey: "k"}, 3)
	_, err := c.Pass(t.Context(), competing.Ask{Limit: 10, Bytes: 1 << 20}, func(ctx context.Context, events []*relay.Event) []relay.Ref {
		// Its sign of life may be under way at this moment.
		exec(t, db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()`)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, errHoldLost) {
			t.Errorf("publish was interrupted by %v, want errHoldLost", cause)
		}
		return all(ctx, events)
	})
	if err == nil {
		t.Error("Pass has no error")
	}
	same(t, "published", published(t, db), nil)
}

// Without a sign of life the server would end the transaction, and free its rows, while Kafka still has them.
func TestAPassKeepsItsTransactionAlive(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c := openCompeting(t, db)
	c.every = 20 * time.Millisecond
	insert(t, db, relay.Key{Topic: "t", PartitionKey: "k"}, 1)
	got, err := c.Pass(t.Context(), competing.Ask{Limit: 10, Bytes: 1 << 20}, func(ctx context.Context, events []*relay.Event) []relay.Ref {
		last := queryOne[time.Time](t, db, `SELECT clock_timestamp()`)
		eventually(t, "signs of life in the transaction", func() bool {
			return queryOne[int](t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND query = 'SELECT 1' AND state_change > $1`, last) == 1
		})
		return all(ctx, events)
	})
	if err != nil || got.Settled != 1 {
		t.Errorf("Pass = %+v, %v; want one event settled", got, err)
	}
}

func TestAPassLeavesOutWhatIsHeldLockedOrTooMuch(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c := openCompeting(t, db)
	key := func(topic, key string) relay.Key { return relay.Key{Topic: topic, PartitionKey: key} }
	insert(t, db, key("t", "held"), 1)
	insert(t, db, key("held", "k"), 1)
	locked := insert(t, db, key("t", "locked"), 1)
	insert(t, db, key("t", "k"), 5)
	insert(t, db, key("other", "held"), 1)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Rollback(tx)
	if _, err := tx.Exec(t.Context(), `SELECT FROM outbox_event WHERE id = $1 FOR UPDATE`, locked[0].ID); err != nil {
		t.Fatal(err)
	}
	ask := competing.Ask{Limit: 4, Bytes: 1 << 20, HeldKeys: []relay.Key{key("t", "held")}, HeldTopics: []string{"held"}}
	pass := func(want competing.Result, wantIDs []int64) {
		t.Helper()
		got, err := c.Pass(t.Context(), ask, all)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the pass", got, want)
		same(t, "published", published(t, db), wantIDs)
	}
	pass(competing.Result{Handed: 4, Settled: 4, More: true}, []int64{4, 5, 6, 7})
	ask.Bytes = 1
	pass(competing.Result{Handed: 1, Settled: 1, More: true}, []int64{4, 5, 6, 7, 8})
	pass(competing.Result{Handed: 1, Settled: 1}, []int64{4, 5, 6, 7, 8, 9})
	pass(competing.Result{}, []int64{4, 5, 6, 7, 8, 9})
}

func TestCompetingRelaysMark(t *testing.T) {
	t.Parallel()
	_, err := NewCompeting(newDatabase(t), Config{Settle: Delete})
	wantText(t, err, "mark", "delete")
}

func TestAClosedCompetingSourceStaysClosed(t *testing.T) {
	t.Parallel()
	c := openCompeting(t, newDatabase(t))
	c.Close()
	c.Close()
	_, err := c.Open(t.Context())
	wantText(t, err, "closed")
	_, err = c.Pass(t.Context(), competing.Ask{Limit: 1}, all)
	wantText(t, err, "not open")
}
