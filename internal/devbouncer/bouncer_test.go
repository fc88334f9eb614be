//go:build integration && unix

package devbouncer_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func start(t *testing.T, o devbouncer.Options) *devbouncer.Bouncer {
	t.Helper()
	b, err := devbouncer.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// connect returns a connection that prepares nothing.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	c, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func TestTheVersionAskedForRunsInTransactionMode(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.18", "1.24", ""} {
		t.Run("version "+version, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t, pgtest.Empty)
			b := start(t, devbouncer.Options{Server: db.URL, Version: version, PoolSize: 1})
			if !strings.HasPrefix(b.Version(), version) {
				t.Errorf("version %s runs, want %s", b.Version(), version)
			}
			// Two clients share the one connection of the pool.
			var pids [2]int
			for i, c := range []*pgx.Conn{connect(t, b.URL(db.Name)), connect(t, b.URL(db.Name))} {
				if err := c.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pids[i]); err != nil {
					t.Fatal(err)
				}
			}
			if pids[0] != pids[1] {
				t.Errorf("two clients have the backends %v, want one", pids)
			}
		})
	}
}

func TestAKilledBouncerStartsAgainUnderItsAddress(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	b := start(t, devbouncer.Options{Server: db.URL})
	c := connect(t, b.URL(db.Name))
	b.Kill()
	if err := c.Ping(t.Context()); err == nil {
		t.Error("a connection through a killed bouncer answers")
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := connect(t, b.URL(db.Name)).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheConsoleAnswersByColumns(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	b := start(t, devbouncer.Options{Server: db.URL, Params: map[string]string{"default_pool_size": "7"}})
	rows, err := b.Command(t.Context(), "SHOW CONFIG")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range rows {
		got[r["key"]] = r["value"]
	}
	if got["pool_mode"] != "transaction" || got["default_pool_size"] != "7" {
		t.Errorf("pool_mode %q, default_pool_size %q; want transaction and 7", got["pool_mode"], got["default_pool_size"])
	}
	if _, err := b.Command(t.Context(), "NONSENSE"); err == nil {
		t.Error("the console took nonsense for a command")
	}
}

func TestAnImpossibleBouncerIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	for want, o := range map[string]devbouncer.Options{
		"1.18 and 1.24":  {Server: db.URL, Version: "9.9"},
		"no_such_number": {Server: db.URL, Params: map[string]string{"default_pool_size": "no_such_number"}},
	} {
		b, err := devbouncer.Start(t.Context(), o)
		if err == nil {
			_ = b.Cleanup()
			t.Errorf("%+v was started", o)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}
