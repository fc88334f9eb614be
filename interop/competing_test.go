//go:build integration

package interop

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/await"
)

// start runs a program until the test ends.
func (w *world) start(name string, args ...string) *exec.Cmd {
	w.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+w.url, "KAFKA_BROKERS="+strings.Join(parts.brokers, ","), "RELAY_INTERVAL=20")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if w.t.Failed() {
			w.t.Logf("%s %s printed:\n%s", name, strings.Join(args, " "), out.String())
		}
	})
	return cmd
}

// serviceRelay is the service's own relay, and ours the one that may run beside it.
func (w *world) serviceRelay() *exec.Cmd { return w.start("node", "dist/relay.js") }

func (w *world) ours() *exec.Cmd {
	return w.start(parts.outbox, "relay", "--mode", "competing", "--table", "public.outbox_event")
}

// fill writes n events over 100 keys, in transactions of 500.
func (w *world) fill(n int) {
	w.t.Helper()
	for ; n > 0; n -= 500 {
		_, err := w.conn.Exec(w.t.Context(), `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
			SELECT gen_random_uuid(), 'Order', 'order-' || i % 100, 'order.confirmed.v1', jsonb_build_object('n', i, 'pad', repeat('x', 200)), $1, 'order-' || i % 100
			FROM generate_series(1, $2::int) i`, w.topic, min(n, 500))
		if err != nil {
			w.t.Fatalf("insert events: %v", err)
		}
	}
}

func (w *world) count(sql string) (n int) {
	w.t.Helper()
	if err := w.conn.QueryRow(w.t.Context(), sql).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// The service's relay writes milliseconds, as JavaScript has them; ours the database's microseconds, of which one in a thousand looks like that.
func (w *world) byService() int {
	return w.count(`SELECT count(*) FROM outbox_event WHERE published_at = date_trunc('milliseconds', published_at)`)
}

func (w *world) byOurs() int {
	return w.count(`SELECT count(*) FROM outbox_event WHERE published_at <> date_trunc('milliseconds', published_at)`)
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	await.Until(w.t, what, ok)
}

func (w *world) allPublished() {
	w.t.Helper()
	w.eventually("everything is published", func() bool {
		return w.count(`SELECT count(*) FROM outbox_event WHERE published_at IS NULL`) == 0
	})
}

// bothWork waits until each relay has published something.
func (w *world) bothWork() {
	w.t.Helper()
	service, ours := w.byService(), w.byOurs()
	w.eventually("both relays publish", func() bool {
		if w.byService() > service+100 && w.byOurs() > ours+100 {
			return true
		}
		if w.count(`SELECT count(*) FROM outbox_event WHERE published_at IS NULL`) < 1000 {
			w.fill(500)
		}
		return false
	})
}

// times counts the records of each event, and checks that there are none but those of rows, and every row has one.
func (w *world) times() map[string]int {
	w.t.Helper()
	seen := map[string]int{}
	for _, r := range w.consume() {
		seen[r.Headers[0][1]]++
	}
	rows := w.rows()
	for _, r := range rows {
		if seen[r.EventID] == 0 {
			w.t.Errorf("event %s is lost: published %v", r.EventID, r.Published)
		}
	}
	if len(seen) != len(rows) {
		w.t.Errorf("%d events in Kafka, %d rows", len(seen), len(rows))
	}
	return seen
}

func TestBesideTheServicesOwnRelayEveryEventIsPublishedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.outbox("migrate", "up")
	w.serviceRelay()
	ours := w.ours()
	w.bothWork()
	w.fill(10_000)
	w.allPublished()
	if err := ours.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := ours.Wait(); err != nil {
		t.Errorf("stop of ours: %v", err)
	}
	for id, n := range w.times() {
		if n != 1 {
			t.Errorf("event %s is %d times in Kafka", id, n)
		}
	}
	t.Logf("the service's relay published %d events, ours %d", w.byService(), w.byOurs())
}

// A relay that is killed has published at most what it had locked: these events may come again, and nothing else.
func TestAKilledRelayRepeatsAtMostWhatItHadInFlight(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct {
		victim, survivor func(*world) *exec.Cmd
	}{
		"the service's": {(*world).serviceRelay, (*world).ours},
		"ours":          {(*world).ours, (*world).serviceRelay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.outbox("migrate", "up")
			kind.survivor(w)
			inFlight := map[string]bool{}
			for range 3 {
				victim := kind.victim(w)
				w.bothWork()
				w.fill(2000)
				w.kill(victim, inFlight)
			}
			kind.victim(w)
			w.allPublished()
			repeated := 0
			for id, n := range w.times() {
				if n > 1 && !inFlight[id] {
					t.Errorf("event %s is %d times in Kafka, and was not in flight at a kill", id, n)
				}
				repeated += n - 1
			}
			t.Logf("%d events came again, %d were in flight at a kill", repeated, len(inFlight))
		})
	}
}

// kill freezes the relay, notes what is locked then, and kills it.
func (w *world) kill(victim *exec.Cmd, inFlight map[string]bool) {
	w.t.Helper()
	if err := victim.Process.Signal(syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	for _, id := range w.locked() {
		inFlight[id] = true
	}
	if err := victim.Process.Kill(); err != nil {
		w.t.Fatal(err)
	}
	_ = victim.Wait()
}

// locked returns the unpublished events whose rows somebody has locked: while it locks the others itself, nobody can take more.
func (w *world) locked() (ids []string) {
	w.t.Helper()
	err := pgx.BeginFunc(w.t.Context(), w.conn, func(tx pgx.Tx) error {
		var free []int64
		rows, err := tx.Query(w.t.Context(), `SELECT id FROM outbox_event WHERE published_at IS NULL FOR UPDATE SKIP LOCKED`)
		if err != nil {
			return err
		}
		if free, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
			return err
		}
		rows, err = tx.Query(w.t.Context(), `SELECT event_id::text FROM outbox_event WHERE published_at IS NULL AND id <> ALL ($1)`, free)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		w.t.Fatalf("read what is locked: %v", err)
	}
	return ids
}
