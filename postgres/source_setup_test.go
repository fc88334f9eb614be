package postgres

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/expect"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

// allLanes are those of a source that is made without saying how many.
var allLanes = []int32{0, 1, 2, 3, 4, 5, 6, 7}

// leasing returns a database of the test's own, an open source of its table, and a claim of all lanes.
func leasing(t *testing.T) (*pgxpool.Pool, *Source, relay.Claim) {
	t.Helper()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	return db, s, claim(t, s, owner("a"))
}

// ttl is longer than any test: leases expire when a test says so.
const ttl = time.Hour

// openSource returns an open source of the database's table public.outbox_event.
func openSource(t *testing.T, db *pgxpool.Pool, cfg Config) *Source {
	t.Helper()
	s := newSource(t, db, cfg)
	if _, err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	// No batch takes time: how much of one is done, and how large the next one is, would depend on what else the machine does.
	standing := func() time.Time { return time.Unix(1, 0) }
	s.open.Load().requests.now, s.open.Load().failures.now = standing, standing
	return s
}

func newSource(t *testing.T, db *pgxpool.Pool, cfg Config) *Source {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	s, err := New(db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func owner(name string) relay.Owner {
	return relay.Owner{ID: uuid.New(), Name: name, Version: "test"}
}

// claim takes lanes, of which some must be free.
func claim(t *testing.T, s *Source, o relay.Owner) relay.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), o, ttl, relay.Claim{})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Lanes) == 0 {
		t.Fatalf("claim of %s: it got no lane", o.Name)
	}
	return c
}

// expire ends all leases and registrations, as the passing of time does.
func expire(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	exec(t, db, `UPDATE outbox.relay SET expires_at = clock_timestamp() - interval '1 ms'`)
	exec(t, db, `UPDATE outbox.lane SET expires_at = clock_timestamp() - interval '1 ms' WHERE owner IS NOT NULL`)
}

// insert writes n events of a key, each in a transaction of its own.
func insert(t *testing.T, db *pgxpool.Pool, key relay.Key, n int) []relay.Ref {
	t.Helper()
	refs := make([]relay.Ref, n)
	for i := range refs {
		refs[i].EventID = uuid.New()
		refs[i].ID = queryOne[int64](t, db, `
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES ($1, 'Order', $3, 'order.confirmed.v1', jsonb_build_object('n', $4::int), $2, $3) RETURNING id`,
			refs[i].EventID, key.Topic, key.PartitionKey, i)
	}
	return refs
}

func parked(key relay.Key, ref relay.Ref) relay.ParkedKey {
	return relay.ParkedKey{Key: key, Event: ref, EventType: "order.confirmed.v1", Code: "MESSAGE_TOO_LARGE", Reason: "the event is too large"}
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	return pgtest.Exec(t, db, sql, args...)
}

func queryOne[T any](t *testing.T, db *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	return pgtest.One[T](t, db, sql, args...)
}

// reconfigured returns a pool of the same server and database with other settings.
func reconfigured(t *testing.T, db *pgxpool.Pool, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	return pgtest.Reconfigured(t, db, change)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, what, ok)
}

func published(t *testing.T, db *pgxpool.Pool) []int64 {
	t.Helper()
	return queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox_event WHERE published_at IS NOT NULL ORDER BY id)`)
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	expect.Same(t, what, got, want)
}

// wantText checks that the error tells all of the parts.
func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	expect.Text(t, err, parts...)
}
