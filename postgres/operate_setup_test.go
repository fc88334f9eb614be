package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/operate"
)

// desk is a store over a database of its own, as the service uses it.
type desk struct {
	*testing.T
	db    *pgxpool.Pool
	id    uuid.UUID
	store *Store
}

// lookTime bounds the looks of tests, which share a machine.
const lookTime = time.Minute

func newDesk(t *testing.T, opts ...pgtest.Option) *desk {
	t.Helper()
	test := pgtest.New(t, opts...)
	return deskOn(t, test, test.Pool(t))
}

func deskOn(t *testing.T, test *pgtest.DB, db *pgxpool.Pool) *desk {
	t.Helper()
	s, err := NewStore(db, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &desk{T: t, db: db, id: test.Source, store: s}
}

func (d *desk) exec(sql string, args ...any) {
	d.Helper()
	if _, err := d.db.Exec(d.Context(), sql, args...); err != nil {
		d.Fatalf("%s: %v", sql, err)
	}
}

// event writes the event n of a key; its event id ends in n. published is an expression.
func (d *desk) event(n int64, topic, key, published string) {
	d.Helper()
	d.exec(fmt.Sprintf(`INSERT INTO outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, published_at)
OVERRIDING SYSTEM VALUE VALUES ($1, $2, 'Order', $3, 'order.placed.v1', jsonb_build_object('n', $1::bigint), $4, $5, %s)`, published), n, eventID(n), fmt.Sprint(n%3), topic, key)
}

func eventID(n int64) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("00000000-0000-0000-0000-%012d", n))
}

// park parks a key by its event n.
func (d *desk) park(n int64, topic, key, reason string) {
	d.Helper()
	d.exec(`INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
VALUES ($1, $2, $3, $4, 0, $5, $6, 'order.placed.v1', 'MESSAGE_TOO_LARGE', $7)`, d.id, topic, pg.KeyHash(relayKey(topic, key)), key, n, eventID(n), reason)
}

// fail writes down that the event n is tried again at an expression.
func (d *desk) fail(n int64, topic, key, next string) {
	d.Helper()
	d.exec(`INSERT INTO outbox.failure (source, id, event_id, topic, partition_key, lane, attempts, first_error, last_error, next_attempt_at)
VALUES ($1, $2, $3, $4, $5, 0, 3, 'the first error', 'the last error', `+next+`)`, d.id, n, eventID(n), topic, key)
}

// die moves the event n to the dead ones.
func (d *desk) die(n int64, reason string) {
	d.Helper()
	d.exec(`WITH gone AS (DELETE FROM outbox_event e WHERE id = $2 RETURNING *)
INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, attempts, died_by)
SELECT $1, id, event_id, topic, partition_key, 0, to_jsonb(gone), 'SKIPPED', $3, 2, 'ann' FROM gone`, d.id, n, reason)
}

// relay registers a relay that is alive and has all lanes.
func (d *desk) relay(name string) uuid.UUID {
	d.Helper()
	owner := uuid.New()
	d.exec(`INSERT INTO outbox.relay (source, owner, name, version, started_at, expires_at, proved_at) VALUES ($1, $2, $3, '1', now() - interval '1 h', now() + interval '1 h', now())`, d.id, owner, name)
	d.exec(`UPDATE outbox.lane SET owner = $1, epoch = epoch + 1, expires_at = now() + interval '1 h'`, owner)
	return owner
}

// events lists with the defaults of the service.
func (d *desk) events(q operate.EventQuery) operate.EventPage {
	d.Helper()
	p, err := d.service().Events(d.Context(), operate.Actor{}, q)
	if err != nil {
		d.Fatalf("list %+v: %v", q, err)
	}
	return p
}

// all lists page by page, and gives up when the list does not end.
func (d *desk) all(q operate.EventQuery) (events []operate.Event, pages int) {
	d.Helper()
	for pages < 1000 {
		p := d.events(q)
		events, pages, q.After = append(events, p.Events...), pages+1, p.Next
		if p.Next == "" {
			return events, pages
		}
	}
	d.Fatalf("the list does not end: %+v", q)
	return nil, 0
}

func listed(events []operate.Event) []int64 {
	list := []int64{}
	for _, e := range events {
		list = append(list, e.ID)
	}
	return list
}

// lookupsOnly is a store for what only looks.
type lookupsOnly struct {
	operate.Lookups
	operate.Changes
}

func (d *desk) service() *operate.Service {
	d.Helper()
	s, err := operate.New(lookupsOnly{Lookups: d.store}, nil, operate.Config{LookTimeout: lookTime})
	if err != nil {
		d.Fatal(err)
	}
	return s
}
