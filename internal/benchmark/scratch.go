package benchmark

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/migrate"
)

// cleanupLimit bounds the removal, which goes on when the run was interrupted.
const cleanupLimit = 30 * time.Second

// scratch is what a run has made so far.
type scratch struct {
	bench *Bench
	alive pgx.Tx
	// schema, state and topic tell which of them there are.
	schema, state, topic bool
}

func (b *Bench) table() string { return b.plan.Schema + ".outbox_event" }

// make makes everything. After an error some of it may be there.
func (s *scratch) make(ctx context.Context) error {
	b := s.bench
	var err error
	if s.alive, err = b.cfg.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err != nil {
		return fmt.Errorf("begin the transaction that tells that the bench lives: %w", err)
	}
	if _, err := s.alive.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
		return fmt.Errorf("lock the name of the run: %w", err)
	}
	if _, err := s.alive.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", b.plan.Schema); err != nil {
		return fmt.Errorf("lock the name of the run: %w", err)
	}
	// What fails may be done all the same: an answer can be lost.
	s.schema = true
	schema := pgx.Identifier{b.plan.Schema}.Sanitize()
	if _, err := b.cfg.Pool.Exec(ctx, "CREATE SCHEMA "+schema+"; COMMENT ON SCHEMA "+schema+" IS '"+schemaComment+"'", pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("create the scratch schema: %w", err)
	}
	b.cfg.step("schema")
	s.state = b.plan.StateSchema
	if _, err := migrate.Up(ctx, b.cfg.Pool, migrate.Config{Table: b.table()}); err != nil {
		return err
	}
	if _, err := b.cfg.Pool.Exec(ctx, "CREATE TABLE "+schema+".business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, total integer NOT NULL, changed_at timestamptz NOT NULL DEFAULT now())"); err != nil {
		return fmt.Errorf("create the table of business rows: %w", err)
	}
	b.cfg.step("tables")
	s.topic = true
	if b.plan.Partitions, b.plan.Replication, err = b.topics.Create(ctx, b.plan.Topic); err != nil {
		return err
	}
	b.cfg.step("topic")
	return nil
}

// remove removes what was made, also when ctx has ended. The error says what is still there, and how to remove it.
func (s *scratch) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
	defer cancel()
	b := s.bench
	var problems []error
	if s.topic {
		if err := b.topics.Delete(ctx, b.plan.Topic); err != nil {
			problems = append(problems, fmt.Errorf("%w; remove it by: kafka-topics.sh --delete --topic %s", err, b.plan.Topic))
		}
	}
	if s.schema {
		if err := b.dropSchema(ctx, b.plan.Schema); err != nil {
			problems = append(problems, fmt.Errorf("%w; the next run offers to remove it, or: %s", err, Removal(b.plan.Schema)))
		}
	}
	if s.state {
		if err := b.dropState(ctx); err != nil {
			problems = append(problems, err)
		}
	}
	if s.alive != nil {
		// The schema is gone by now; a lock that outlives its run for the moment of a broken connection hurts nobody.
		_ = s.alive.Rollback(ctx)
	}
	return errors.Join(problems...)
}

// Removal are the statements that remove what a run has left in the database.
func Removal(schema string) string {
	return fmt.Sprintf("DROP SCHEMA %s CASCADE; DELETE FROM outbox.source WHERE table_schema = '%s';", schema, schema)
}

// dropSchema drops a schema of ours with its source. Only names of ours come here.
func (b *Bench) dropSchema(ctx context.Context, schema string) error {
	if _, ours := madeAt(schema); !ours {
		return fmt.Errorf("drop schema %s: it is no scratch schema", schema)
	}
	var state bool
	if err := b.cfg.Pool.QueryRow(ctx, "SELECT to_regclass('outbox.source') IS NOT NULL").Scan(&state); err != nil {
		return fmt.Errorf("drop schema %s: %w", schema, err)
	}
	if state {
		if _, err := b.cfg.Pool.Exec(ctx, "DELETE FROM outbox.source WHERE table_schema = $1", schema); err != nil {
			return fmt.Errorf("remove the source of schema %s: %w", schema, err)
		}
	}
	if _, err := b.cfg.Pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE"); err != nil {
		return fmt.Errorf("drop schema %s: %w", schema, err)
	}
	return nil
}

// dropState drops the schema outbox that this run has made, unless somebody has begun to use it meanwhile. The locks keep those out who would.
func (b *Bench) dropState(ctx context.Context) error {
	err := pgx.BeginTxFunc(ctx, b.cfg.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		for _, table := range []string{"outbox.source", "outbox.inbox"} {
			var there, used bool
			if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", table).Scan(&there); err != nil {
				return err
			}
			if !there {
				continue
			}
			if _, err := tx.Exec(ctx, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+table+")").Scan(&used); err != nil || used {
				return err
			}
		}
		_, err := tx.Exec(ctx, "DROP SCHEMA IF EXISTS outbox CASCADE")
		return err
	})
	if err != nil {
		return fmt.Errorf("drop the schema outbox that the bench has made: %w; it is empty, and may stay", err)
	}
	return nil
}
