package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// backToCompeting has a parked key with two events, one event of another key, and a competing relay that is registered.
func backToCompeting(t *testing.T) (c *Competing, o *Operator, refs []relay.Ref) {
	t.Helper()
	db, _, _, refs := stopped(t)
	expire(t, db)
	other := insert(t, db, relay.Key{Topic: orders.Topic, PartitionKey: "another"}, 1)
	c = openCompeting(t, db)
	if err := c.Register(t.Context(), owner("competing:1"), ttl); err != nil {
		t.Fatal(err)
	}
	return c, newOperator(t, db), append(refs, other...)
}

func passAll(t *testing.T, c *Competing) {
	t.Helper()
	if _, err := c.Pass(t.Context(), competing.Ask{Limit: 10, Bytes: 1 << 20}, all); err != nil {
		t.Fatal(err)
	}
}

func ids(refs []relay.Ref) (ids []int64) {
	for _, r := range refs {
		ids = append(ids, r.ID)
	}
	return ids
}

// An operator has been promised that a parked key waits; that the mode changes is no answer to what stopped it.
func TestAKeyStaysParkedInModeCompeting(t *testing.T) {
	t.Parallel()
	c, o, refs := backToCompeting(t)
	passAll(t, c)
	same(t, "published beside the parked key", published(t, o.db.Pool), ids(refs[2:]))
	info, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(info.Warnings, "\n"); !strings.Contains(said, "leaves their events out: 1; see outbox keys list") {
		t.Errorf("the warnings say %q, want how many keys are left out", said)
	}
}

func TestAParkedKeyGoesOnWhileACompetingRelayLives(t *testing.T) {
	t.Parallel()
	for verb, first := range map[string]int{VerbUnpark: 0, VerbSkip: 1} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			c, o, refs := backToCompeting(t)
			if out := ask(t, o, verb); out.Problem != "" {
				t.Fatalf("outcome = %+v, want it done", out)
			}
			passAll(t, c)
			same(t, "published", published(t, o.db.Pool), ids(refs[first:]))
			same(t, "lanes that the command has leased", queryOne[int](t, o.db.Pool, `SELECT count(*) FROM outbox.lane WHERE owner IS NOT NULL`), 0)
			same(t, "dead events", queryOne[int](t, o.db.Pool, `SELECT count(*) FROM outbox.dead_event`), first)
		})
	}
}

// A relay of another kind looks at no parked key: what it is publishing must not be given up at the same time.
func TestSkippingWaitsForARelayThatHasTheRow(t *testing.T) {
	t.Parallel()
	_, o, refs := backToCompeting(t)
	tx, err := o.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Rollback(tx)
	if _, err := tx.Exec(t.Context(), `SELECT FROM outbox_event WHERE id = $1 FOR UPDATE`, refs[0].ID); err != nil {
		t.Fatal(err)
	}
	id, err := o.Request(t.Context(), VerbSkip, orders, "ann", "")
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan Outcome, 1)
	go func() {
		out, err := o.Await(context.WithoutCancel(t.Context()), id)
		if err != nil {
			t.Errorf("Await = %v", err)
		}
		answered <- out
	}()
	if err := o.StandIn(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "open requests while the row is locked", openRequestCount(t, o.db.Pool), 1)
	if _, err := tx.Exec(t.Context(), `UPDATE outbox_event SET published_at = now() WHERE id = $1`, refs[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := <-answered; !strings.Contains(out.Text, "unparked: the event that stopped the key is not waiting") {
		t.Errorf("outcome = %+v, want that the event was not skipped", out)
	}
}

// The relay that leases lanes has the key in flight perhaps: nothing is decided over its head.
func TestNothingIsDecidedWithoutLanesWhileOneIsLeased(t *testing.T) {
	t.Parallel()
	_, o, _ := backToCompeting(t)
	if _, err := o.Request(t.Context(), VerbUnpark, orders, "ann", ""); err != nil {
		t.Fatal(err)
	}
	exec(t, o.db.Pool, `UPDATE outbox.lane SET owner = gen_random_uuid(), epoch = 9, expires_at = clock_timestamp() + interval '1 h' WHERE lane = 3`)
	row, err := o.db.Source(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newRequests(o.db, row).withoutLanes(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "open requests", queryOne[int](t, o.db.Pool, `SELECT count(*) FROM outbox.request WHERE done_at IS NULL`), 1)
}
