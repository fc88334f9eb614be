//go:build integration

package kafka_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// newPartitionedFixture makes the table as docs/partitions.md does, with one partition from low to high.
func newPartitionedFixture(t *testing.T, column, low, high string) *fixture {
	t.Helper()
	keys := "PRIMARY KEY (id), UNIQUE (event_id, id)"
	if column != "id" {
		keys = fmt.Sprintf("PRIMARY KEY (id, %[1]s), UNIQUE (event_id, %[1]s)", column)
	}
	f := &fixture{db: pgtest.New(t, pgtest.Empty), brokers: brokers}
	f.db.Exec(t, fmt.Sprintf(`
CREATE TABLE outbox_event (
    id             bigint GENERATED ALWAYS AS IDENTITY,
    event_id       uuid         NOT NULL,
    aggregate_type text         NOT NULL,
    aggregate_id   text         NOT NULL,
    event_type     text         NOT NULL,
    payload        jsonb        NOT NULL,
    topic          text         NOT NULL,
    partition_key  text         NOT NULL,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    published_at   timestamptz,
    %s
) PARTITION BY RANGE (%s);
CREATE INDEX ix_outbox_event_unpublished ON outbox_event (id) WHERE published_at IS NULL;
CREATE TABLE outbox_event_p1 PARTITION OF outbox_event FOR VALUES FROM ('%s') TO ('%s') WITH (autovacuum_vacuum_scale_factor = 0.02);`, keys, column, low, high))
	if _, err := migrate.Up(t.Context(), f.db.Conn(t), migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	f.pool = f.db.Pool(t)
	return f
}

// prunePartitions does what the job of docs/partitions.md does every hour, and adds up what it did.
func (f *fixture) prunePartitions(t *testing.T, ahead int, sum *operate.Pruned) {
	t.Helper()
	stdout, stderr, code := f.outbox(t, "prune", "--partitions", "--older-than", "500ms", "--ahead", fmt.Sprint(ahead), "--yes", "--json")
	var did operate.Pruned
	if err := json.Unmarshal([]byte(stdout), &did); err != nil || code != 0 {
		t.Fatalf("prune ended with %d: %v\n%s%s", code, err, stdout, stderr)
	}
	sum.Created, sum.Dropped = append(sum.Created, did.Created...), append(sum.Dropped, did.Dropped...)
}

// A relay publishes from a table whose partitions come and go under it; a key is parked in the first of them, which stays for as long as that lasts.
func TestPartitionsComeAndGoWhileTheRelayPublishes(t *testing.T) {
	t.Parallel()
	second := func(n int) string { // from now
		return time.Now().UTC().Truncate(time.Second).Add(time.Duration(n) * time.Second).Format(time.RFC3339)
	}
	for _, c := range []struct {
		column string
		bounds func() (low, high string)
		ahead  int
	}{
		{"id", func() (low, high string) { return "1", "301" }, 12},
		// Seconds where a real table has days; the writers have two minutes before they run out of partitions.
		{"created_at", func() (low, high string) { return second(-1), second(1) }, 60},
	} {
		t.Run(c.column, func(t *testing.T) {
			t.Parallel()
			low, high := c.bounds()
			f := newPartitionedFixture(t, c.column, low, high)
			topic := f.topic(t, name("partitions"), 4, "max.message.bytes", "5000")
			var did operate.Pruned
			f.prunePartitions(t, c.ahead, &did)
			stuck := f.insert(t, topic, "stuck", oversized(1))
			home := f.partitionOf(t, stuck.String())
			follower := f.insert(t, topic, "stuck", `{"n":2}`)
			e := f.start(t, relay.Config{SweepInterval: time.Second})
			f.awaitParked(t, 1)
			stop := f.writing(t, topic)
			for len(did.Dropped) < 3 {
				f.prunePartitions(t, c.ahead, &did)
			}
			// Another relay begins with the partitions as they are by then.
			if err := e.stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
			e = f.start(t, relay.Config{SweepInterval: time.Second})
			for dropped := len(did.Dropped); len(did.Dropped) < dropped+3; {
				f.prunePartitions(t, c.ahead, &did)
			}
			written := stop()
			await.Until(t, "all others are published", func() bool { return f.pending(t) == 2 })
			f.wantPartitionKept(t, home)
			if n := e.Stats().SweepFinds; n != 0 {
				t.Errorf("the sweep found %d events that the reader had lost", n)
			}

			f.setLimit(t, topic, "100000")
			if out, errs, code := f.outbox(t, "keys", "unpark", "--topic", topic, "--key", "stuck"); code != 0 {
				t.Fatalf("unpark: %d\n%s%s", code, out, errs)
			}
			f.awaitPublished(t)
			await.Until(t, "the partition that was kept is dropped", func() bool {
				f.prunePartitions(t, c.ahead, &did)
				return f.count(t, "SELECT count(*) FROM pg_class WHERE oid = to_regclass($1)", home) == 0
			})
			records := f.records(t, topic)
			if len(records) != written+2 {
				t.Errorf("the topic holds %d records of %d events", len(records), written+2)
			}
			inOrder(t, records)
			var ids []string
			for _, r := range records {
				if string(r.Key) == "stuck" {
					ids = append(ids, headersOf(r)["x-event-id"])
				}
			}
			if got, want := strings.Join(ids, " "), stuck.String()+" "+follower.String(); got != want {
				t.Errorf("the key that was parked has %s, want %s", got, want)
			}
			t.Logf("%d events, %d partitions made and %d dropped", written, len(did.Created), len(did.Dropped))
		})
	}
}

// partitionOf names the partition that holds the event.
func (f *fixture) partitionOf(t *testing.T, eventID string) (partition string) {
	t.Helper()
	if err := f.pool.QueryRow(t.Context(), "SELECT tableoid::regclass::text FROM outbox_event WHERE event_id = $1", eventID).Scan(&partition); err != nil {
		t.Fatal(err)
	}
	return partition
}

// wantPartitionKept wants the partition with the parked key, and its reason to be said.
func (f *fixture) wantPartitionKept(t *testing.T, partition string) {
	t.Helper()
	if n := f.count(t, "SELECT count(*) FROM pg_inherits WHERE inhrelid = to_regclass($1)", partition); n != 1 {
		t.Fatalf("partition %s of the parked key is not there any more", partition)
	}
	stdout, _, code := f.outbox(t, "prune", "--partitions", "--older-than", "0s", "--dry-run")
	if code != 0 || !strings.Contains(stdout, partition) || !strings.Contains(stdout, "unpublished") {
		t.Errorf("the dry run ended with %d and does not say why %s stays:\n%s", code, partition, stdout)
	}
}
