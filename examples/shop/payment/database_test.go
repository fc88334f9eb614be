package payment

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// database is a migrated database for one test, with the service's tables and an account. Yours comes from where your tests have theirs; package migrate makes
// the tables of the outbox and the inbox in it.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db := pgtest.New(t)
	db.Exec(t, Tables)
	db.Exec(t, `INSERT INTO account (customer, balance) VALUES ('anna', 10000)`)
	return db.Pool(t)
}
