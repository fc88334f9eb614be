package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/lanesql"
)

// Source is what the database says of a source: its row in outbox.source, and the shape of its table.
type Source struct {
	ID    uuid.UUID
	Table Table
	Lanes int
	// Encoding is the database's.
	Encoding string
	// Shareable tells that there may be more than one lane.
	Shareable bool
	// FirstPublished is zero before the first publication.
	FirstPublished time.Time
	// Headers tells that the table has the optional column headers.
	Headers bool
	// Sequence is the quoted name of the sequence that the ids are drawn from.
	Sequence string
	// Aggregates tells that events are read with their aggregates.
	Aggregates bool
	// Partitioned tells that the table is the parent of partitions.
	Partitioned bool
	// Lacking are the migrations that this program knows and the database does not have.
	Lacking []int32
}

// ReadSource reads the row that migrate made for the table. It refuses a schema that has outgrown this program, to everybody; one that is older is refused to
// relays only, as people look at it when they upgrade.
func ReadSource(ctx context.Context, q Querier, table Table) (Source, error) {
	row := Source{Table: table}
	var delivery string
	var first *time.Time
	var outgrown *string
	err := q.QueryRow(ctx, `
SELECT id, lanes, delivery, first_published_at, getdatabaseencoding()::text, `+lanesql.Shareable()+`, `+lackingSQL()+`, `+OutgrownSQL()+`
FROM outbox.source WHERE table_schema = $1 AND table_name = $2`,
		table.Schema, table.Name).Scan(&row.ID, &row.Lanes, &delivery, &first, &row.Encoding, &row.Shareable, &row.Lacking, &outgrown)
	switch {
	case errors.Is(err, pgx.ErrNoRows), Code(err) == "42P01", Code(err) == "3F000":
		return Source{}, UnknownTable(ctx, q, table)
	case Code(err) == "42501":
		return Source{}, LacksRight(q, table, "read outbox.source", err)
	case err != nil:
		return Source{}, Mark(fmt.Errorf("read outbox.source: %w", err))
	case outgrown != nil:
		return Source{}, RefuseOutgrown(outgrown)
	case delivery != "at-least-once":
		return Source{}, Misconfigured(fmt.Errorf("outbox.source asks for %s delivery, which this relay does not do: it would publish what "+
			"another one keeps account of", delivery))
	}
	if first != nil {
		row.FirstPublished = *first
	}
	return row, nil
}
