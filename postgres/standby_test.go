package postgres

import (
	"errors"
	"testing"

	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/relay"
)

// A server that comes back as a standby still has the lanes' owners in its tables, and must be believed nothing.
func TestAStandbyIsRefused(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, devpg.Options{})
	db := &pgtest.DB{URL: server.URL("postgres"), Name: "postgres"}
	if _, err := migrate.Up(t.Context(), db.Conn(t), migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	pool := db.Pool(t)
	s := openSource(t, pool, Config{})
	c := claim(t, s, owner("a"))
	row, given := s.open.Load().row, s.open.Load().leases.giver()
	folder := queryOne[string](t, pool, `SELECT current_setting('data_directory')`)
	exec(t, pool, `COPY (SELECT 1) TO '`+folder+`/standby.signal'`)
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}

	_, err := newSource(t, pool, Config{}).Open(t.Context())
	wantText(t, err, "public.outbox_event", "it is a standby", "connect to the primary")
	if errors.Is(err, relay.ErrConfiguration) {
		t.Errorf("%v is relay.ErrConfiguration: a relay would give up before the failover is over", err)
	}

	// A pooler hides the restart from the connections.
	l := &leases{db: openSession(t, db), row: row}
	l.remember(given)
	if _, err := l.Claim(t.Context(), c.Owner, ttl, c); !errors.Is(err, relay.ErrServerChanged) {
		t.Errorf("Claim with lanes in hand = %v, want ErrServerChanged", err)
	}
	if err := l.Renew(t.Context(), c, ttl); !errors.Is(err, relay.ErrServerChanged) {
		t.Errorf("Renew = %v, want ErrServerChanged", err)
	}
	_, err = l.Claim(t.Context(), owner("b"), ttl, relay.Claim{})
	wantText(t, err, "read-only", "connect to the primary")
	v, err := l.Look(t.Context(), c.Owner)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what a look tells", v, relay.View{Relays: 1})
}
