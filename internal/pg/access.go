package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Access is how people's commands reach a source: over a pool, with nothing held open between calls. It is a [Runner].
type Access struct {
	Runner
	Pool  *pgxpool.Pool
	Table Table
}

// NewAccess checks what it is given, and connects to nothing. An empty table is [DefaultTable].
func NewAccess(pool *pgxpool.Pool, table string) (Access, error) {
	if table == "" {
		table = DefaultTable
	}
	name, err := ParseTable(table)
	if pool == nil {
		err = errors.Join(errors.New("the pool is nil"), err)
	}
	if err != nil {
		return Access{}, fmt.Errorf("configure the operator: %w", err)
	}
	return Access{OnPool(pool), pool, name}, nil
}

// Source reads the source's row; whoever lacks a right is told the command for a person's role.
func (a Access) Source(ctx context.Context) (Source, error) {
	row, err := ReadSource(ctx, a.Pool, a.Table)
	if Code(err) == "42501" {
		return Source{}, LacksRight(a.Pool, a.Table, fmt.Sprintf("%s: read outbox.source", a.Table), err, "--operator")
	}
	if err != nil {
		return Source{}, fmt.Errorf("%s: %w", a.Table, err)
	}
	return row, nil
}
