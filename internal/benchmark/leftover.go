package benchmark

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Leftovers are what runs left that were killed.
type Leftovers struct {
	Schemas []string `json:"schemas,omitempty"`
	Topics  []string `json:"topics,omitempty"`
}

// Any tells that there is something.
func (l Leftovers) Any() bool { return len(l.Schemas)+len(l.Topics) > 0 }

// foreignAge is how old a topic must be to be taken for left where no schema of this database tells of its run.
const foreignAge = 24 * time.Hour

// schemaComment is what marks a schema of ours, beside its name.
const schemaComment = "scratch of outbox bench, which removes it at its end; may be dropped when no outbox bench runs"

// leftovers looks for them. What another role owns it could not drop, and leaves out.
func (b *Bench) leftovers(ctx context.Context) (l Leftovers, err error) {
	var there []string
	err = pgx.BeginTxFunc(ctx, b.cfg.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// Each lock that is free is taken for the moment of this transaction; one by one, for a condition's order is the server's.
		rows, err := tx.Query(ctx, `SELECT nspname FROM pg_namespace
WHERE starts_with(nspname, $1) AND obj_description(oid, 'pg_namespace') = $2 AND pg_has_role(nspowner, 'USAGE') ORDER BY 1`, schemaPrefix, schemaComment)
		if err != nil {
			return err
		}
		if there, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		for _, schema := range there {
			var free bool
			if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))", schema).Scan(&free); err != nil {
				return err
			}
			if _, ours := madeAt(schema); ours && free {
				l.Schemas = append(l.Schemas, schema)
			}
		}
		return nil
	})
	if err != nil {
		return l, fmt.Errorf("look for what an earlier run left: %w", err)
	}
	topics, err := b.topics.Names(ctx, topicPrefix)
	if err != nil {
		return l, fmt.Errorf("look for what an earlier run left: %w", err)
	}
	for _, topic := range topics {
		if b.isLeft(topic, there, l.Schemas) {
			l.Topics = append(l.Topics, topic)
		}
	}
	return l, nil
}

// isLeft tells whether the topic is of a run that was killed, by the schemas that are there, and those of them that were left.
func (b *Bench) isLeft(topic string, there, left []string) bool {
	schema, of := schemaOf(topic)
	if !of {
		return false
	}
	if slices.Contains(there, schema) {
		return slices.Contains(left, schema)
	}
	made, _ := madeAt(schema)
	return b.cfg.now().Sub(made) > foreignAge
}

// removeLeftovers removes what the plan has named, but for what somebody lives in or removes by now.
func (b *Bench) removeLeftovers(ctx context.Context, l Leftovers) error {
	schemas := slices.Clone(l.Schemas)
	for _, topic := range l.Topics {
		if schema, _ := schemaOf(topic); !slices.Contains(schemas, schema) {
			schemas = append(schemas, schema)
		}
	}
	for _, schema := range schemas {
		if err := b.removeLeft(ctx, schema, l); err != nil {
			return err
		}
	}
	return nil
}

// removeLeft removes what one run has left, and holds the lock of its name meanwhile.
func (b *Bench) removeLeft(ctx context.Context, schema string, l Leftovers) error {
	held, err := takeLife(ctx, b.cfg.Pool, schema)
	if err != nil || held == nil {
		return err
	}
	defer held.end(context.WithoutCancel(ctx))
	if slices.Contains(l.Schemas, schema) {
		if err := b.dropSchema(ctx, schema); err != nil {
			return err
		}
	}
	if topic := topicOf(schema); slices.Contains(l.Topics, topic) {
		return b.topics.Delete(ctx, topic)
	}
	return nil
}
