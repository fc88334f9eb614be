package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// oldestServer is the oldest version that the relay works with, as server_version_num.
const oldestServer = 140000

// Result is what [Up] found and did.
type Result struct {
	// Table is the outbox table.
	Table Table
	// Source is the source's id, Lanes and Delivery what its row says.
	Source   uuid.UUID
	Lanes    int
	Delivery string
	// Applied are the migrations that this call applied; TableCreated and SourceCreated tell what else it made.
	Applied       []Migration
	TableCreated  bool
	SourceCreated bool
	// Differences are those of an existing table. In a Result without an error they are warnings.
	Differences []Difference
	// Renamed is what the table before is called now, beside which a new one was made; the zero Table when there was none.
	Renamed Table
}

// Up makes whatever is missing: the schema outbox, the outbox table with its partial index, and the source's row with its lanes. It may
// be called again, and by many processes at once. An existing table is checked before anything is made, and never changed: when the
// relay could not work with it, the error is a [*TableError] and the database is as it was.
//
// When a later step fails, the Result tells what was done until then; calling again goes on from there.
func Up(ctx context.Context, c Conn, config Config) (Result, error) {
	s, err := config.check()
	if err != nil {
		return Result{}, fmt.Errorf("migrate: %w", err)
	}
	r := Result{Table: s.table}
	if err := s.up(ctx, c, &r); err != nil {
		return r, fmt.Errorf("migrate %s: %w", s.table, err)
	}
	return r, nil
}

func (s settings) up(ctx context.Context, c Conn, r *Result) error {
	all, err := All()
	if err != nil {
		return err
	}
	if err := s.refuse(ctx, c, all, r); err != nil {
		return err
	}
	if err := s.upState(ctx, c, all, r); err != nil {
		return err
	}
	if err := s.step(ctx, c, func(tx pgx.Tx) error { return s.upTable(ctx, tx, r) }); err != nil {
		return err
	}
	return s.step(ctx, c, func(tx pgx.Tx) error { return s.upSource(ctx, tx, r) })
}

// refuse looks for all that would stop a later step, before the first one.
func (s settings) refuse(ctx context.Context, c Conn, all []Migration, r *Result) error {
	var version int
	err := c.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`, pgx.QueryExecModeExec).Scan(&version)
	if err != nil {
		return fmt.Errorf("ask for the server's version: %w", err)
	}
	if version < oldestServer {
		return fmt.Errorf("the server is PostgreSQL %d; %d is the oldest that works", version/10000, oldestServer/10000)
	}
	done, err := applied(ctx, c)
	if err != nil {
		return fmt.Errorf("read the applied migrations: %w", err)
	}
	if _, err := pending(all, done); err != nil {
		return err
	}
	return s.checkExisting(ctx, c, r)
}

// checkExisting holds a table that is there against the contract. One that is not there will be made.
func (s settings) checkExisting(ctx context.Context, q Querier, r *Result) error {
	f, err := readFacts(ctx, q, s.table)
	if errors.Is(err, errNoRelation) {
		return s.checkRenamed(ctx, q, r)
	}
	if err != nil {
		return err
	}
	r.Differences = f.differences()
	if s.Headers {
		r.Differences = append(r.Differences, f.checkHeaders()...)
	}
	return refusal(s.table, r.Differences)
}

// checkRenamed refuses a new table that would hide the events of the one before, which was renamed: no relay reads them any more. One that has run dry hides nothing.
func (s settings) checkRenamed(ctx context.Context, q Querier, r *Result) error {
	renamed, err := renamedTo(ctx, q, s.table)
	if err != nil || renamed == (Table{}) {
		return err
	}
	r.Renamed = renamed
	if s.NewTable {
		return nil
	}
	var waits bool
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+renamed.SQL()+` WHERE published_at IS NULL)`, pgx.QueryExecModeExec).Scan(&waits)
	if err != nil {
		return fmt.Errorf("the table was renamed to %s; look whether that holds events which are not published: %w", renamed, err)
	}
	if waits {
		return fmt.Errorf("it was renamed to %s, which holds events that are not published, and a new table would leave them there: give it its name back (%s), "+
			"or relay it under the new one (%s), or agree to a new table beside it by --new-table", renamed, renameBack(renamed, s.table), upCommand(renamed))
	}
	return nil
}

// upState brings the schema outbox to the newest version, each migration in a transaction of its own.
func (s settings) upState(ctx context.Context, c Conn, all []Migration, r *Result) error {
	err := s.step(ctx, c, func(tx pgx.Tx) error {
		if err := createSchema(ctx, tx, stateSchema); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, createState)
		return err
	})
	if err != nil {
		return fmt.Errorf("make the schema outbox: %w", err)
	}
	for _, m := range all {
		done := false
		err := s.step(ctx, c, func(tx pgx.Tx) (err error) {
			done, err = apply(ctx, tx, all, m)
			return err
		})
		if err != nil {
			return fmt.Errorf("apply migration %s: %w", m, err)
		}
		if done {
			r.Applied = append(r.Applied, m)
		}
	}
	return nil
}

// apply applies m unless another process was faster.
func apply(ctx context.Context, tx pgx.Tx, all []Migration, m Migration) (done bool, err error) {
	recorded, err := applied(ctx, tx)
	if err != nil {
		return false, err
	}
	left, err := pending(all, recorded)
	if err != nil {
		return false, err
	}
	if len(left) == 0 || left[0].Version > m.Version {
		return false, nil
	}
	if m.Breaks {
		if err := refuseIfAlive(ctx, tx); err != nil {
			return false, err
		}
	}
	if _, err := tx.Exec(ctx, m.text); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, m.record())
	return true, err
}

// record is the statement that notes the migration as applied.
func (m Migration) record() string {
	if m.Breaks {
		return fmt.Sprintf("INSERT INTO outbox.migration (version, name, checksum, breaks) VALUES (%d, %s, %s, true);\n", m.Version, literal(m.Name), literal(m.Checksum))
	}
	return fmt.Sprintf("INSERT INTO outbox.migration (version, name, checksum) VALUES (%d, %s, %s);\n", m.Version, literal(m.Name), literal(m.Checksum))
}

// upTable makes the outbox table unless it is there.
func (s settings) upTable(ctx context.Context, tx pgx.Tx, r *Result) error {
	there, err := exists(ctx, tx, s.table)
	if err != nil {
		return err
	}
	r.TableCreated = !there
	if there {
		return nil
	}
	if err := createSchema(ctx, tx, s.table.Schema); err != nil {
		return fmt.Errorf("make the schema %s: %w", s.table.Schema, err)
	}
	if _, err := tx.Exec(ctx, s.createTable()); err != nil {
		return fmt.Errorf("make the table: %w", err)
	}
	f, err := readFacts(ctx, tx, s.table)
	if err != nil {
		return fmt.Errorf("look for a free name of the index: %w", err)
	}
	if _, err := tx.Exec(ctx, f.createPartial("")); err != nil {
		return fmt.Errorf("make the index: %w", err)
	}
	return nil
}

// createSchema asks first: CREATE SCHEMA IF NOT EXISTS wants the right to create even when there is nothing to do.
func createSchema(ctx context.Context, tx pgx.Tx, name string) error {
	var there bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, pgx.QueryExecModeExec, name).Scan(&there)
	if err != nil || there {
		return err
	}
	_, err = tx.Exec(ctx, "CREATE SCHEMA "+quote(name))
	return err
}
