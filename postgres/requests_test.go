package postgres

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/lanesql"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

func always(keys []relay.Key) []relay.Key { return keys }

// requested writes a request down as an operator's command does.
func requested(t *testing.T, db *pgxpool.Pool, verb string, key relay.Key) int64 {
	t.Helper()
	return queryOne[int64](t, db, `
INSERT INTO outbox.request (source, verb, topic, partition_key, requested_by, reason)
SELECT id, $1, $2, $3, 'ann', 'too old' FROM outbox.source RETURNING id`, verb, key.Topic, key.PartitionKey)
}

func openRequestCount(t *testing.T, db *pgxpool.Pool) int {
	t.Helper()
	return queryOne[int](t, db, `SELECT count(*) FROM outbox.request WHERE done_at IS NULL`)
}

// carriedOut has the source carry requests out and returns the keys that are not parked any more.
func carriedOut(t *testing.T, s *Source, c relay.Claim, ready func([]relay.Key) []relay.Key) []relay.Key {
	t.Helper()
	done, err := s.Requests(t.Context(), c, ready)
	if err != nil {
		t.Fatal(err)
	}
	return done.Released
}

func problem(t *testing.T, db *pgxpool.Pool, id int64) string {
	t.Helper()
	return queryOne[string](t, db, `SELECT coalesce(error, '') FROM outbox.request WHERE id = $1 AND done_at IS NOT NULL`, id)
}

// stopped gives a database with two events of a key that is parked at the first.
func stopped(t *testing.T) (*pgxpool.Pool, *Source, relay.Claim, []relay.Ref) {
	t.Helper()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 2)
	park(t, s, c, parked(orders, refs[0]))
	return db, s, c, refs
}

func TestUnparkReleasesTheKeyAndKeepsItsEvents(t *testing.T) {
	t.Parallel()
	db, s, c, _ := stopped(t)
	id := requested(t, db, VerbUnpark, orders)
	same(t, "released", carriedOut(t, s, c, always), []relay.Key{orders})
	same(t, "problem", problem(t, db, id), "")
	same(t, "parked keys", parkedKeys(t, s), nil)
	same(t, "unpublished", queryOne[int](t, db, `SELECT count(*) FROM outbox_event WHERE published_at IS NULL`), 2)
	same(t, "released the next time", carriedOut(t, s, c, always), nil)
}

func TestSkipMovesTheEventWhole(t *testing.T) {
	t.Parallel()
	db, s, c, refs := stopped(t)
	exec(t, db, `ALTER TABLE outbox_event ADD COLUMN tenant text NOT NULL DEFAULT 'acme'`)
	row := queryOne[string](t, db, `SELECT to_jsonb(e)::text FROM outbox_event e WHERE id = $1`, refs[0].ID)
	id := requested(t, db, VerbSkip, orders)
	same(t, "released", carriedOut(t, s, c, always), []relay.Key{orders})
	same(t, "problem", problem(t, db, id), "")
	same(t, "the dead event", queryOne[string](t, db, `SELECT event::text FROM outbox.dead_event`), row)
	same(t, "what is known of it", queryOne[[]string](t, db, `
SELECT array[id::text, event_id::text, topic, partition_key, code, reason, died_by, (lane = `+lanesql.Of("partition_key", "8")+`)::text]
FROM outbox.dead_event`), []string{
		"1", refs[0].EventID.String(), orders.Topic, orders.PartitionKey, "SKIPPED",
		"too old; its key was parked: MESSAGE_TOO_LARGE: the event is too large", "ann", "true",
	})
	same(t, "ids left", queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox_event)`), []int64{refs[1].ID})
	same(t, "parked keys", parkedKeys(t, s), nil)
	var whole map[string]any
	if err := json.Unmarshal([]byte(row), &whole); err != nil || whole["tenant"] != "acme" {
		t.Errorf("the dead event %s lacks the added column", row)
	}
}

func TestSkipOfAnEventThatWasPublishedMeanwhileOnlyReleases(t *testing.T) {
	t.Parallel()
	db, s, c, refs := stopped(t)
	settle(t, s, refs[:1])
	requested(t, db, VerbSkip, orders)
	same(t, "released", carriedOut(t, s, c, always), []relay.Key{orders})
	same(t, "dead events", queryOne[int](t, db, `SELECT count(*) FROM outbox.dead_event`), 0)
	same(t, "rows left", queryOne[int](t, db, `SELECT count(*) FROM outbox_event`), 2)
}

// The row that has stopped a key has another one by now: that is to be read again as well. And what it fails with next is known by the new key.
func TestTheKeyThatACorrectedRowHasNowIsReadAgain(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{VerbUnpark, VerbRetry} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			db, s, c, refs := stopped(t)
			exec(t, db, `UPDATE outbox_event SET topic = 'new', partition_key = 'x' WHERE id = $1`, refs[0].ID)
			id := requested(t, db, verb, orders)
			done, err := s.Requests(t.Context(), c, always)
			if err != nil {
				t.Fatal(err)
			}
			moved := relay.Key{Topic: "new", PartitionKey: "x"}
			same(t, "released", done.Released, []relay.Key{orders})
			same(t, "to be read again", done.Changed, []relay.Key{moved})
			same(t, "outcome", queryOne[string](t, db, `SELECT outcome FROM outbox.request WHERE id = $1`, id), "unparked; its event has another topic or partition key by now")
			park(t, s, c, parked(moved, refs[0]))
			same(t, "the record of its attempts", queryOne[[]string](t, db, `SELECT array[topic, partition_key, attempts::text, (lane = `+lanesql.Of("partition_key", "8")+`)::text] FROM outbox.failure`),
				[]string{"new", "x", "2", "true"})
		})
	}
}

// The lane of the key that a corrected row has now may be another relay's, which nobody but whoever asks can tell of it.
func TestTheOwnerOfTheKeyThatACorrectedRowHasNowIsAskedToo(t *testing.T) {
	t.Parallel()
	moved := relay.Key{Topic: "new", PartitionKey: "x"}
	for name, ask := range map[string]func(db *pgxpool.Pool, at relay.Ref) error{
		"unpark": func(db *pgxpool.Pool, _ relay.Ref) error {
			_, err := newOperator(t, db).Request(t.Context(), VerbUnpark, orders, "ann", "corrected")
			return err
		},
		"retry of the event": func(db *pgxpool.Pool, at relay.Ref) error {
			_, err := newOperator(t, db).RequestEvent(t.Context(), VerbRetry, orders, at, "ann", "corrected")
			return err
		},
		"unpark of all": func(db *pgxpool.Pool, _ relay.Ref) error {
			store := newStore(t, db)
			job := queryOne[int64](t, db, `INSERT INTO outbox.job (source, verb, actor, total, seen_at) SELECT id, 'unpark', 'ann', 1, clock_timestamp() FROM outbox.source RETURNING id`)
			_, err := store.AskMatching(t.Context(), job, operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{}}, "ann", operate.Cursor{}, 10)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, s, _, refs := stopped(t)
			exec(t, db, `UPDATE outbox_event SET topic = 'new', partition_key = 'x' WHERE id = $1`, refs[0].ID)
			if err := ask(db, refs[0]); err != nil {
				t.Fatal(err)
			}
			lane := relay.Lane(moved.PartitionKey, 8)
			exec(t, db, `UPDATE outbox.lane SET owner = NULL, expires_at = NULL WHERE lane = $1`, lane)
			other := claim(t, s, owner("b"))
			same(t, "lanes of the other", other.Lanes, []int32{lane})
			done, err := s.Requests(t.Context(), other, always)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "to be read again", done.Changed, []relay.Key{moved})
			same(t, "open requests", openRequestCount(t, db), 1)
		})
	}
}

func TestARequestWaitsUntilItsKeyIsReady(t *testing.T) {
	t.Parallel()
	db, s, c, _ := stopped(t)
	other := relay.Key{Topic: "b", PartitionKey: "x"}
	park(t, s, c, parked(other, insert(t, db, other, 1)[0]))
	requested(t, db, VerbUnpark, orders)
	requested(t, db, VerbUnpark, other)
	same(t, "released", carriedOut(t, s, c, func([]relay.Key) []relay.Key { return []relay.Key{other} }), []relay.Key{other})
	same(t, "open requests", openRequestCount(t, db), 1)
	same(t, "released later", carriedOut(t, s, c, always), []relay.Key{orders})
}

func TestRequestsThatCannotBeDoneAreClosedWithTheReason(t *testing.T) {
	t.Parallel()
	db, s, c, _ := stopped(t)
	unknown := requested(t, db, "explode", orders)
	notParked := requested(t, db, VerbUnpark, relay.Key{Topic: "b", PartitionKey: "x"})
	skipNot := requested(t, db, VerbSkip, relay.Key{Topic: "b", PartitionKey: "x"})
	good := requested(t, db, VerbUnpark, orders)
	same(t, "released", carriedOut(t, s, c, always), []relay.Key{orders})
	same(t, "problems", []string{problem(t, db, unknown), problem(t, db, notParked), problem(t, db, skipNot), problem(t, db, good)}, []string{
		`the verb "explode" is unknown to this relay: it knows unpark, retry, skip, dead and restore; a newer relay may know it`,
		"the key is not parked", "the key is not parked", "",
	})
}

// The server refuses the verb, but the transaction must still close the request, and the others must go on.
func TestSkipWithoutTheRightToDeleteSaysWhichGrantIsMissing(t *testing.T) {
	t.Parallel()
	db, owning, c, refs := stopped(t)
	least := leastRights(t, db, Config{})
	s := openSource(t, least, Config{})
	same(t, "the claim", c.Lanes, allLanes)
	if err := owning.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	c = claim(t, s, owner("b"))
	id := requested(t, db, VerbSkip, orders)
	same(t, "released", carriedOut(t, s, c, always), nil)
	if text := problem(t, db, id); text == "" {
		t.Error("the request has no error")
	} else {
		wantText(t, textError(text), `GRANT DELETE ON TABLE "public"."outbox_event"`)
	}
	same(t, "parked keys", len(parkedKeys(t, s)), 1)
	same(t, "rows left", queryOne[int](t, db, `SELECT count(*) FROM outbox_event WHERE id = $1`, refs[0].ID), 1)
	next := requested(t, db, VerbUnpark, orders)
	same(t, "released by the next request", carriedOut(t, s, c, always), []relay.Key{orders})
	same(t, "problem of the next request", problem(t, db, next), "")
}

type textError string

func (e textError) Error() string { return string(e) }

func TestACancelledRequestStaysOpen(t *testing.T) {
	t.Parallel()
	db, s, c, _ := stopped(t)
	requested(t, db, VerbUnpark, orders)
	ctx, cancel := context.WithCancel(t.Context())
	done, err := s.Requests(ctx, c, func(keys []relay.Key) []relay.Key { cancel(); return keys })
	if err == nil || done.Done > 0 || done.Released != nil {
		t.Errorf("Requests = %v, %v; want an error", done, err)
	}
	same(t, "open requests", openRequestCount(t, db), 1)
	if _, err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "released", carriedOut(t, s, c, always), []relay.Key{orders})
}
