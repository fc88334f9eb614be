package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/expect"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

// age makes an event look as old as that by the database's clock.
func age(t *testing.T, db *pgxpool.Pool, ref relay.Ref, old time.Duration) {
	t.Helper()
	exec(t, db, `UPDATE outbox_event SET created_at = clock_timestamp() - $2::bigint * interval '1 microsecond' WHERE id = $1`,
		ref.ID, old.Microseconds())
}

// about tells whether an age that grew while the test ran is the wanted one.
func about(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	expect.About(t, what, got, want)
}

func backlog(t *testing.T, s *Source) Backlog {
	t.Helper()
	b, err := s.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// One event of a parked key is old, the others are not: the ages must not hide each other (BL-135).
func TestBacklogTellsTheAgesApart(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	same(t, "the backlog of an empty table", backlog(t, s), Backlog{Indexed: true})
	c := claim(t, s, owner("a"))
	stuck := insert(t, db, orders, 2)
	fresh := insert(t, db, relay.Key{Topic: "b", PartitionKey: "x"}, 3)
	done := insert(t, db, relay.Key{Topic: "b", PartitionKey: "done"}, 1)
	age(t, db, stuck[0], 30*time.Hour)
	age(t, db, fresh[1], 2*time.Hour)
	age(t, db, done[0], 99*time.Hour)
	settle(t, s, done)
	park(t, s, c, parked(orders, stuck[0]))
	exec(t, db, `UPDATE outbox.parked_key SET parked_at = clock_timestamp() - interval '1 h'`)
	b := backlog(t, s)
	about(t, "OldestAge", b.OldestAge, 30*time.Hour)
	about(t, "EligibleAge", b.EligibleAge, 2*time.Hour)
	about(t, "ParkedAge", b.ParkedAge, time.Hour)
	b.OldestAge, b.EligibleAge, b.ParkedAge = 0, 0, 0
	same(t, "the rest", b, Backlog{Pending: 5, ParkedKeys: 1, Indexed: true})
}

// The writer's clock is the database's, but its transaction may have begun after ours; and rows can be imported (BL-141).
func TestAgesAreNeverNegative(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	age(t, db, insert(t, db, orders, 1)[0], -time.Hour)
	same(t, "the backlog", backlog(t, s), Backlog{Pending: 1, Indexed: true})
}

func TestBacklogGrowsOldWithoutTraffic(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	insert(t, db, orders, 1)
	first := backlog(t, s).OldestAge
	if second := backlog(t, s).OldestAge; second <= first {
		t.Errorf("the age went from %s to %s", first, second)
	}
}

func TestCountingEndsAtTheLimit(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	bulkInsert(t, db, backlogLimit+1)
	b := backlog(t, s)
	same(t, "Pending", b.Pending, int64(backlogLimit))
	same(t, "PendingCapped", b.PendingCapped, true)
	exec(t, db, `DELETE FROM outbox_event WHERE id = 1`)
	b = backlog(t, s)
	same(t, "Pending at the limit", b.Pending, int64(backlogLimit))
	same(t, "PendingCapped at the limit", b.PendingCapped, false)
}

func TestBacklogSaysWhenTheIndexIsGone(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	var log strings.Builder
	s.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	exec(t, db, `DROP INDEX ix_outbox_event_unpublished`)
	same(t, "Indexed", backlog(t, s).Indexed, false)
	same(t, "Indexed again", backlog(t, s).Indexed, false)
	exec(t, db, `CREATE INDEX other ON outbox_event (id) WHERE published_at IS NULL`)
	same(t, "Indexed by another name", backlog(t, s).Indexed, true)
	same(t, "Indexed by another name, again", backlog(t, s).Indexed, true)
	if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "CREATE INDEX") || !strings.Contains(got, "is back") {
		t.Errorf("the log says %q, want the loss and the return, once each", got)
	}
}

func TestStatusShowsTheWholeSource(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	o := owner("host-a:1")
	c := claim(t, s, o)
	a := insert(t, db, orders, 2)
	b := insert(t, db, relay.Key{Topic: "b", PartitionKey: "x"}, 3)
	age(t, db, a[0], 3*time.Hour)
	settle(t, s, b[:1])
	park(t, s, c, parked(orders, a[0]))
	exec(t, db, `INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
SELECT id, 'only-parked', '', 'k', 0, 1, gen_random_uuid(), '', '', '' FROM outbox.source`)
	exec(t, db, `UPDATE outbox.lane SET owner = NULL, expires_at = NULL WHERE lane = 7`)
	got, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "Table", got.Table, "public.outbox_event")
	same(t, "SourceID", got.SourceID, queryOne[uuid.UUID](t, db, `SELECT id FROM outbox.source`))
	same(t, "Pending, ParkedKeys", []int64{got.Pending, got.ParkedKeys}, []int64{4, 2})
	about(t, "OldestAge", got.OldestAge, 3*time.Hour)
	if last := queryOne[time.Time](t, db, `SELECT max(published_at) FROM outbox_event`); got.LastPublished.Before(last) || got.LastPublished.After(got.At) {
		t.Errorf("LastPublished = %s", got.LastPublished)
	}
	if got.FirstPublished.IsZero() || got.FirstPublished.After(got.At) || got.At.IsZero() {
		t.Errorf("FirstPublished = %s, At = %s", got.FirstPublished, got.At)
	}
	topics := got.Topics
	for i := range topics {
		topics[i].OldestAge, topics[i].EligibleAge = 0, 0
	}
	same(t, "Topics", topics, []TopicStatus{
		{Topic: "b", Pending: 2}, {Topic: "only-parked", ParkedKeys: 1}, {Topic: orders.Topic, Pending: 2, ParkedKeys: 1},
	})
	same(t, "number of lanes", len(got.Lanes), 8)
	for _, l := range got.Lanes[:7] {
		if l.Owner != o.ID || l.OwnerName != "host-a:1" || l.Epoch != 1 || l.Remaining <= 0 || l.Remaining > ttl {
			t.Errorf("lane %+v is not held by %+v", l, o)
		}
	}
	same(t, "parked keys of the lanes of both", []int64{got.Lanes[0].ParkedKeys, got.Lanes[relay.Lane(orders.PartitionKey, 8)].ParkedKeys}, []int64{1, 1})
	same(t, "the free lane", got.Lanes[7], LaneStatus{Lane: 7, Epoch: 1})
	if len(got.Relays) != 1 || got.Relays[0].Owner != o || got.Relays[0].SeenAt.IsZero() || got.Relays[0].Remaining <= 0 || got.Relays[0].Remaining > ttl {
		t.Errorf("Relays = %+v, want %+v", got.Relays, o)
	}
}

// A backlog of a million takes a second to read; to read it three times takes three.
func TestStatusReadsTheBacklogOnce(t *testing.T) {
	t.Parallel()
	test := pgtest.New(t)
	db, ears := listening(t, test.URL)
	o := newOperator(t, db)
	insert(t, db, orders, 2)
	if _, err := o.Pause(t.Context(), relay.PauseKey, orders.Topic, orders.PartitionKey, "ann", "why"); err != nil {
		t.Fatal(err)
	}
	ears.take()
	st, err := o.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	for text := range ears.take() {
		reads += strings.Count(text, "WHERE published_at IS NULL ORDER BY id LIMIT $2")
	}
	same(t, "reads, and what the pause keeps", []int64{int64(reads), st.Pauses[0].Pending}, []int64{1, 2})
}

// What is cut off at the limit says so, wherever it stands, and the parts add up to the whole.
func TestCountsOfAStatusThatEndAtTheLimitSaySo(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	o := newOperator(t, db)
	insert(t, db, orders, 3)
	insert(t, db, relay.Key{Topic: "b", PartitionKey: "x"}, 3)
	for _, p := range []relay.Pause{{Scope: relay.PauseSource}, {Scope: relay.PauseTopic, Topic: "b"}} {
		if _, err := o.Pause(t.Context(), p.Scope, p.Topic, "", "ann", "why"); err != nil {
			t.Fatal(err)
		}
	}
	row, err := o.db.Source(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]string{
		6: "6 false: b 3 false, order-service.order.confirmed 3 false, pause 6 false, pause 3 false; keeping 6 false, 3 false",
		4: "4 true: b 1 true, order-service.order.confirmed 3 true, pause 4 true, pause 1 true; keeping 4 true, 2 true",
	} {
		st, err := readStatus(t.Context(), o.db, row, limit)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%d %t:", st.Pending, st.PendingCapped)
		for _, x := range st.Topics {
			got += fmt.Sprintf(" %s %d %t,", x.Topic, x.Pending, x.PendingCapped)
		}
		got += pausesText(" pause ", st.Pauses) + "; keeping"
		kept, err := pg.Glance(t.Context(), o.db, row, statusTimeout, func(ctx context.Context, tx pgx.Tx) (p []PauseStatus, err error) {
			p, _, err = readKeeping(ctx, tx, row, limit)
			return p, err
		})
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprint("to ", limit), got+pausesText(" ", kept), want)
	}
}

func pausesText(word string, pauses []PauseStatus) string {
	list := make([]string, len(pauses))
	for i, p := range pauses {
		list[i] = fmt.Sprintf("%s%d %t", word, p.Pending, p.PendingCapped)
	}
	return strings.Join(list, ",")
}

// On a Monday it is of use that the last relay crashed on Friday.
func TestARelayThatHasBeenDeadForDaysIsShown(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `INSERT INTO outbox.relay (source, owner, name, version, seen_at, expires_at)
SELECT id, gen_random_uuid(), 'friday:1', '1', now() - interval '60 h', now() - interval '59 h' FROM outbox.source`)
	got, err := newOperator(t, db).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Relays) != 1 || got.Relays[0].Name != "friday:1" || got.Relays[0].Remaining > 0 || got.At.Sub(got.Relays[0].SeenAt).Round(time.Hour) != 60*time.Hour {
		t.Errorf("Relays = %+v, want the one of 60 hours ago", got.Relays)
	}
}

func TestLastPublishedIsFoundBehindALargeBacklog(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	settle(t, s, insert(t, db, orders, 1))
	bulkInsert(t, db, 3000)
	got, err := s.Status(t.Context())
	if err != nil || got.LastPublished.IsZero() {
		t.Errorf("LastPublished = %s, %v; want that of the first event", got.LastPublished, err)
	}
}

// All three are legal in timestamptz.
func TestStatusBearsAnyCreationTime(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	refs := insert(t, db, orders, 3)
	for i, at := range []string{"infinity", "-infinity", "0001-01-01 BC"} {
		exec(t, db, "UPDATE outbox_event SET created_at = $2::text::timestamptz WHERE id = $1", refs[i].ID, at)
	}
	st, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "pending", st.Pending, 3)
	if st.OldestAge < 200*365*24*time.Hour {
		t.Errorf("the oldest is %s old, want that of the year 1 BC, as far as a duration reaches", st.OldestAge)
	}
	if _, err := s.Backlog(t.Context()); err != nil {
		t.Error(err)
	}
}
