package benchmark

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// tables are what a run makes in its schema.
func tables() []string { return []string{"outbox_event", "business"} }

// Removal are the statements that remove what a run has left in the database. What is not the bench's own stands in their way, and stays.
func Removal(schema string) string {
	var own []string
	for _, table := range tables() {
		own = append(own, schema+"."+table)
	}
	return fmt.Sprintf("DELETE FROM outbox.source WHERE table_schema = '%s'; DROP TABLE IF EXISTS %s; DROP SCHEMA IF EXISTS %s;", schema, strings.Join(own, ", "), schema)
}

// StateRemoval is the statement by which its owner may remove the schema outbox.
const StateRemoval = "DROP SCHEMA outbox CASCADE"

// RemovalError is what could not be removed, and how to remove it.
type RemovalError struct {
	// Cause is by what the run had failed before; nil when it had not.
	Cause error
	Left  []Left
}

// Left is something that could not be removed.
type Left struct {
	// What it is, as "topic x"; Err is why, and Advice how to remove it.
	What, Advice string
	Err          error
}

// Error is a line for the cause, and one for each that is left.
func (e *RemovalError) Error() string {
	var lines []string
	if e.Cause != nil {
		lines = append(lines, e.Cause.Error())
	}
	for _, l := range e.Left {
		lines = append(lines, fmt.Sprintf("%s is not removed: %v; %s", l.What, l.Err, l.Advice))
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the cause and the reasons.
func (e *RemovalError) Unwrap() []error {
	var all []error
	if e.Cause != nil {
		all = append(all, e.Cause)
	}
	for _, l := range e.Left {
		all = append(all, l.Err)
	}
	return all
}

// dropSchema drops a schema of ours with its source, and nothing in it or beside it that a run does not make: that stays, with what it needs, and the error names it.
func (b *Bench) dropSchema(ctx context.Context, schema string) error {
	if _, ours := madeAt(schema); !ours {
		return fmt.Errorf("drop schema %s: it is no scratch schema", schema)
	}
	var state, there bool
	err := b.cfg.Pool.QueryRow(ctx, "SELECT to_regclass('outbox.source') IS NOT NULL, to_regnamespace($1) IS NOT NULL", schema).Scan(&state, &there)
	if err != nil {
		return fmt.Errorf("drop schema %s: %w", schema, err)
	}
	if state {
		if _, err := b.cfg.Pool.Exec(ctx, "DELETE FROM outbox.source WHERE table_schema = $1", schema); err != nil {
			return fmt.Errorf("remove the source of schema %s: %w", schema, err)
		}
	}
	if !there {
		return nil
	}
	var problems []error
	for _, table := range tables() {
		if _, err := b.cfg.Pool.Exec(ctx, "DROP TABLE IF EXISTS "+pgx.Identifier{schema, table}.Sanitize()+" RESTRICT"); err != nil {
			problems = append(problems, fmt.Errorf("drop table %s.%s: %w", schema, table, withDependents(err)))
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	if _, err := b.cfg.Pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" RESTRICT"); err != nil {
		return fmt.Errorf("drop schema %s: %w", schema, withDependents(err))
	}
	return nil
}

// withDependents adds what the server has named in the detail: what is not ours, and would go with it.
func withDependents(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Detail != "" {
		return fmt.Errorf("%w: %s: the bench has not made that, so it stays", err, strings.ReplaceAll(pg.Detail, "\n", "; "))
	}
	return err
}
