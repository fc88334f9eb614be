package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/outboxtest"
)

// product is a database in which every part of the product has a role of its own, with what migrate grants prints for it and nothing else.
type product struct {
	db *pgtest.DB
	// roles are the names of the roles, urls the addresses of the database for them, by what they are.
	roles, urls map[string]string
	cluster     *kfake.Cluster
}

func newProduct(t *testing.T) *product {
	t.Helper()
	p := &product{db: pgtest.New(t, pgtest.Empty), roles: map[string]string{}, urls: map[string]string{}, cluster: newCluster(t, "shop.order")}
	for _, role := range []string{"owner", "writer", "relay", "operator", "viewer", "consumer"} {
		p.roles[role], p.urls[role] = newRole(t, p.db)
	}
	// The tables of the owner go with its role, which is dropped by whoever made it.
	p.grant(t, p.db.URL, "owner", "--owner")
	if got := p.as(t, "owner", "migrate up"); got.code != exitOK {
		t.Fatalf("migrate up: %+v", got)
	}
	p.grant(t, p.urls["owner"], "writer", "--writer")
	p.grant(t, p.urls["owner"], "relay", "--delete", "--restore")
	p.grant(t, p.urls["owner"], "operator", "--operator", "--delete", "--restore")
	p.grant(t, p.urls["owner"], "viewer", "--viewer")
	p.grant(t, p.urls["owner"], "consumer", "--consumer")
	return p
}

// grant runs what migrate grants prints, by the role of the address.
func (p *product) grant(t *testing.T, address, role string, flags ...string) {
	t.Helper()
	got := runWith(t, nil, append([]string{"migrate", "grants", "--role", p.roles[role]}, flags...)...)
	(&pgtest.DB{URL: address}).Exec(t, got.out)
}

// as runs a command by a role.
func (p *product) as(t *testing.T, role, command string) said {
	t.Helper()
	return runWith(t, []string{"DATABASE_URL=" + p.urls[role], "KAFKA_BROKERS=" + p.cluster.ListenAddrs()[0]}, strings.Fields(command)...)
}

// all runs commands by a role. They have to succeed.
func (p *product) all(t *testing.T, role string, commands ...string) {
	t.Helper()
	for _, command := range commands {
		if got := p.as(t, role, command); got.code != exitOK {
			t.Errorf("the %s's outbox %s: %d %s%s", role, command, got.code, got.out, got.errs)
		}
	}
}

// write writes an event by the library, for each of the keys, in one transaction of the writer.
func (p *product) write(t *testing.T, topic string, keys ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.urls["writer"])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		for _, key := range keys {
			event := outbox.Event{AggregateType: "Order", AggregateID: key, Type: "order.placed.v1", Topic: topic, Payload: map[string]any{"order": key}}
			if _, err := outbox.Write(t.Context(), tx, event); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("write by the writer's role: %v", err)
	}
}

func (p *product) relayed(t *testing.T, mode string, onFailure ...string) (stop func() error) {
	t.Helper()
	source := config.Source{DatabaseURL: p.urls["relay"], Brokers: p.cluster.ListenAddrs(), Mode: mode, OnFailure: onFailure}
	fleet := fleetOf(t, source)
	stop = atWork(t, fleet)
	await.Until(t, "the relay works", isReady(fleet, 0))
	return stop
}

func (p *product) count(t *testing.T, sql string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (p *product) settled(t *testing.T) {
	t.Helper()
	await.Until(t, "all is published", func() bool { return p.count(t, "SELECT count(*) FROM outbox_event WHERE published_at IS NULL") == 0 })
}

func TestTheWholeProductWorksWithTheRightsThatAreGranted(t *testing.T) {
	t.Parallel()
	p := newProduct(t)
	stop := p.relayed(t, "leased")
	p.write(t, "shop.order", "1", "2", "3")
	p.settled(t)
	p.all(t, "operator", "pause topic shop.order", "resume topic shop.order", "pause relay --reason x", "resume relay", "replay --max-id 1 --reason x --yes", "lanes list")
	(&pgtest.DB{URL: p.urls["writer"]}).Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', k, 'order.placed.v1', jsonb_build_object('much', repeat('x', 1100000)), 'shop.order', k FROM (VALUES ('4'), ('5')) v(k)`)
	await.Until(t, "a key is parked", func() bool { return p.count(t, "SELECT count(*) FROM outbox.parked_key") == 2 })
	p.all(t, "viewer", "status", "events list", "events show 4", "keys list", "topics", "relays", "lanes list", "pause list", "jobs list", "audit", "inbox list", "migrate status",
		"dlt list shop.order --force", "events list --state dead", "replay --all --reason x --dry-run")
	p.all(t, "operator", "events skip 4 --reason x", "events restore 4", "events skip --state pending --reason x --yes")
	if err := stop(); err != nil {
		t.Error(err)
	}
	stop = p.relayed(t, "competing")
	p.write(t, "shop.order", "6")
	p.settled(t)
	if err := stop(); err != nil {
		t.Error(err)
	}
	p.consume(t)
	p.all(t, "operator", "inbox list", "inbox forget --consumer billing --all --yes", "prune --older-than 0s --dead 0s --yes")
	p.all(t, "relay", "doctor", "status", "relay --once")
	p.all(t, "owner", "migrate up", "migrate status", "lanes set 4 --yes")
}

// consume handles what is in Kafka by the consumer's role, and prunes what it remembers.
func (p *product) consume(t *testing.T) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), p.urls["consumer"])
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	handlers := inbox.NewHandlers[pgx.Tx]()
	inbox.On(handlers, "order.placed.v1", func(_ context.Context, _ pgx.Tx, e inbox.Event[struct{ Order string }]) error {
		if e.Payload.Order == "3" {
			return errors.New("the third fails")
		}
		return nil
	})
	processor, err := inbox.NewProcessor("billing", inbox.Pool(pool), handlers, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := processor.Check(t.Context()); err != nil {
		t.Error(err)
	}
	done := outboxtest.Consume(t, processor, p.cluster.ListenAddrs(), "shop.order")
	if done.Handled != 3 || len(done.Failed) != 1 {
		t.Errorf("consumed %+v", done)
	}
	if _, err := processor.Failed(t.Context(), done.Failed[0].Record, done.Failed[0].Err); err != nil {
		t.Error(err)
	}
	if _, err := processor.Prune(t.Context()); err != nil {
		t.Error(err)
	}
}

// What a role does not need it must not have: whoever gets hold of its password can do that much less.
func TestEachRoleIsRefusedWhatIsNotItsWork(t *testing.T) {
	t.Parallel()
	p := newProduct(t)
	p.write(t, "shop.order", "1")
	const insert = "INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key) VALUES (gen_random_uuid(), 'O', '1', 'x', '{}', 't', 'k')"
	everybody := []string{
		"TRUNCATE outbox_event", "DROP TABLE outbox_event", "ALTER TABLE outbox_event ADD COLUMN x text", "CREATE TABLE outbox.x ()", "DROP SCHEMA outbox CASCADE", "CREATE SCHEMA x",
		"UPDATE outbox_event SET payload = '{}'", "SELECT nextval(pg_get_serial_sequence('outbox_event', 'id')) FROM outbox_event", "SELECT setval(pg_get_serial_sequence('outbox_event', 'id'), 1)",
		"UPDATE outbox.source SET lanes = 3", "DELETE FROM outbox.source", "INSERT INTO outbox.lane SELECT * FROM outbox.lane", "UPDATE outbox.migration SET checksum = ''", "TRUNCATE outbox.audit",
	}
	working := []string{
		"SELECT payload FROM outbox_event", "UPDATE outbox_event SET published_at = now()", "DELETE FROM outbox_event", "SELECT * FROM outbox.source", "UPDATE outbox.lane SET epoch = 1", "DELETE FROM outbox.parked_key",
	}
	for role, more := range map[string][]string{
		"writer":   append(working, "SELECT * FROM outbox.inbox"),
		"consumer": append(working, insert, "UPDATE outbox.inbox SET consumer = 'x'"),
		"viewer": {
			insert, "UPDATE outbox_event SET published_at = now()", "DELETE FROM outbox_event", "UPDATE outbox.lane SET epoch = 1", "DELETE FROM outbox.parked_key", "INSERT INTO outbox.request DEFAULT VALUES",
			"DELETE FROM outbox.pause", "DELETE FROM outbox.inbox", "DELETE FROM outbox.audit", "UPDATE outbox.job SET state = 'x'", "DELETE FROM outbox.dead_event",
		},
		"relay": {
			"INSERT INTO outbox.request DEFAULT VALUES", "UPDATE outbox.request SET verb = 'x'", "INSERT INTO outbox.audit DEFAULT VALUES", "DELETE FROM outbox.pause", "SELECT * FROM outbox.inbox",
		},
		"operator": {"INSERT INTO outbox.inbox SELECT * FROM outbox.inbox", "DELETE FROM outbox.inbox_failure", "UPDATE outbox.request SET verb = 'x'"},
	} {
		conn, err := pgx.Connect(t.Context(), p.urls[role])
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range append(everybody, more...) {
			if role == "writer" && strings.Contains(sql, "nextval") {
				continue // Only so are ids drawn by some libraries.
			}
			_, err := conn.Exec(t.Context(), sql)
			if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != insufficientPrivilege {
				t.Errorf("the %s's %s: %v, want permission denied", role, sql, err)
			}
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
