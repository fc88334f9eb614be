//go:build integration && unix

package kafka_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/operate"
)

// incident is what somebody who is called at night finds: a producer has become chatty, and half of the keys are stopped.
type incident struct {
	*fixture
	t     *testing.T
	topic string
	// events is how many there are, of a tenth as many keys; bad is how many of the keys each of the three kinds of large events stops.
	events int
	bad    map[string]int
	begun  time.Time
}

// The kinds of events that are too large.
const (
	snapshot   = "order.snapshot.v1"
	attachment = "order.attachment.v1"
	invoice    = "order.invoice.v1"
)

// incidentSize is 10,000 events; OUTBOX_TEST_INCIDENT_EVENTS says otherwise, such as 100000.
func incidentSize(t *testing.T) int {
	t.Helper()
	given := os.Getenv("OUTBOX_TEST_INCIDENT_EVENTS")
	if given == "" {
		return 10_000
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 120 {
		t.Fatalf("OUTBOX_TEST_INCIDENT_EVENTS=%s: want a number of at least 120", given)
	}
	return n
}

// Two relays, their writers, and an operator with the command line: what cannot be used is given up, what has to go later is taken out of the way and comes back, and the rest
// goes on when the topic takes it. In the end every event is in Kafka or among the dead, in the order of its key.
func TestAnIncidentIsClearedWithTheCommands(t *testing.T) {
	t.Parallel()
	in := newIncident(t, incidentSize(t))
	relays := []*process{in.startProcess(t, "relay"), in.startProcess(t, "relay")}
	stop := in.writing(t, in.topic)
	blocked := in.bad[snapshot] + in.bad[attachment] + in.bad[invoice]
	await.Until(t, "every key with a large event is parked, and the others are published", func() bool {
		return in.count(t, "SELECT count(*) FROM outbox.parked_key") == blocked && in.count(t, `
SELECT count(*) FROM outbox_event e WHERE published_at IS NULL AND created_at < clock_timestamp() - interval '1 second'
AND NOT EXISTS (SELECT FROM outbox.parked_key p WHERE p.partition_key = e.partition_key)`) == 0
	})
	in.step("%d of %d keys are parked", blocked, in.events/10)

	in.look(blocked)
	if _, stderr, code := in.outbox(t, "events", "retry", "--topic", in.topic); code != 3 || !strings.Contains(stderr, fmt.Sprintf("retry would touch %d events", blocked)) {
		t.Errorf("without a terminal and --yes: exit code %d, want 3 and the number: %s", code, stderr)
	}
	in.run(in.bad[snapshot], "events", "dead", "--topic", in.topic, "--type", snapshot, "--reason", "when the topic takes them")
	in.run(in.bad[attachment], "keys", "skip", "--topic", in.topic, "--type", attachment, "--reason", "nobody reads them")
	in.setLimit(t, in.topic, "1000000")
	in.run(in.bad[invoice], "events", "retry", "--topic", in.topic)
	in.awaitCleared()
	in.run(in.bad[snapshot], "events", "restore", "--topic", in.topic, "--type", snapshot)
	in.run(0, "keys", "unpark", "--topic", in.topic)
	written := stop()
	in.awaitPublished(t)
	in.step("all of it is published")
	for i, r := range relays {
		if code := r.end(syscall.SIGTERM); code != 0 {
			t.Errorf("relay %d ended with %d", i+1, code)
		}
	}
	in.checkRecords(in.events + written)
	in.checkBooks()
	in.step("everything is where it should be")
}

func newIncident(t *testing.T, events int) *incident {
	t.Helper()
	in := &incident{fixture: newFixture(t), t: t, events: events, bad: map[string]int{}, begun: time.Now()}
	in.topic = in.fixture.topic(t, name("incident"), 6, "max.message.bytes", "4000")
	// Of ten events of each key the third is the bad one, if there is one.
	in.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', 'k' || i, CASE WHEN bad THEN (ARRAY[$3, $4, $5])[1 + i / 2 % 3] ELSE 'order.changed.v1' END,
    jsonb_build_object('n', n, 'x', CASE WHEN bad THEN repeat('x', 5000) ELSE '' END), $1, 'k' || i
FROM generate_series(1, 10) n, generate_series(1, $2::int) i, LATERAL (SELECT n = 3 AND i % 2 = 0) v(bad)`,
		in.topic, events/10, snapshot, attachment, invoice)
	for kind := range map[string]bool{snapshot: true, attachment: true, invoice: true} {
		in.bad[kind] = in.count(t, "SELECT count(*) FROM outbox_event WHERE event_type = $1", kind)
	}
	in.step("%d events are written; too large are %v", events, in.bad)
	return in
}

func (in *incident) step(format string, args ...any) {
	in.t.Helper()
	in.t.Logf("%6.1f s  %s", time.Since(in.begun).Seconds(), fmt.Sprintf(format, args...))
}

// look finds out what is wrong.
func (in *incident) look(blocked int) {
	in.t.Helper()
	say := func(want string, args ...string) {
		in.t.Helper()
		begun := time.Now()
		stdout, stderr, code := in.outbox(in.t, args...)
		if code != 0 || !strings.Contains(stdout, want) {
			in.t.Errorf("outbox %s: exit code %d, want %q in\n%s%s", strings.Join(args, " "), code, want, stdout, stderr)
		}
		in.step("outbox %s took %s", strings.Join(args, " "), time.Since(begun).Round(time.Millisecond))
	}
	say(fmt.Sprintf("parked keys     %d", blocked), "status")
	say("MESSAGE_TOO_LARGE", "keys", "list", "--topic", in.topic, "--limit", "5")
	say(invoice, "events", "list", "--state", "parked", "--type", invoice, "--error", "too_large", "--limit", "5")
	say(in.topic, "topics")
	say(fmt.Sprintf("retry would touch %d events", blocked), "events", "retry", "--topic", in.topic, "--dry-run")
	say(fmt.Sprintf("skip would touch %d keys", in.bad[attachment]), "keys", "skip", "--topic", in.topic, "--type", attachment, "--dry-run", "--reason", "x")
}

// run expects a change of many to be done, all of it.
func (in *incident) run(want int, args ...string) {
	in.t.Helper()
	begun := time.Now()
	stdout, stderr, code := in.outbox(in.t, append(args, "--yes", "--json", "--as", "ann")...)
	var r operate.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
		in.t.Fatalf("outbox %s: exit code %d, %v\n%s%s", strings.Join(args, " "), code, err, stdout, stderr)
	}
	if r.Done != int64(want) || r.Total != r.Done {
		in.t.Errorf("outbox %s: %+v, want %d done and no more", strings.Join(args, " "), r, want)
	}
	in.step("outbox %s: %d done in %s", strings.Join(args, " "), r.Done, time.Since(begun).Round(time.Millisecond))
}

// awaitCleared waits until nothing is parked, nor waits behind what was parked.
func (in *incident) awaitCleared() {
	in.t.Helper()
	await.Until(in.t, "every key goes on", func() bool {
		return in.count(in.t, "SELECT count(*) FROM outbox.parked_key") == 0 &&
			in.count(in.t, "SELECT count(*) FROM outbox_event WHERE published_at IS NULL AND created_at < clock_timestamp() - interval '1 second'") == 0
	})
	in.step("every key has gone on")
}

// checkRecords compares the topic with the table and the dead events.
func (in *incident) checkRecords(written int) {
	in.t.Helper()
	dead := in.idsOf("SELECT event_id FROM outbox.dead_event")
	restored := in.idsOf("SELECT event_id FROM outbox_event WHERE event_type = $1", snapshot)
	if len(dead) != in.bad[attachment] || len(restored) != in.bad[snapshot] {
		in.t.Errorf("%d are dead and %d came back, want %d and %d", len(dead), len(restored), in.bad[attachment], in.bad[snapshot])
	}
	got, repeats := kafkatest.ByKey(in.records(in.t, in.topic))
	want := kafkatest.InTable(in.t, in.pool, in.topic)
	total := len(dead)
	for key, ids := range got {
		total += len(ids)
		// What came back is behind what was published meanwhile; all others are in their order.
		at := func(id uuid.UUID) bool { return restored[id] }
		back, wantBack := slices.ContainsFunc(ids, at), slices.ContainsFunc(want[key], at)
		got[key], want[key] = slices.DeleteFunc(ids, at), slices.DeleteFunc(want[key], at)
		if back != wantBack {
			in.t.Errorf("key %s: its event that came back is published: %t, want %t", key, back, wantBack)
		}
		if slices.ContainsFunc(ids, func(id uuid.UUID) bool { return dead[id] }) {
			in.t.Errorf("key %s: a dead event was published", key)
		}
	}
	kafkatest.Compare(in.t, in.topic, got, want)
	if total != written || repeats != 0 {
		in.t.Errorf("%d events are in Kafka or dead and %d came twice; want all %d once", total, repeats, written)
	}
}

func (in *incident) idsOf(sql string, args ...any) map[uuid.UUID]bool {
	in.t.Helper()
	rows, err := in.pool.Query(in.t.Context(), sql, args...)
	if err != nil {
		in.t.Fatal(err)
	}
	ids := map[uuid.UUID]bool{}
	var id uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { ids[id] = true; return nil }); err != nil {
		in.t.Fatal(err)
	}
	return ids
}

// checkBooks compares the audit and the jobs with what was done.
func (in *incident) checkBooks() {
	in.t.Helper()
	var audit operate.AuditPage
	var jobs operate.JobPage
	in.decode(&audit, "audit", "--actor", "ann", "--json")
	in.decode(&jobs, "jobs", "list", "--actor", "ann", "--json")
	want := []string{
		fmt.Sprintf("restore %d", in.bad[snapshot]), fmt.Sprintf("retry %d", in.bad[invoice]),
		fmt.Sprintf("skip %d", in.bad[attachment]), fmt.Sprintf("dead %d", in.bad[snapshot]),
	}
	var changed, done []string
	for _, e := range audit.Entries {
		if e.Affected == nil || e.EndedAt.IsZero() {
			in.t.Errorf("row %d of the audit, %s, never ended", e.ID, e.Verb)
			continue
		}
		changed = append(changed, fmt.Sprintf("%s %d", e.Verb, *e.Affected))
	}
	for _, j := range jobs.Jobs {
		if j.State != operate.JobDone || j.Total != j.Done {
			in.t.Errorf("job %d: %+v, want it done, all of it", j.ID, j)
		}
		done = append(done, fmt.Sprintf("%s %d", j.Verb, j.Done))
	}
	if all := append([]string{"unpark 0"}, want...); !slices.Equal(changed, all) {
		in.t.Errorf("audit: %v, want %v", changed, all)
	}
	if !slices.Equal(done, want) {
		in.t.Errorf("jobs: %v, want %v", done, want)
	}
	if n := in.count(in.t, "SELECT count(*) FROM outbox.request WHERE done_at IS NULL"); n != 0 {
		in.t.Errorf("%d requests are open", n)
	}
}

func (in *incident) decode(into any, args ...string) {
	in.t.Helper()
	stdout, stderr, code := in.outbox(in.t, args...)
	if err := json.Unmarshal([]byte(stdout), into); err != nil || code != 0 {
		in.t.Fatalf("outbox %s: exit code %d, %v: %s", strings.Join(args, " "), code, err, stderr)
	}
}
