package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

func newOperator(t *testing.T, db *pgxpool.Pool) *Operator {
	t.Helper()
	o, err := NewOperator(db, Config{})
	if err != nil {
		t.Fatal(err)
	}
	o.every = 5 * time.Millisecond
	return o
}

// ask requests a verb for the key of the tests and awaits the outcome.
func ask(t *testing.T, o *Operator, verb string) Outcome {
	t.Helper()
	id, err := o.Request(t.Context(), verb, orders, "ann", "")
	if err != nil {
		t.Fatal(err)
	}
	out, err := o.Await(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheCommandDoesItWhenNoRelayIsAlive(t *testing.T) {
	t.Parallel()
	db, s, c, refs := stopped(t)
	expire(t, db)
	o := newOperator(t, db)
	keys, err := o.Parked(t.Context())
	if err != nil || len(keys) != 1 || keys[0].Event != refs[0] {
		t.Errorf("Parked = %+v, %v", keys, err)
	}
	out := ask(t, o, VerbSkip)
	if out.Problem != "" || out.At.IsZero() {
		t.Errorf("outcome = %+v, want it done", out)
	}
	same(t, "dead events", queryOne[int](t, db, `SELECT count(*) FROM outbox.dead_event`), 1)
	same(t, "lanes held afterwards", queryOne[int](t, db, `SELECT count(*) FROM outbox.lane WHERE owner IS NOT NULL`), 0)
	same(t, "relays shown afterwards", queryOne[[]string](t, db, `SELECT array(SELECT name FROM outbox.relay)`), []string{"a"})
	if err := s.Renew(t.Context(), c, ttl); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Renew of the relay that was not alive = %v, want ErrLeaseLost", err)
	}
}

func TestTheCommandDoesItWhileARelayOnlyStandsBy(t *testing.T) {
	t.Parallel()
	db, s, c, _ := stopped(t)
	expire(t, db)
	standBy(t, s, c.Owner, relay.Report{Silent: time.Hour})
	if out := ask(t, newOperator(t, db), VerbSkip); out.Problem != "" || out.At.IsZero() {
		t.Errorf("outcome = %+v, want it done", out)
	}
}

func TestTheCommandLeavesItToALiveRelay(t *testing.T) {
	t.Parallel()
	db, s, c, _ := stopped(t)
	o := newOperator(t, db)
	id, err := o.Request(t.Context(), VerbUnpark, orders, "ann", "mended")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if out, err := o.Await(ctx, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Await without the relay's answer = %+v, %v; want it to wait", out, err)
	} else {
		wantText(t, err, fmt.Sprintf("request %d ", id), "queued and may still be carried out; outbox events show tells")
	}
	same(t, "open requests", openRequestCount(t, db), 1)
	same(t, "relays shown", queryOne[[]string](t, db, `SELECT array(SELECT name FROM outbox.relay)`), []string{"a"})
	outcome := make(chan Outcome, 1)
	go func() {
		out, _ := o.Await(t.Context(), id)
		outcome <- out
	}()
	same(t, "released", carriedOut(t, s, c, always), []relay.Key{orders})
	same(t, "outcome", (<-outcome).Text, "unparked")
	if err := s.Renew(t.Context(), c, ttl); err != nil {
		t.Errorf("the relay lost its lease: %v", err)
	}
}

func TestACommandThatIsCutOffSaysThatItsRequestStays(t *testing.T) {
	t.Parallel()
	db, _, _, _ := stopped(t)
	expire(t, db)
	o := newOperator(t, db)
	id, err := o.Request(t.Context(), VerbUnpark, orders, "ann", "")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Rollback(tx)
	if _, err := tx.Exec(t.Context(), `LOCK TABLE outbox.lane IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = o.Await(ctx, id)
	wantText(t, err, "queued and may still be carried out; outbox events show tells")
}

func TestARefusedRequestSaysWhy(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	out := ask(t, newOperator(t, db), VerbUnpark)
	same(t, "problem", out.Problem, "the key is not parked")
}

func TestTheOperatorRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	o := newOperator(t, db)
	_, err := o.Request(t.Context(), "explode", orders, "ann", "")
	wantText(t, err, "explode", VerbUnpark, VerbSkip)
	_, err = o.Await(t.Context(), 4711)
	wantText(t, err, "4711")
	other, err := NewOperator(db, Config{Table: "shop.outbox"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Status(t.Context())
	wantText(t, err, "outbox migrate up --table shop.outbox")
}

func TestTheOperatorSeesTheStatusWithoutARelay(t *testing.T) {
	t.Parallel()
	db, _, _, _ := stopped(t)
	st, err := newOperator(t, db).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "Pending, ParkedKeys", []int64{st.Pending, st.ParkedKeys}, []int64{2, 1})
}

// A competing relay parks nothing, so of most keys there is nothing to ask for.
func TestWhatIsNotParkedIsNotQueuedWhileACompetingRelayLives(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c, o := openCompeting(t, db), newOperator(t, db)
	me := owner("competing:1")
	if err := c.Register(t.Context(), me, ttl); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{VerbUnpark, VerbSkip} {
		_, err := o.Request(t.Context(), verb, orders, "ann", "")
		if !errors.Is(err, ErrCompeting) {
			t.Errorf("Request %s = %v, want ErrCompeting", verb, err)
		}
		wantText(t, err, verb, "public.outbox_event", "no key gets parked in mode competing: mend the event, it is tried again by itself")
	}
	same(t, "requests", queryOne[int](t, db, `SELECT count(*) FROM outbox.request`), 0)
	names, err := o.Competing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "competing relays", names, []string{"competing:1"})

	exec(t, db, `UPDATE outbox.relay SET expires_at = clock_timestamp()`)
	if out := ask(t, o, VerbUnpark); out.Problem == "" {
		t.Errorf("outcome without a relay = %+v, want that the key is not parked", out)
	}
	if names, err := o.Competing(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("Competing = %v, %v; want none alive", names, err)
	}
}
