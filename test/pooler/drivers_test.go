//go:build integration

package pooler_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/outboxsql"
	"github.com/outbox-relay/outbox/relay"
)

// Each way to write writes ten times, while others use the same two sessions of the server.
func TestEveryDriverWritesThroughThePooler(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{PoolSize: 2})
	parameters, err := pgxpool.ParseConfig(f.url())
	if err != nil {
		t.Fatal(err)
	}
	c := parameters.ConnConfig
	pq := strings.Join([]string{"user=" + c.User, "host=" + c.Host, "port=6432", "sslmode=disable", "dbname=" + c.Database}, " ")
	ways := map[string]func(context.Context, outbox.Event) error{
		"pgx exec":            writeByPgx(f.pool(t, "exec")),
		"pgx simple protocol": writeByPgx(f.pool(t, "simple_protocol")),
		"pgx stdlib":          writeBySQL(t, "pgx", f.url()+"&default_query_exec_mode=exec"),
		"lib/pq":              writeBySQL(t, "postgres", pq),
		"lib/pq binary":       writeBySQL(t, "postgres", pq+" binary_parameters=yes"),
	}
	f.start(t, f.url(), relay.Config{})
	for round := range 10 {
		for name, write := range ways {
			if err := write(t.Context(), event(name)); err != nil {
				t.Fatalf("%s, event %d: %v", name, round+1, err)
			}
		}
	}
	f.awaitAllPublished(t)
	f.checkOrder(t)
	for name := range ways {
		if n := len(f.firsts(t)[name]); n != 10 {
			t.Errorf("%d events of %s, want 10", n, name)
		}
	}
}

func writeByPgx(pool *pgxpool.Pool) func(context.Context, outbox.Event) error {
	return func(ctx context.Context, e outbox.Event) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := outbox.Write(ctx, tx, e)
			return err
		})
	}
}

func writeBySQL(t *testing.T, driver, dsn string) func(context.Context, outbox.Event) error {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return func(ctx context.Context, e outbox.Event) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := outboxsql.Write(ctx, tx, e); err != nil {
			return err
		}
		return tx.Commit()
	}
}
