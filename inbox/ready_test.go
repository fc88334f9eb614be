package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

type checker interface{ Check(context.Context) error }

func TestADatabaseThatLacksTablesOrRightsIsSaidToBeSo(t *testing.T) {
	t.Parallel()
	empty, db := pgtest.New(t, pgtest.Empty), pgtest.New(t)
	role := strings.TrimPrefix(db.URL[strings.LastIndex(db.URL, "/"):], "/")
	role, _, _ = strings.Cut(role, "?")
	role += "_consumer"
	db.Exec(t, `CREATE ROLE `+role+` LOGIN PASSWORD 'consumer'`)
	admin := db.Pool(t)
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Errorf("drop the role: %v", err)
		}
	})
	as := func(u string) *pgxpool.Pool {
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		parsed.User = url.UserPassword(role, "consumer")
		pool, err := pgxpool.New(t.Context(), parsed.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	check := func(pool *pgxpool.Pool) error { return billing(t, pool, inbox.Config{}).(checker).Check(t.Context()) }
	says := func(what string, err error, words ...string) {
		t.Helper()
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) || errors.Is(err, inbox.ErrUnavailable) {
				t.Errorf("%s: %v lacks %q", what, err, w)
			}
		}
	}
	says("an empty database", check(empty.Pool(t)), "outbox migrate up", "consumer billing")
	limited := as(db.URL)
	says("a role that may nothing", check(limited), "outbox migrate grants --role ROLE --consumer")
	db.Exec(t, `GRANT USAGE ON SCHEMA outbox TO `+role)
	db.Exec(t, `GRANT SELECT, INSERT, DELETE ON outbox.inbox TO `+role)
	says("a role that may half of it", check(limited), "UPDATE on outbox.inbox", "DELETE on outbox.inbox_failure", "outbox migrate grants --role ROLE --consumer")
	grants, err := migrate.GrantsConsumer(migrate.Config{}, role)
	if err != nil {
		t.Fatal(err)
	}
	db.Exec(t, grants)
	if err := check(limited); err != nil {
		t.Errorf("with the rights that are printed: %v", err)
	}
	db.Exec(t, `DROP TABLE outbox.inbox_failure`)
	says("a table that is missing", check(limited), "outbox migrate up", "inbox_failure")
}

func TestADatabaseThatDoesNotAnswerLacksNothing(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := billing(t, pool, inbox.Config{}).(checker).Check(t.Context()); !errors.Is(err, inbox.ErrUnavailable) {
		t.Errorf("%v, want it to say that the database is not available", err)
	}
}

func TestARunnerSaysThatItsPoolIsSmallerThanItsWorkers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for workers, said := range map[int]bool{1: false, 2: true} {
		var text bytes.Buffer
		r, err := inbox.NewRunner(billing(t, only(t, db, nil), inbox.Config{}), nil, inbox.RunnerConfig{Workers: workers, Logger: slog.New(slog.NewTextHandler(&text, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		r.Run(ended)
		if got := strings.Contains(text.String(), "connections=1 workers=2"); got != said {
			t.Errorf("%d workers and one connection: the log says %q", workers, text.String())
		}
	}
}

func TestAConsumerWhoseCommitsACrashForgetsIsWarned(t *testing.T) {
	t.Parallel()
	db := account(t)
	for setting, want := range map[string]int{"off": 1, "local": 0, "on": 0} {
		cfg, err := pgxpool.ParseConfig(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		cfg.ConnConfig.RuntimeParams["synchronous_commit"] = setting
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		var text bytes.Buffer
		err = billing(t, pool, inbox.Config{Logger: slog.New(slog.NewTextHandler(&text, nil))}).(checker).Check(t.Context())
		if got := strings.Count(text.String(), "ALTER ROLE"); err != nil || got != want {
			t.Errorf("%s: %d warnings, want %d: %s %v", setting, got, want, text.String(), err)
		}
	}
}
