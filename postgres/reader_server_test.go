package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

// outboxDDL is what the reader needs of a database, for a server on which nothing is migrated.
const outboxDDL = `CREATE TABLE outbox_event (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid         NOT NULL UNIQUE,
    aggregate_type text         NOT NULL,
    aggregate_id   text         NOT NULL,
    event_type     text         NOT NULL,
    payload        jsonb        NOT NULL,
    topic          text         NOT NULL,
    partition_key  text         NOT NULL,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    published_at   timestamptz
);
CREATE INDEX ix_outbox_event_unpublished ON outbox_event(id) WHERE published_at IS NULL;
CREATE SCHEMA outbox;
CREATE TABLE outbox.parked_key (source uuid, topic text, key_hash bytea, lane integer)`

// A crash takes back commits that were not flushed, and the sequence with them: ids are given a second time, to other events.
func TestServerThatLostIDsIsNoticed(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, devpg.Options{Params: map[string]string{
		"synchronous_commit": "off", "wal_writer_delay": "10s", "autovacuum": "off"}})
	db := &pgtest.DB{URL: server.URL("postgres"), Name: "postgres"}
	db.Exec(t, outboxDDL)
	var b *bench
	var again *pgx.Conn
	var id int64
	for lost := false; !lost; {
		b = benchOn(t, db)
		b.exec("CHECKPOINT")
		b.start()
		b.drain(10)
		id = b.insert("a")
		b.wantDrained(id)
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		again = db.Conn(t)
		// The server may have flushed the commit by chance; then it is done again.
		lost = insertEvent(t, again, "a") <= id
	}
	// A pooler hides that the connection is another one.
	b.reader.db, b.locks.db = openSession(t, db), openSession(t, db)
	if _, err := b.Read(t.Context(), 10); !errors.Is(err, relay.ErrServerChanged) {
		t.Fatalf("Read = %v, want ErrServerChanged", err)
	}
	if found, err := b.Sweep(t.Context(), 0, func(relay.Ref) bool { return false }, nil); !errors.Is(err, relay.ErrServerChanged) {
		t.Fatalf("Sweep = %d, %v, want ErrServerChanged", found, err)
	}
	b.plain = again
	b.start()
	if got := b.drain(10); len(got) == 0 || got[len(got)-1] != id {
		t.Fatalf("after a new start: %v, want the new event with the old id %d", got, id)
	}
}

// The connection that asks about locks may be the first to meet the other server: its answer says nothing about this one's writers.
func TestAnswerOfAnotherServerClosesNoHole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	late := b.begin()
	late.insert("a")
	b.insert("c")
	b.wantRead(2)
	other := pgtest.Server(t, devpg.Options{})
	db := &pgtest.DB{URL: other.URL("postgres"), Name: "postgres"}
	db.Exec(t, outboxDDL)
	b.locks.db = openSession(t, db)
	if _, err := b.Read(t.Context(), 10); !errors.Is(err, relay.ErrServerChanged) {
		t.Fatalf("Read = %v, want ErrServerChanged", err)
	}
}

func TestChangedTimelineIsNoticed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	b.server.timeline++
	if _, err := b.Read(t.Context(), 10); !errors.Is(err, relay.ErrServerChanged) {
		t.Fatalf("Read = %v, want ErrServerChanged", err)
	}
}

// A role that may read the table, its sequence and the state needs no other right.
func TestPlainRoleCanRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	role := "plain_" + b.db.Name
	b.exec("CREATE ROLE " + role)
	defer b.exec("DROP OWNED BY " + role + "; DROP ROLE " + role)
	b.exec("GRANT SELECT ON outbox_event, outbox_event_id_seq, outbox.parked_key TO " + role)
	b.exec("GRANT USAGE ON SCHEMA outbox TO " + role)
	for _, db := range []pg.Runner{b.reader.db, b.locks.db} {
		err := db.Run(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET ROLE "+role)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	late := b.begin()
	late.insert("a")
	b.insert("c")
	b.wantRead(2)
	late.commit()
	b.wantRead(1)
	b.wantNoHoles()
	b.wantSweep(0)
}
