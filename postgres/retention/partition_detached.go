package retention

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// detached is a table that was a partition, or still is one that is being detached. No relay reads its rows.
type detached struct {
	partition
	// note is what a run has written on it; nil when none has.
	note *detachNote
	// readable tells that the role may look into it; unpublished, that it holds unpublished events.
	readable, unpublished bool
}

// ours tells that a run has detached it, or begun to, and that it still is what it was then: else it is people's, who may have kept it on purpose.
func (s detached) ours() bool {
	return s.note != nil && s.note.OID == s.oid && s.note.Name == s.name.SQL() && (s.pending || s.note.Detached)
}

// renamed tells that people have made something else of it.
func (s detached) renamed() bool {
	return s.note != nil && s.note.Name != "" && s.note.Name != s.name.SQL()
}

// returns tells that it may be attached again without asking anybody: its rows have to be published, and nobody has made something else of it.
func (s detached) returns() bool {
	return s.unpublished && s.note != nil && !s.renamed()
}

// finalizeSQL and attachSQL are for the table itself and for people.
func (s detached) finalizeSQL(table pg.Table) string {
	return fmt.Sprintf("ALTER TABLE %s DETACH PARTITION %s FINALIZE", table.SQL(), s.name.SQL())
}

func attachSQL(table pg.Table, part partition) string {
	return fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)", table.SQL(), part.name.SQL(), bound(part.from, "MINVALUE"), bound(part.to, "MAXVALUE"))
}

// returnSQL makes it a partition again.
func (s detached) returnSQL(table pg.Table) string {
	sql := attachSQL(table, s.partition) + ";"
	if s.pending {
		sql = s.finalizeSQL(table) + "; " + sql
	}
	return sql
}

// what says what the table is, for people.
func (s detached) what(table pg.Table) string {
	switch {
	case s.pending && s.note == nil:
		return fmt.Sprintf("somebody detaches it from %s, or was interrupted when he did", table)
	case s.pending:
		return fmt.Sprintf("it is half detached from %s", table)
	case s.ours():
		return fmt.Sprintf("it was a partition of %s, and the run of outbox prune that has detached it did not come to its end", table)
	}
	return fmt.Sprintf("it was a partition of %s, and somebody has detached it: it is not known that outbox prune has", table)
}

// Detached is a table of which the rows are not among those of the outbox table, although they were: a partition that somebody has begun to detach, or has detached.
type Detached struct {
	// Name is the table's, for people and for the command line.
	Name string
	// Text says what is the case, and Mend which statement attaches it again.
	Text, Mend string
	// Lost tells that it holds unpublished events, which no relay reads. Unknown tells that the role may not look whether it does.
	Lost, Unknown bool
}

// FindDetached looks for partitions that are detached, half detached, or lost by a run of outbox prune that was killed. It finds nothing while such a run is at work, and where the
// table is not partitioned. The table has the form of [Config.Table]. It needs no rights, but without SELECT on such a table it does not know what it holds.
func FindDetached(ctx context.Context, pool *pgxpool.Pool, table string) (found []Detached, err error) {
	name, err := pg.ParseTable(table)
	if err != nil {
		return nil, err
	}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		row, err := pg.ReadSource(ctx, tx, name)
		if err != nil {
			return err
		}
		found, err = findDetached(ctx, tx, row)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for detached partitions of %s: %w", name, err)
	}
	return found, nil
}

// findDetached is FindDetached in a transaction.
func findDetached(ctx context.Context, tx pgx.Tx, row pg.Source) (found []Detached, err error) {
	all, err := readDetachedAtRest(ctx, tx, row)
	for _, s := range all {
		if s.renamed() && s.readable && !s.unpublished {
			continue
		}
		f := Detached{Name: s.name.String(), Text: s.what(row.Table), Mend: s.returnSQL(row.Table), Lost: s.unpublished, Unknown: !s.readable}
		switch {
		case f.Lost:
			f.Text += ", and holds unpublished events, which no relay reads"
		case f.Unknown:
			f.Text += "; whether it holds unpublished events, which no relay would read, this role may not look"
		}
		found = append(found, f)
	}
	return found, err
}

// readDetachedAtRest finds nothing while a run is at work: what that has detached a moment ago is not lost.
func readDetachedAtRest(ctx context.Context, tx pgx.Tx, row pg.Source) ([]detached, error) {
	var atRest bool
	if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock_shared($1::bigint)`, partitionLock(row.ID)).Scan(&atRest); err != nil || !atRest {
		return nil, err
	}
	return readDetached(ctx, tx, row.Table)
}

// DetachedWith says in which detached table an event is that is nowhere else; "" when it is in none that the role may look into.
func DetachedWith(ctx context.Context, tx pgx.Tx, row pg.Source, ref operate.Ref) (string, error) {
	all, err := readDetachedAtRest(ctx, tx, row)
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if !s.readable {
			continue
		}
		condition, arg := "id = $1::bigint", any(ref.ID)
		if ref.EventID != uuid.Nil {
			condition, arg = "event_id = $1::text::uuid", ref.EventID.String()
		}
		var published bool
		err := tx.QueryRow(ctx, fmt.Sprintf("SELECT published_at IS NOT NULL FROM %s WHERE %s LIMIT 1", s.name.SQL(), condition), arg).Scan(&published)
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("look for the event in %s: %w", s.name, err)
		}
		state := "it is not published, and no relay reads it"
		if published {
			state = "it is published"
		}
		return fmt.Sprintf("it is in %s: %s; %s. As the table's owner: %s", s.name, state, s.what(row.Table), s.returnSQL(row.Table)), nil
	}
	return "", nil
}

func hasUnpublished(ctx context.Context, q pg.Querier, table pg.Table) (found bool, err error) {
	err = q.QueryRow(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT FROM %s WHERE published_at IS NULL)`, table.SQL())).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("look for unpublished events in %s: %w", table, err)
	}
	return found, nil
}
