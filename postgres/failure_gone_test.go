package postgres

import (
	"fmt"
	"testing"
	"time"
)

// The relay that has published an event may end before it has removed the record of the attempts, and its lanes may keep their next owner for months.
func TestTheWatchForgetsAttemptsWithEventsThatArePublished(t *testing.T) {
	t.Parallel()
	for _, mode := range []SettleMode{Mark, Delete} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			s := openSource(t, db, Config{Settle: mode})
			c := claim(t, s, owner("a"))
			refs := insert(t, db, orders, 3)
			if err := s.Begin(t.Context(), c, eventsOf(orders, refs...)); err != nil {
				t.Fatal(err)
			}
			settle(t, s, refs[:2])
			for range 2 {
				if err := s.Watch(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			same(t, "records left", queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox.failure)`), []int64{refs[2].ID})
		})
	}
}

func TestTheWatchGoesThroughAllRecordsPageByPage(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	refs := insert(t, db, orders, 2)
	exec(t, db, `INSERT INTO outbox.failure (source, id, event_id, topic, partition_key, lane, attempts)
SELECT s.id, n, gen_random_uuid(), 'orders', 'gone', 0, 1 FROM outbox.source s, generate_series(-1, $1::integer) n`, 2*goneAtOnce)
	exec(t, db, `INSERT INTO outbox.failure (source, id, event_id, topic, partition_key, lane, attempts)
SELECT s.id, e.id, e.event_id, e.topic, e.partition_key, 0, 1 FROM outbox.source s, outbox_event e`)
	records := func() int { return queryOne[int](t, db, `SELECT count(*) FROM outbox.failure`) }
	var left []int
	for range 3 {
		if err := s.Watch(t.Context()); err != nil {
			t.Fatal(err)
		}
		left = append(left, records())
	}
	same(t, "records left", left, []int{goneAtOnce + 6, 6, 2})
	// The next round begins with the first one.
	exec(t, db, `UPDATE outbox_event SET published_at = now() WHERE id = $1`, refs[0].ID)
	if err := s.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "records of the next round", records(), 1)
}

func TestTheWatchLeavesRecordsThatAreInUse(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 2)
	for _, ref := range refs {
		retry(t, s, c, failed(orders, ref, "X"), time.Hour)
	}
	settle(t, s, refs)
	tx := begin(t, db)
	if _, err := tx.Exec(t.Context(), `SELECT FROM outbox.failure WHERE id = $1 FOR UPDATE`, refs[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "records left", queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox.failure)`), []int64{refs[0].ID})
}

// After a crash of the server, or a RESTART, an id is issued again: to an event that has ended nobody.
func TestTheCrashesOfAnEventAreNotThoseOfAnotherWithItsID(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	ref := insert(t, db, orders, 1)[0]
	for range 2 {
		if err := s.Begin(t.Context(), c, eventsOf(orders, ref)); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, db, `DELETE FROM outbox_event`)
	exec(t, db, `ALTER SEQUENCE outbox_event_id_seq RESTART`)
	again := insert(t, db, orders, 1)[0]
	if again.ID != ref.ID {
		t.Fatalf("the id is %d, want %d again", again.ID, ref.ID)
	}
	if err := s.Begin(t.Context(), c, eventsOf(orders, again)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range failing(t, s) {
		got = append(got, fmt.Sprint(f.Event == again, " ", f.Crashes))
	}
	same(t, "records (of the new event, crashes)", got, []string{"true 1"})
	same(t, "records of the event before", queryOne[int](t, db, `SELECT count(*) FROM outbox.failure WHERE crashes > 1`), 0)
}
