package benchmark

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/migrate"
)

// cleanupLimit bounds the removal on each side, which goes on when the run was interrupted.
const cleanupLimit = 30 * time.Second

// scratch is what a run has made so far.
type scratch struct {
	bench *Bench
	alive *life
	// schema and topic tell which of them there are; state tells that the schema outbox, which was lacking, has been made.
	schema, state, topic bool
}

func (b *Bench) table() string { return b.plan.Schema + ".outbox_event" }

// make makes everything. After an error some of it may be there.
func (s *scratch) make(ctx context.Context) error {
	b := s.bench
	var err error
	if s.alive, err = takeLife(ctx, b.cfg.Pool, b.plan.Schema); err != nil {
		return err
	}
	if s.alive == nil {
		return fmt.Errorf("lock the name of the run: another has taken %s", b.plan.Schema)
	}
	// What fails may be done all the same: an answer can be lost.
	s.schema = true
	schema := pgx.Identifier{b.plan.Schema}.Sanitize()
	if _, err := b.cfg.Pool.Exec(ctx, "CREATE SCHEMA "+schema+"; COMMENT ON SCHEMA "+schema+" IS '"+schemaComment+"'", pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("create the scratch schema: %w", err)
	}
	b.cfg.step("schema")
	made, err := migrate.Up(ctx, b.cfg.Pool, migrate.Config{Table: b.table()})
	s.state = b.plan.StateSchema && len(made.Applied) > 0
	if err != nil {
		return err
	}
	if _, err := b.cfg.Pool.Exec(ctx, "CREATE TABLE "+schema+".business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, total integer NOT NULL, changed_at timestamptz NOT NULL DEFAULT now())"); err != nil {
		return fmt.Errorf("create the table of business rows: %w", err)
	}
	b.cfg.step("tables")
	partitions, replication, err := b.topics.Create(ctx, b.plan.Topic)
	s.topic = !kafka.IsNotMade(err)
	if err != nil {
		return err
	}
	// Brokers tell them to those who may describe the topic's settings; of others what was asked for is what they got.
	b.plan.Partitions, b.plan.Replication = answered(partitions, b.plan.Partitions), answered(replication, b.plan.Replication)
	b.cfg.step("topic")
	return nil
}

// answered is what the brokers have told, or else what was asked for.
func answered(told, asked int) int {
	if told > 0 {
		return told
	}
	return asked
}

// remove removes what was made but the schema outbox, also when ctx has ended. The database comes first, and each side has its own time: one that hangs keeps nothing of the other. What
// is still there is returned.
func (s *scratch) remove(ctx context.Context) (left []Left) {
	ctx = context.WithoutCancel(ctx)
	b := s.bench
	if s.schema {
		if err := within(ctx, func(ctx context.Context) error { return b.dropSchema(ctx, b.plan.Schema) }); err != nil {
			left = append(left, Left{What: "schema " + b.plan.Schema, Err: err, Advice: "the next run offers to remove it, or: " + Removal(b.plan.Schema)})
		}
	}
	if s.topic {
		if err := within(ctx, func(ctx context.Context) error { return b.topics.Delete(ctx, b.plan.Topic) }); err != nil {
			left = append(left, Left{What: "topic " + b.plan.Topic, Err: err, Advice: "remove it by: kafka-topics.sh --delete --topic " + b.plan.Topic})
		}
	}
	if s.alive != nil {
		s.alive.end(ctx)
	}
	return left
}

// within gives one side its time.
func within(ctx context.Context, remove func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupLimit)
	defer cancel()
	return remove(ctx)
}
