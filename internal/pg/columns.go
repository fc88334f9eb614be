package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ReadColumns reads the names of a table's columns, in their order.
func ReadColumns(ctx context.Context, tx pgx.Tx, table Table) ([]string, error) {
	rows, err := tx.Query(ctx, `
SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, table.SQL())
	if err != nil {
		return nil, fmt.Errorf("read the table's columns: %w", err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(columns) == 0 {
		err = UnknownTable(ctx, tx, table)
	}
	return columns, err
}
