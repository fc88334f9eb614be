package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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
