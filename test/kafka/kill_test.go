//go:build integration && unix

package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/kafkatest"
)

// What a relay has decided in memory, and is about to write down, is held up by a lock in PostgreSQL; then the process is killed.

// relayArgs run a relay whose lanes are soon free after a crash.
var relayArgs = []string{"relay", "--lease-ttl", "5s"}

// locking runs statements in a transaction that is open until release is called or the test ends.
func (f *fixture) locking(t *testing.T, sql string, args ...any) (release func()) {
	t.Helper()
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release = func() {
		if err := tx.Rollback(context.Background()); err != nil && err != pgx.ErrTxClosed {
			t.Errorf("release the lock: %v", err)
		}
	}
	t.Cleanup(release)
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return release
}

// awaitBlocked waits until a session of the relay waits for a lock.
func (f *fixture) awaitBlocked(t *testing.T, table string) {
	t.Helper()
	await.Until(t, "the relay waits for the lock", func() bool {
		return f.count(t, `SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
WHERE a.datname = current_database() AND a.application_name = 'outbox-relay' AND a.wait_event_type = 'Lock' AND a.query LIKE '%' || $1 || '%' AND NOT l.granted`, table) > 0
	})
}

// A relay is killed when the letters are acknowledged and some of their events not moved yet: those letters come again, as the documentation says; each event is dead
// once, and its key goes on.
func TestKilledBetweenTheLetterAndTheMoveTheEventDiesOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("between"), 3, "max.message.bytes", "5000")
	dead := f.topic(t, deadTopic(topic), 3)
	const keys, locked = 20, 3
	large, behind := map[string]uuid.UUID{}, map[string][]uuid.UUID{}
	var held []string
	for i := range keys {
		key := fmt.Sprint("k", i)
		large[key] = f.insert(t, topic, key, oversized(i))
		behind[key] = []uuid.UUID{f.insert(t, topic, key, `{"n":1}`), f.insert(t, topic, key, `{"n":2}`)}
		if i%7 == 0 {
			held = append(held, key)
		}
	}
	release := f.locking(t, `SELECT FROM outbox_event WHERE topic = $1 AND partition_key = ANY ($2) AND length(payload::text) > 5000 FOR UPDATE`, topic, held)
	args := append(slices.Clone(relayArgs), "--on-failure", "*=dead-letter topic=dead-{topic}")
	first := f.startProcess(t, args...)
	await.Until(t, "every event has its letter, those whose rows are free are dead, and what was behind them is settled", func() bool {
		return len(f.records(t, dead)) == keys && f.count(t, "SELECT count(*) FROM outbox.dead_event") == keys-locked &&
			f.count(t, "SELECT count(*) FROM outbox_event WHERE published_at IS NULL") == 3*locked
	})
	first.end(syscall.SIGKILL)
	release()
	if n := f.count(t, "SELECT count(*) FROM outbox_event WHERE length(payload::text) > 5000 AND published_at IS NULL"); n != locked {
		t.Fatalf("%d events were not moved when the relay was killed, want %d", n, locked)
	}
	f.startProcess(t, args...)
	f.awaitPublished(t)

	letters := map[uuid.UUID]int{}
	for _, id := range kafkatest.EventIDs(f.records(t, dead)) {
		letters[id]++
	}
	for key, id := range large {
		want := 1
		if slices.Contains(held, key) {
			want = 2
		}
		if letters[id] != want {
			t.Errorf("key %s: its event has %d letters, want %d", key, letters[id], want)
		}
		if n := f.count(t, "SELECT count(*) FROM outbox.dead_event WHERE event_id = $1 AND attempts = 1 AND letter_topic = $2", id, dead); n != 1 {
			t.Errorf("key %s: its event is dead %d times, by one attempt and with a letter; want once", key, n)
		}
	}
	if n := f.count(t, "SELECT count(*) FROM outbox.dead_event"); n != keys {
		t.Errorf("%d dead events, want %d", n, keys)
	}
	got, repeats := kafkatest.ByKey(f.records(t, topic))
	kafkatest.Compare(t, topic, got, behind)
	if repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
	if n := f.count(t, "SELECT count(*) FROM outbox.failure"); n != 0 {
		t.Errorf("%d records of failed attempts are left", n)
	}
}

// A relay is killed when its keys have stopped in memory, and nothing of that is in the database: the next one finds out for itself.
func TestKilledBeforeAParkedKeyIsWrittenDownItIsParkedByTheNextRelay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("unwritten"), 3, "max.message.bytes", "5000")
	f.insert(t, topic, "first", `{"n":1}`)
	first := f.startProcess(t, relayArgs...)
	f.awaitPublished(t)
	release := f.locking(t, "LOCK TABLE outbox.parked_key IN SHARE ROW EXCLUSIVE MODE")
	const keys = 20
	for i := range keys {
		f.insert(t, topic, fmt.Sprint("k", i), oversized(1))
		f.insert(t, topic, fmt.Sprint("k", i), `{"n":2}`)
		f.insert(t, topic, fmt.Sprint("good", i), `{"n":1}`)
	}
	await.Until(t, "the others are published", func() bool { return f.pending(t) == 2*keys })
	f.awaitBlocked(t, "parked_key")
	first.end(syscall.SIGKILL)
	release()
	if n := f.count(t, "SELECT count(*) FROM outbox.parked_key") + f.count(t, "SELECT count(*) FROM outbox.failure"); n != 0 {
		t.Fatalf("%d parked keys and attempts were written down before the relay was killed, want none", n)
	}
	second := f.startProcess(t, relayArgs...)
	f.awaitParked(t, keys)
	if n := f.count(t, "SELECT count(*) FROM outbox.failure WHERE attempts = 1 AND crashes = 0 AND last_error LIKE 'MESSAGE_TOO_LARGE%'"); n != keys {
		t.Errorf("%d events have one attempt and no crash, want %d", n, keys)
	}
	// Killed again, with everything written down: the keys stay parked, and nothing is tried.
	second.end(syscall.SIGKILL)
	f.setLimit(t, topic, "100000")
	third := f.startProcess(t, relayArgs...)
	f.insert(t, topic, "k0", `{"n":3}`)
	f.insert(t, topic, "last", `{"n":1}`)
	await.Until(t, "the third relay publishes", func() bool {
		return f.count(t, "SELECT count(*) FROM outbox_event WHERE partition_key = 'last' AND published_at IS NOT NULL") == 1
	})
	if n := f.pending(t); n != 2*keys+1 {
		t.Errorf("%d events are unpublished, want the %d of the parked keys", n, 2*keys+1)
	}
	if out, errs, code := f.outbox(t, "keys", "unpark", "--topic", topic, "--yes"); code != 0 || !strings.Contains(out, fmt.Sprintf("%d of %d done", keys, keys)) {
		t.Errorf("unpark: %d\n%s%s", code, out, errs)
	}
	f.awaitPublished(t)
	if repeats := f.compareOrder(t, topic); repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
	if code := third.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the third relay ended with %d", code)
	}
	if n := f.count(t, "SELECT count(*) FROM outbox.failure"); n != 0 {
		t.Errorf("%d records of failed attempts are left", n)
	}
}
