package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// askedOf writes requests about events down as an operator's command does, in the order of the events.
func askedOf(t *testing.T, db *pgxpool.Pool, verb string, key relay.Key, refs ...relay.Ref) (ids []int64) {
	t.Helper()
	for _, ref := range refs {
		ids = append(ids, queryOne[int64](t, db, `
INSERT INTO outbox.request (source, verb, topic, partition_key, requested_by, reason, id_of_event, event_id)
SELECT id, $1, $2, $3, 'ann', 'why not', $4, $5 FROM outbox.source RETURNING id`, verb, key.Topic, key.PartitionKey, ref.ID, ref.EventID))
	}
	return ids
}

// restorable gives a database with dead events of two keys, and requests to restore them all: those of the first key and then those of the other one.
func restorable(t *testing.T, n int) (db *pgxpool.Pool, s *Source, c relay.Claim, other relay.Key, refs []relay.Ref) {
	t.Helper()
	db = newDatabase(t)
	s = openSource(t, db, Config{})
	c = claim(t, s, owner("a"))
	other = relay.Key{Topic: orders.Topic, PartitionKey: "another"}
	refs = insert(t, db, orders, n)
	others := insert(t, db, other, n)
	askedOf(t, db, VerbDead, orders, refs...)
	askedOf(t, db, VerbDead, other, others...)
	carryOutAll(t, s, c)
	same(t, "dead events", queryOne[int](t, db, `SELECT count(*) FROM outbox.dead_event`), 2*n)
	askedOf(t, db, VerbRestore, orders, refs...)
	askedOf(t, db, VerbRestore, other, others...)
	return db, s, c, other, refs
}

// back are the ids of the unpublished events of a key.
func back(t *testing.T, db *pgxpool.Pool, key relay.Key) []int64 {
	t.Helper()
	return queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox_event WHERE topic = $1 AND partition_key = $2 ORDER BY id)`, key.Topic, key.PartitionKey)
}

// locking locks rows in a transaction of its own until free is called.
func locking(t *testing.T, db *pgxpool.Pool, sql string, args ...any) (free func()) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pg.Rollback(tx) })
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	return func() { pg.Rollback(tx) }
}

// A key that is busy when its first request is looked at may be idle at its next one, in another batch of the same round.
func TestLaterRequestsOfAKeyWaitForOneThatWasLeft(t *testing.T) {
	t.Parallel()
	db, s, c, other, refs := restorable(t, 4)
	s.open.Load().requests.size = 2
	looks := 0
	onlyFirstBusy := func(keys []relay.Key) []relay.Key {
		if looks++; looks == 1 {
			return nil
		}
		return keys
	}
	for more := true; more; {
		done, err := s.Requests(t.Context(), c, onlyFirstBusy)
		if err != nil {
			t.Fatal(err)
		}
		more = done.More
	}
	same(t, "restored of the key that was busy", back(t, db, orders), []int64{})
	same(t, "restored of the other one", len(back(t, db, other)), 4)
	carryOutAll(t, s, c)
	same(t, "restored when it is idle", len(back(t, db, orders)), len(refs))
	same(t, "open requests", openRequestCount(t, db), 0)
}

// wantNoneBehind carries out what is open while something is locked, in batches of a size, and wants of the first key nothing but what is in front of its second event.
func wantNoneBehind(t *testing.T, size pace, lock string) {
	t.Helper()
	db, s, c, other, refs := restorable(t, 4)
	s.open.Load().requests.size = size
	free := locking(t, db, lock, refs[1].ID)
	carryOutAll(t, s, c)
	same(t, "restored in front of what is locked", back(t, db, orders), []int64{refs[0].ID})
	same(t, "restored of the other key", len(back(t, db, other)), 4)
	free()
	carryOutAll(t, s, c)
	same(t, "restored when nothing is locked", len(back(t, db, orders)), 4)
	same(t, "open requests", openRequestCount(t, db), 0)
}

func TestRequestsBehindALockedEventStayOpen(t *testing.T) {
	for name, size := range map[string]pace{"in one batch": firstBatch, "across batches": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantNoneBehind(t, size, `SELECT FROM outbox.dead_event WHERE id = $1 FOR UPDATE`)
		})
	}
}

func TestRequestsBehindALockedRequestStayOpen(t *testing.T) {
	for name, size := range map[string]pace{"in one batch": firstBatch, "across batches": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantNoneBehind(t, size, `SELECT FROM outbox.request WHERE id_of_event = $1 AND verb = 'restore' FOR UPDATE`)
		})
	}
}

// Requests of different verbs are carried out one verb after the other.
func TestALaterVerbWaitsForAnEventThatIsLocked(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	refs := insert(t, db, orders, 2)
	park(t, s, c, parked(orders, refs[0]))
	askedOf(t, db, VerbSkip, orders, refs[0])
	requested(t, db, VerbUnpark, orders)
	free := locking(t, db, `SELECT FROM outbox_event WHERE id = $1 FOR UPDATE`, refs[0].ID)
	carryOutAll(t, s, c)
	same(t, "open requests", openRequestCount(t, db), 2)
	same(t, "parked keys", len(parkedKeys(t, s)), 1)
	free()
	carryOutAll(t, s, c)
	same(t, "open requests when it is free", openRequestCount(t, db), 0)
	same(t, "ids left", queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox_event)`), []int64{refs[1].ID})
}

// What the round has passed is another relay's until its lane is gained.
func TestALaneThatIsGainedBeginsTheRoundAnew(t *testing.T) {
	t.Parallel()
	db, s, c, other, refs := restorable(t, 4)
	lane := relay.Lane(orders.PartitionKey, 8)
	if relay.Lane(other.PartitionKey, 8) == lane {
		t.Fatal("the keys have one lane")
	}
	fewer := relay.Claim{Owner: c.Owner}
	for i, l := range c.Lanes {
		if l != lane {
			fewer.Lanes, fewer.Epochs = append(fewer.Lanes, l), append(fewer.Epochs, c.Epochs[i])
		}
	}
	for _, mine := range []relay.Claim{fewer, c} {
		s.open.Load().requests.size = 1
		if _, err := s.Requests(t.Context(), mine, always); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "restored of the lane that was gained", back(t, db, orders), []int64{refs[0].ID})
	carryOutAll(t, s, c)
	same(t, "all restored", len(back(t, db, orders)), 4)
}
