//go:build integration && unix

package kafka_test

import (
	"syscall"
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
)

// The command is killed when a partition is no partition any more and not dropped yet: no relay reads that table. The next run ends the work. An event of it that is not
// published, which nobody could write any more, but somebody could have unmarked by hand, goes out.
func TestPruneThatIsKilledBetweenDetachAndDropIsEndedByTheNextOne(t *testing.T) {
	t.Parallel()
	for what, late := range map[string]bool{"all may go": false, "an event does not": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newPartitionedFixture(t, "id", "1", "101")
			f.db.Exec(t, "CREATE TABLE outbox_event_p101 PARTITION OF outbox_event FOR VALUES FROM (101) TO (201)")
			f.db.Exec(t, "CREATE TABLE outbox_event_p201 PARTITION OF outbox_event FOR VALUES FROM (201) TO (10001)")
			topic := f.topic(t, name("prune"), 1)
			f.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, published_at)
SELECT gen_random_uuid(), 'Order', g::text, 'order.changed.v1', '{}', $1, g::text, CASE WHEN g <> 150 THEN now() - interval '3 hours' END FROM generate_series(1, 250) g`, topic)
			release := f.locking(t, "SELECT pg_advisory_lock(4711)")
			// The command has got as far as the DROP when it waits here; like one that was killed before it, its session never comes to its end.
			f.db.Exec(t, `CREATE FUNCTION wait() RETURNS event_trigger LANGUAGE plpgsql SET lock_timeout TO '0' AS $$ BEGIN PERFORM pg_advisory_lock(4711); END $$`)
			f.db.Exec(t, `CREATE EVENT TRIGGER wait ON ddl_command_start WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION wait()`)
			args := []string{"prune", "--partitions", "--older-than", "1h", "--ahead", "1", "--yes"}
			killed := f.startProcess(t, args...)
			const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'outbox-prune' AND wait_event = 'advisory'"
			await.Until(t, "the command is about to drop the partition", func() bool { return f.count(t, waiting) == 1 })
			if code := killed.end(syscall.SIGKILL); code != -1 {
				t.Fatalf("the command ended with %d, and was not killed", code)
			}
			f.db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'outbox-prune'")
			await.Until(t, "its session is gone", func() bool { return f.count(t, waiting) == 0 })
			f.db.Exec(t, "DROP EVENT TRIGGER wait")
			release()
			if n := f.count(t, "SELECT count(*) FROM outbox_event"); n != 150 || f.count(t, "SELECT count(*) FROM outbox_event_p1") != 100 {
				t.Fatalf("%d events are in the table, want 150 and 100 beside it: the test does not reach its case", n)
			}
			if late {
				f.db.Exec(t, "UPDATE outbox_event_p1 SET published_at = NULL WHERE id = 7")
			}

			if out, errs, code := f.outbox(t, args...); code != 0 {
				t.Fatalf("prune again: %d\n%s%s", code, out, errs)
			}
			want := 1
			if late {
				want = 2
			} else if n := f.count(t, "SELECT count(*) FROM pg_class WHERE relname = 'outbox_event_p1'"); n != 0 {
				t.Error("the partition is there, and nothing keeps it")
			}
			if n := f.pending(t); n != want {
				t.Errorf("%d events are unpublished, want %d", n, want)
			}
			if out, errs, code := f.outbox(t, "relay", "--once"); code != 0 {
				t.Fatalf("relay: %d\n%s%s", code, out, errs)
			}
			if n := len(f.records(t, topic)); n != want {
				t.Errorf("%d records, want those of the %d events that were unpublished", n, want)
			}
		})
	}
}
