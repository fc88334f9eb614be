package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/relay"
)

// numbered are so many keys.
func numbered(n int) (keys []relay.Key) {
	for i := range n {
		keys = append(keys, relay.Key{Topic: "orders", PartitionKey: fmt.Sprint("key ", i)})
	}
	return keys
}

// ofEachLane are keys of lanes 0 to 7.
func ofEachLane() (keys []relay.Key) {
	for _, lane := range allLanes {
		keys = append(keys, relay.Key{Topic: "orders", PartitionKey: inLane(lane, 0)})
	}
	return keys
}

// deadOnes writes an event of each key, and returns them as events that are given up.
func deadOnes(t *testing.T, db *pgxpool.Pool, keys []relay.Key) (dead []relay.DeadEvent) {
	t.Helper()
	for i, ref := range insertKeys(t, db, keys) {
		dead = append(dead, relay.DeadEvent{FailedEvent: failed(keys[i], ref, fmt.Sprint("CODE_", i)), By: "relay one"})
	}
	return dead
}

// buryAll moves events, and returns what became of each in words.
func buryAll(t *testing.T, s *Source, c relay.Claim, dead []relay.DeadEvent) (words []string) {
	t.Helper()
	became, err := s.Bury(t.Context(), c, dead)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range became {
		var refused *relay.RefusedError
		switch {
		case b.Moved && b.Err == nil:
			words = append(words, "moved")
		case b.Moved:
			words = append(words, "moved, with an error")
		case errors.Is(b.Err, relay.ErrLocked):
			words = append(words, "locked")
		case errors.As(b.Err, &refused):
			words = append(words, "refused")
		case b.Err == nil:
			words = append(words, "gone")
		default:
			words = append(words, b.Err.Error())
		}
	}
	return words
}

func TestManyEventsAreBuriedInOneTransaction(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	dead := deadOnes(t, db, numbered(40))
	for _, became := range buryAll(t, s, c, dead) {
		same(t, "became", became, "moved")
	}
	same(t, "dead events", queryOne[int](t, db, `
SELECT count(*) FROM outbox.dead_event WHERE partition_key = 'key ' || (id - 1) AND code = 'CODE_' || (id - 1) AND reason = 'because of ' || code AND attempts = 1`), 40)
	same(t, "transactions", queryOne[int](t, db, `SELECT count(DISTINCT xmin::text) FROM outbox.dead_event`), 1)
	same(t, "rows left", queryOne[int](t, db, `SELECT count(*) FROM outbox_event`), 0)
}

// One row that is locked, gone, or kept by the table is no reason for the others to stay.
func TestEachEventOfABurialIsAnsweredForItself(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	dead := deadOnes(t, db, numbered(9))
	exec(t, db, `CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF OLD.partition_key = 'key 4' THEN RAISE 'it stays'; END IF; IF OLD.partition_key = 'key 6' THEN RETURN NULL; END IF; RETURN OLD; END $$`)
	exec(t, db, `CREATE TRIGGER guard BEFORE DELETE ON outbox_event FOR EACH ROW EXECUTE FUNCTION guard()`)
	settle(t, s, []relay.Ref{dead[1].Event})
	exec(t, db, `DELETE FROM outbox_event WHERE id = $1`, dead[2].Event.ID)
	exec(t, db, `UPDATE outbox_event SET topic = 'other' WHERE id = $1`, dead[3].Event.ID)
	tx := begin(t, db)
	if _, err := tx.Exec(t.Context(), `SELECT FROM outbox_event WHERE id = $1 FOR UPDATE`, dead[7].Event.ID); err != nil {
		t.Fatal(err)
	}
	same(t, "became", buryAll(t, s, c, dead), []string{"moved", "gone", "gone", "refused", "refused", "moved", "refused", "locked", "moved"})
	same(t, "dead events", queryOne[string](t, db, `SELECT string_agg(partition_key, ', ' ORDER BY id) FROM outbox.dead_event`), "key 0, key 5, key 8")
	again, err := s.Bury(t.Context(), c, dead[7:8])
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, textError(again[0].LockedBy), fmt.Sprintf("pid %d, ", tx.Conn().PgConn().PID()), "idle in transaction", "open since 20")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "the locked one became", buryAll(t, s, c, dead[7:8]), []string{"moved"})
}

// What holds up every row, such as a change of the table, holds up the lanes for a moment only.
func TestBurialOfALockedTableIsLeftForLater(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	dead := deadOnes(t, db, numbered(50))
	tx := begin(t, db)
	if _, err := tx.Exec(t.Context(), `LOCK TABLE outbox.dead_event IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	// Time stands still for as long as the first statement waits, and then a second goes by with each look at it.
	at := time.Now()
	s.open.Load().failures.now = func() time.Time { at = at.Add(slowBatch * 3 / 4); return at }
	for _, became := range buryAll(t, s, c, dead) {
		same(t, "became", became, "locked")
	}
	same(t, "rows left", queryOne[int](t, db, `SELECT count(*) FROM outbox_event`), 50)
	same(t, "of the next burial", int(s.open.Load().failures.burials), firstBurial/4)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "taken of what is given next", len(buryAll(t, s, c, dead)), firstBurial/4)
}

func TestBurialsGrowWhileTheyAreQuick(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	s.open.Load().failures.now = func() time.Time { return time.Time{} }
	c := claim(t, s, owner("a"))
	dead := deadOnes(t, db, numbered(200))
	for _, taken := range []int{firstBurial, 2 * firstBurial} {
		same(t, "taken", len(buryAll(t, s, c, dead)), taken)
		dead = dead[taken:]
	}
	same(t, "rows left", queryOne[int](t, db, `SELECT count(*) FROM outbox_event`), 50)
}

func TestNothingIsBuriedWhenOneLaneIsLost(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	dead := deadOnes(t, db, ofEachLane())
	exec(t, db, `UPDATE outbox.lane SET epoch = epoch + 1 WHERE lane = 5`)
	if became, err := s.Bury(t.Context(), c, dead); !errors.Is(err, relay.ErrLeaseLost) || became != nil {
		t.Errorf("Bury = %v, %v, want ErrLeaseLost", became, err)
	}
	same(t, "dead events", queryOne[int](t, db, `SELECT count(*) FROM outbox.dead_event`), 0)
}
