package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

// newDatabase returns a pool of a new, migrated database.
func newDatabase(t *testing.T, opts ...pgtest.Option) *pgxpool.Pool {
	t.Helper()
	return pgtest.New(t, opts...).Pool(t)
}
