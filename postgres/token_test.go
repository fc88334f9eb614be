package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/relay"
)

// tokens give the role relay a password that is good for new connections until the next is issued, as cloud providers' tokens are for some minutes.
type tokens struct {
	admin  *pgxpool.Pool
	issued int
	// shown is what BeforeConnect gives.
	shown atomic.Pointer[string]
}

// issue makes the server take another token only; it is shown by the next call of show.
func (k *tokens) issue(t *testing.T) (show func()) {
	t.Helper()
	k.issued++
	token := fmt.Sprintf("token-%d", k.issued)
	exec(t, k.admin, "ALTER ROLE relay PASSWORD '"+token+"'")
	return func() { k.shown.Store(&token) }
}

func withTokens(t *testing.T) (*tokens, *pgxpool.Pool) {
	t.Helper()
	server := pgtest.Server(t, devpg.Options{Rules: []string{"host all all 127.0.0.1/32 scram-sha-256"}})
	db := &pgtest.DB{URL: server.URL("postgres"), Name: "postgres"}
	if _, err := migrate.Up(t.Context(), db.Conn(t), migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	k := &tokens{admin: db.Pool(t)}
	exec(t, k.admin, "CREATE ROLE relay LOGIN SUPERUSER")
	k.issue(t)()
	return k, reconfigured(t, k.admin, func(c *pgxpool.Config) {
		c.ConnConfig.User = "relay"
		c.BeforeConnect = func(_ context.Context, cc *pgx.ConnConfig) error {
			cc.Password = *k.shown.Load()
			return nil
		}
	})
}

// end terminates all that the role has open.
func (k *tokens) end(t *testing.T) {
	t.Helper()
	exec(t, k.admin, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'relay'")
}

func TestEveryConnectionIsMadeWithTheTokenOfItsTime(t *testing.T) {
	t.Parallel()
	k, pool := withTokens(t)
	s := openSource(t, pool, Config{})
	competing, err := NewCompeting(pool, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(competing.Close)
	sessions := map[string]func() error{
		"watch":           func() error { _, err := s.Backlog(t.Context()); return err },
		"competing relay": func() error { _, err := competing.Open(t.Context()); return err },
		"pool":            func() error { return pool.Ping(t.Context()) },
		"prune": func() error {
			conn, err := pg.Connector{Pool: pool, ApplicationName: "outbox-prune"}.Connect(t.Context())
			if err == nil {
				err = conn.Close(t.Context())
			}
			return err
		},
	}
	for _, session := range s.term() {
		sessions[session.name] = func() error { return session.repair(t.Context(), s.connect) }
	}
	same(t, "kinds of connections", len(sessions), 9)
	for name, connect := range sessions {
		show := k.issue(t)
		k.end(t)
		if err := connect(); pg.Code(err) != "28P01" {
			t.Errorf("%s with the token of before: %v, want 28P01", name, err)
		}
		show()
		if err := connect(); err != nil {
			t.Errorf("%s with the token of now: %v", name, err)
		}
	}
}

func TestATokenThatIsRefusedIsAMatterOfConfiguration(t *testing.T) {
	t.Parallel()
	k, pool := withTokens(t)
	k.issue(t)
	if _, err := newSource(t, pool, Config{}).Open(t.Context()); !errors.Is(err, relay.ErrConfiguration) {
		t.Errorf("%v, want relay.ErrConfiguration", err)
	}
}
