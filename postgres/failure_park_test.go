package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/relay"
)

// parkedOnes writes an event of each key, and returns them as keys that stop at their events.
func parkedOnes(t *testing.T, db *pgxpool.Pool, keys []relay.Key) (stopped []relay.ParkedKey) {
	t.Helper()
	for i, ref := range insertKeys(t, db, keys) {
		stopped = append(stopped, parked(keys[i], ref))
	}
	return stopped
}

func TestManyKeysAreParkedAtOnce(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	keys := parkedOnes(t, db, numbered(40))
	for i := range keys {
		keys[i].Code, keys[i].Reason = fmt.Sprint("CODE_", i), fmt.Sprint("reason ", i)
	}
	slices.Reverse(keys)
	gone, err := s.Park(t.Context(), c, keys)
	if err != nil || len(gone) > 0 {
		t.Fatalf("Park = %v, %v", gone, err)
	}
	found := parkedKeys(t, s)
	slices.SortFunc(found, func(a, b relay.ParkedKey) int { return int(b.Event.ID - a.Event.ID) })
	same(t, "parked keys", found, keys)
	same(t, "records", queryOne[int](t, db, `
SELECT count(*) FROM outbox.failure JOIN outbox.parked_key USING (source, id, event_id, topic, partition_key, lane)
WHERE attempts = 1 AND crashes = 0 AND next_attempt_at IS NULL AND first_error = code || ': ' || reason AND last_error = first_error`), 40)
	same(t, "transactions", queryOne[int](t, db, `SELECT count(*) FROM (SELECT xmin::text FROM outbox.parked_key UNION SELECT xmin::text FROM outbox.failure) x`), 1)
}

func TestKeysWhoseEventsAreGoneAreToldAndNotParked(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	keys := parkedOnes(t, db, numbered(4))
	settle(t, s, []relay.Ref{keys[1].Event})
	exec(t, db, `DELETE FROM outbox_event WHERE id = $1`, keys[2].Event.ID)
	keys[3].Event.EventID = uuid.New()
	gone, err := s.Park(t.Context(), c, keys)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "gone", gone, []relay.Key{keys[1].Key, keys[2].Key, keys[3].Key})
	same(t, "parked keys", parkedKeys(t, s), keys[:1])
	same(t, "records", queryOne[int](t, db, `SELECT count(*) FROM outbox.failure`), 1)
}

// The others are parked, so that the relay makes progress; the error says which one it was.
func TestKeyThatTheDatabaseRefusesDoesNotKeepTheOthersFromBeingParked(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	keys := parkedOnes(t, db, numbered(11))
	bad := keys[7]
	exec(t, db, `ALTER TABLE outbox.parked_key ADD CHECK (partition_key <> 'key 7')`)
	_, err := s.Park(t.Context(), c, keys)
	wantText(t, err, "park 11 keys of public.outbox_event", fmt.Sprintf("the one of topic orders that stops at event %d", bad.Event.ID), "check constraint")
	found := parkedKeys(t, s)
	slices.SortFunc(found, func(a, b relay.ParkedKey) int { return int(a.Event.ID - b.Event.ID) })
	same(t, "parked keys", found, append(keys[:7:7], keys[8:]...))
	same(t, "records", queryOne[int](t, db, `SELECT count(*) FROM outbox.failure WHERE attempts = 1`), 10)

	exec(t, db, `ALTER TABLE outbox.parked_key ADD CHECK (partition_key <> 'key 3') NOT VALID`)
	_, err = s.Park(t.Context(), c, keys)
	wantText(t, err, "2 of them are refused", "event 4")
}

func TestNothingIsParkedWhenOneLaneIsLost(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	keys := parkedOnes(t, db, ofEachLane())
	exec(t, db, `UPDATE outbox.lane SET epoch = epoch + 1 WHERE lane = 5`)
	if _, err := s.Park(t.Context(), c, keys); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Park = %v, want ErrLeaseLost", err)
	}
	same(t, "parked keys", parkedKeys(t, s), nil)
	others := append(keys[:5:5], keys[6:]...)
	if _, err := s.Park(t.Context(), c, others); err != nil {
		t.Errorf("Park of the other lanes' keys = %v", err)
	}
	same(t, "parked keys", len(parkedKeys(t, s)), 7)
}

// Keys that stop for different reasons are parked together: a crash loop's attempts are counted already, another's failure is one more.
func TestCrashLoopIsCountedOnceAmongOthers(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	keys := parkedOnes(t, db, numbered(2))
	for range 3 {
		for _, p := range keys {
			e := &relay.Event{ID: p.Event.ID, EventID: p.Event.EventID, Topic: p.Topic, PartitionKey: p.PartitionKey}
			if err := s.Begin(t.Context(), c, []*relay.Event{e}); err != nil {
				t.Fatal(err)
			}
		}
	}
	keys[0].Code = relay.CodeCrashLoop
	if _, err := s.Park(t.Context(), c, keys); err != nil {
		t.Fatal(err)
	}
	same(t, "attempts and crashes", queryOne[string](t, db, `SELECT string_agg(attempts || ' ' || crashes, ', ' ORDER BY id) FROM outbox.failure`), "3 0, 4 3")
}

// No key is given twice; if one is all the same, the last counts, and the call does its work.
func TestKeyThatIsGivenTwiceIsParkedForTheLast(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 2)
	if _, err := s.Park(t.Context(), c, []relay.ParkedKey{parked(orders, refs[0]), parked(orders, refs[1])}); err != nil {
		t.Fatal(err)
	}
	same(t, "parked keys", parkedKeys(t, s), []relay.ParkedKey{parked(orders, refs[1])})
}
