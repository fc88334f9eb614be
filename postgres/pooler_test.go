package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/relay"
)

func TestPoolersRefusalsComeWithTheirRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, text string
		remedy     string
		lasting    bool
	}{
		{"26000", `prepared statement "stmtcache_1" does not exist`, "default_query_exec_mode=exec", true},
		{"42P05", `prepared statement "stmtcache_1" already exists`, "default_query_exec_mode=exec", true},
		{"08P01", "unsupported startup parameter: search_path", "take search_path out of the connection string, or add it to ignore_startup_parameters", true},
		{"08P01", "unsupported startup parameter in options: lock_timeout", "take lock_timeout out", true},
		{"08P01", "transaction blocks not allowed in statement pooling mode", "pool_mode=transaction", true},
		{"08P01", "password authentication failed", "auth_file", true},
		{"08P01", `database "shop" does not exist`, "[databases]", true},
		{"08P01", "no more connections allowed (max_client_conn)", "max_client_conn", false},
		{"08P01", "query_wait_timeout", "default_pool_size", false},
	} {
		err := error(&pgconn.PgError{Severity: "FATAL", Code: c.code, Message: c.text})
		trouble, found := FindPoolerTrouble(fmt.Errorf("claim: %w", err))
		if !found || trouble.Lasting != c.lasting {
			t.Errorf("%s: found %t, lasting %t; want true and %t", c.text, found, trouble.Lasting, c.lasting)
		}
		wantText(t, mark(err), c.remedy)
		if got := errors.Is(mark(err), relay.ErrConfiguration); got != c.lasting {
			t.Errorf("%s: is relay.ErrConfiguration: %t, want %t", c.text, got, c.lasting)
		}
	}
}

func TestWhatAServerSaysIsNoPoolersTrouble(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		nil,
		errors.New("prepared statement"),
		&pgconn.PgError{Code: "08P01", Message: "invalid message format"},
		&pgconn.PgError{Code: "42703", Message: `column "x" does not exist`},
	} {
		if trouble, found := FindPoolerTrouble(err); found {
			t.Errorf("%v: found %+v", err, trouble)
		}
	}
}

// Times come as text where nothing is prepared, and the driver reads one form of it.
func TestTheDatabasesDateStyleAndTheApplicationsDoNotMatter(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `ALTER DATABASE `+pgx.Identifier{db.Config().ConnConfig.Database}.Sanitize()+` SET datestyle = 'SQL, DMY'`)
	pool := reconfigured(t, db, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["DateStyle"] = "German" })
	s := openSource(t, pool, Config{})
	callAll(t, s, claim(t, s, owner("a")), insert(t, db, orders, 1)[0], "with another DateStyle")
}

// Commands and pages work over an application's pool, which has chosen how it sends statements.
func TestTheOperatorWorksWithoutPreparedStatements(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		db := newDatabase(t)
		s := openSource(t, db, Config{})
		c := claim(t, s, owner("a"))
		park(t, s, c, parked(orders, insert(t, db, orders, 1)[0]))
		if err := s.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		o, err := NewOperator(reconfigured(t, db, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode }), Config{})
		if err != nil {
			t.Fatal(err)
		}
		status, err := o.Status(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		same(t, "parked keys", status.ParkedKeys, 1)
		id, err := o.Request(t.Context(), VerbSkip, orders, "anna", "sent by hand")
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		outcome, err := o.Await(t.Context(), id)
		if err != nil || outcome.Problem != "" {
			t.Errorf("%s: outcome %+v, %v", mode, outcome, err)
		}
	}
}
