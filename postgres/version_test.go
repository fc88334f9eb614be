package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/schema"
	"github.com/outbox-relay/outbox/relay"
)

const outgrow = `INSERT INTO outbox.migration (version, name, checksum, breaks) VALUES (900, 'future', 'x', true)`

// refusedAs fails the test unless the error says the text and is what no waiting mends.
func refusedAs(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !errors.Is(err, relay.ErrConfiguration) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v\nwant relay.ErrConfiguration that says %s", what, err, want)
	}
}

// Nothing of an older schema needs to be missing for the relay's first statements: it would start, and fail later.
func TestAnOlderSchemaIsNotOpened(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `DELETE FROM outbox.migration WHERE version IN (11, 13)`)
	_, err := newSource(t, db, Config{}).Open(t.Context())
	refusedAs(t, "open", err, "public.outbox_event: the schema outbox is older than this program: it lacks the migrations 011, 013; "+
		"run: outbox migrate up --table public.outbox_event")
}

func TestASchemaWithoutTheMarkIsRead(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `ALTER TABLE outbox.migration DROP COLUMN breaks`)
	exec(t, db, `INSERT INTO outbox.migration (version, name, checksum) VALUES (900, 'future', 'x')`)
	openSource(t, db, Config{})
}

func TestASchemaThatHasOutgrownTheProgramIsUsedByNobody(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, outgrow)
	want := schema.Outgrown("900_future").Error()
	_, err := newSource(t, db, Config{}).Open(t.Context())
	refusedAs(t, "open", err, want)
	competing, err := NewCompeting(db, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(competing.Close)
	_, err = competing.Open(t.Context())
	refusedAs(t, "open, competing", err, want)
}

// The migration was applied by hand, with relays alive: they let go of their lanes as soon as they look, and begin no more.
func TestARelayThatIsOutgrownWhileItWorksClaimsNothing(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	other := newDatabase(t)
	competing, err := NewCompeting(other, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(competing.Close)
	if _, err := competing.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, db, outgrow)
	exec(t, other, outgrow)
	want := schema.Outgrown("900_future").Error()
	_, err = s.Claim(t.Context(), c.Owner, ttl, c)
	refusedAs(t, "claim", err, want)
	_, err = s.Look(t.Context(), c.Owner)
	refusedAs(t, "look", err, want)
	refusedAs(t, "register", competing.Register(t.Context(), owner("b"), ttl), want)
}
