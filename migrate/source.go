package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/lanesql"
)

// Source is a row of outbox.source: a table that is relayed.
type Source struct {
	ID        uuid.UUID
	Table     Table
	Lanes     int
	Delivery  string
	CreatedAt time.Time
	// Gone tells that its table is not in the database any more.
	Gone bool
	// Renamed is what a table that is gone is called now; the zero Table when it is there, or was dropped.
	Renamed Table
}

// sources returns the registered ones, oldest first.
func sources(ctx context.Context, q Querier) ([]Source, error) {
	rows, err := q.Query(ctx, `
SELECT s.id, s.table_schema, s.table_name, s.lanes, s.delivery, s.created_at, NOT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = s.table_schema AND c.relname = s.table_name AND c.relkind IN ('r', 'p'))
FROM outbox.source s ORDER BY s.created_at, s.id`,
		pgx.QueryExecModeExec)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Source, err error) {
		err = row.Scan(&s.ID, &s.Table.Schema, &s.Table.Name, &s.Lanes, &s.Delivery, &s.CreatedAt, &s.Gone)
		return s, err
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		if !all[i].Gone {
			continue
		}
		if all[i].Renamed, err = renamedTo(ctx, q, all[i].Table); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// RenameBack is the statement that gives the table its name again; "" unless it was renamed.
func (s Source) RenameBack() string {
	if s.Renamed == (Table{}) {
		return ""
	}
	return renameBack(s.Renamed, s.Table)
}

// upSource registers the table unless it is registered.
func (s settings) upSource(ctx context.Context, tx pgx.Tx, r *Result) error {
	tag, err := tx.Exec(ctx, s.insertSource(s.newLanes(), s.newDelivery()))
	if err != nil {
		return fmt.Errorf("register the source: %w", err)
	}
	r.SourceCreated = tag.RowsAffected() == 1
	err = tx.QueryRow(ctx, `SELECT id, lanes, delivery FROM outbox.source WHERE table_schema = $1 AND table_name = $2`,
		pgx.QueryExecModeExec, s.table.Schema, s.table.Name).Scan(&r.Source, &r.Lanes, &r.Delivery)
	if err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	if err := s.compare(r); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, s.insertLanes()); err != nil {
		return fmt.Errorf("make the lanes: %w", err)
	}
	return nil
}

// compare refuses to change what relays rely on while they run.
func (s settings) compare(r *Result) error {
	var errs []error
	switch {
	case r.SourceCreated && s.Lanes > r.Lanes:
		errs = append(errs, fmt.Errorf("lanes %d: %s; run it without --lanes", s.Lanes, lanesql.Why))
	case s.Lanes != 0 && s.Lanes != r.Lanes:
		errs = append(errs, fmt.Errorf("the source has %s already, not %d; to change the number, stop all relays of the table and run: outbox lanes set %d --table %s",
			count(r.Lanes, "lane"), s.Lanes, s.Lanes, advice.Word(s.table.String())))
	}
	if s.Delivery != "" && s.Delivery != r.Delivery {
		errs = append(errs, fmt.Errorf("the source delivers %s already, not %s; changing the mode is not in this version",
			r.Delivery, s.Delivery))
	}
	return errors.Join(errs...)
}

// insertSource gives a source one lane where the database cannot tell more of them apart as the relay does.
func (s settings) insertSource(lanes int, delivery string) string {
	return fmt.Sprintf(`INSERT INTO outbox.source (table_schema, table_name, lanes, delivery)
    VALUES (%s, %s, CASE WHEN %s THEN %d ELSE 1 END, %s)
    ON CONFLICT (table_schema, table_name) DO NOTHING;
`, literal(s.table.Schema), literal(s.table.Name), lanesql.Shareable(), lanes, literal(delivery))
}

func (s settings) insertLanes() string {
	return fmt.Sprintf(`INSERT INTO outbox.lane (source, lane)
    SELECT s.id, l FROM outbox.source s, generate_series(0, s.lanes - 1) l WHERE s.table_schema = %s AND s.table_name = %s
    ON CONFLICT (source, lane) DO NOTHING;
`, literal(s.table.Schema), literal(s.table.Name))
}
