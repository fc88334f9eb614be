//go:build integration

package pooler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/relay"
)

// A job whose rows somebody has locked is ended by another command, and a request whose command is gone is taken back; neither is carried out when the rows are free.
func TestJobsAndRequestsAreCancelledThroughThePooler(t *testing.T) {
	t.Parallel()
	for _, version := range []string{old, recent} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, devbouncer.Options{Version: version})
			f.makeTopic(t, smallTopic, "5000")
			const keys = 20
			f.insertStuck(t, smallTopic, keys)
			f.start(t, f.url(), relay.Config{})
			f.awaitCount(t, "the keys are parked", keys, parkedSQL)
			locker := f.db.Conn(t)
			tx, err := locker.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SELECT FROM outbox_event FOR UPDATE"); err != nil {
				t.Fatal(err)
			}

			type ending struct {
				stdout, stderr string
				code           int
			}
			ended := make(chan ending, 1)
			go func() {
				var e ending
				e.stdout, e.stderr, e.code = f.outbox(t, "events", "skip", "--topic", smallTopic, "--reason", "a test", "--yes")
				ended <- e
			}()
			const openSQL = "SELECT count(*) FROM outbox.request WHERE done_at IS NULL"
			f.awaitCount(t, "all of it is asked for", keys, openSQL)
			job := queryOne[int64](t, f.db.URL, "SELECT id FROM outbox.job")
			f.run(t, "running", "jobs", "list")
			f.run(t, fmt.Sprintf("job %d is cancelled", job), "jobs", "cancel", fmt.Sprint(job), "--reason", "a mistake")
			if e := <-ended; e.code == 0 || !strings.Contains(e.stdout+e.stderr, "cancelled") {
				t.Errorf("the command whose job was cancelled ended with %d:\n%s%s", e.code, e.stdout, e.stderr)
			}
			f.run(t, "cancelled", "jobs", "list", "--state", "cancelled")

			request := f.askAndLeave(t)
			f.run(t, fmt.Sprintf("request %d is taken back", request), "jobs", "cancel", "--request", fmt.Sprint(request))
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.run(t, "unparked", "keys", "unpark", "--topic", smallTopic, "--key", "k0")
			f.awaitCount(t, "that key is parked again, as all others are", keys, parkedSQL)
			for sql, want := range map[string]int{openSQL: 0, "SELECT count(*) FROM outbox.dead_event": 0, unpublishedSQL: 2 * keys} {
				if n := queryOne[int](t, f.db.URL, sql); n != want {
					t.Errorf("%s: %d, want %d", sql, n, want)
				}
			}
		})
	}
}

// askAndLeave asks to skip an event as a command does that is killed before that is carried out, and returns the request's id.
func (f *fixture) askAndLeave(t *testing.T) (request int64) {
	t.Helper()
	err := f.db.Conn(t).QueryRow(t.Context(), `
INSERT INTO outbox.request (source, verb, topic, partition_key, id_of_event, event_id, requested_by, reason)
SELECT source, 'skip', topic, partition_key, id, event_id, 'ann', 'a test' FROM outbox.parked_key WHERE partition_key = 'k1' RETURNING id`, pgx.QueryExecModeSimpleProtocol).Scan(&request)
	if err != nil {
		t.Fatal(err)
	}
	return request
}
