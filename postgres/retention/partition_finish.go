package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// fate is what becomes of a detached table.
type fate int

const (
	// fateStays: it is left alone, and the reason is said; "" when nobody has to hear of it.
	fateStays fate = iota
	// fateStranded: it is left alone, and holds unpublished events.
	fateStranded
	// fateReturns: it is attached again.
	fateReturns
	// fateGoes: it is dropped.
	fateGoes
)

// fate decides. Nothing is dropped that this command has not detached, and what that has detached goes by the same age as everything else.
func (d *definition) fate(ctx context.Context, s detached) (f fate, why string, err error) {
	what := s.what(d.row.Table)
	switch {
	case !s.readable:
		return fateStays, what + "; whether it holds unpublished events this role may not look", nil
	case s.returns():
		return fateReturns, "", nil
	case s.unpublished:
		return fateStranded, what + ": to attach it again, " + s.returnSQL(d.row.Table), nil
	case s.renamed():
		return fateStays, "", nil
	case !s.ours() && s.pending:
		return fateStays, what + ": " + s.finalizeSQL(d.row.Table) + "; ends it", nil
	case !s.ours():
		return fateStays, what + ", so it is left alone: drop it by hand, or attach it again: " + s.returnSQL(d.row.Table), nil
	}
	remains, err := d.remains(ctx, s.partition)
	if err != nil || remains != "" {
		return fateReturns, "", err
	}
	return fateGoes, "", nil
}

// finish ends what interrupted runs have begun, and attaches again what holds unpublished events: while a partition is half detached, no other can be.
func (d *definition) finish(ctx context.Context) error {
	all, err := readDetached(ctx, d.conn, d.row.Table)
	if err != nil {
		return err
	}
	for _, s := range all {
		f, why, err := d.fate(ctx, s)
		if err != nil {
			return err
		}
		if err := d.alone.check(ctx); err != nil {
			return err
		}
		if err := d.end(context.WithoutCancel(ctx), s, f, why); err != nil {
			return err
		}
		d.p.report(d.p.total)
	}
	return nil
}

func (d *definition) end(ctx context.Context, s detached, f fate, why string) error {
	switch f {
	case fateGoes:
		if err := d.conclude(ctx, s); err != nil {
			return fmt.Errorf("drop the detached partition %s: %w", s.name, partitionTrouble(err, d.row))
		}
	case fateReturns:
		err := d.bringBack(ctx, s)
		if pg.IsRefusal(err) && pg.Code(err) != "42501" {
			d.p.total.Strand(s.name.String(), fmt.Sprintf("%s; it is refused: %s; %v", s.what(d.row.Table), s.returnSQL(d.row.Table), err))
			return nil
		}
		if err != nil {
			return fmt.Errorf("attach the detached partition %s again, with %s %w", s.name, s.returnSQL(d.row.Table), partitionTrouble(err, d.row))
		}
		d.p.total.Attached = append(d.p.total.Attached, s.name.String())
	case fateStranded:
		d.p.total.Strand(s.name.String(), why)
		fallthrough
	case fateStays:
		d.noteHalf(s)
	}
	return nil
}

func (d *definition) noteHalf(s detached) {
	if s.pending {
		d.halfDetached = s.name.String()
	}
}

// planFinish says what finish would do.
func (d *definition) planFinish(ctx context.Context, plan *operate.PrunePlan) error {
	all, err := readDetached(ctx, d.conn, d.row.Table)
	if err != nil {
		return err
	}
	for _, s := range all {
		name := s.name.String()
		f, why, err := d.fate(ctx, s)
		switch {
		case err != nil:
			return err
		case f == fateGoes:
			plan.Dropped = append(plan.Dropped, name)
			plan.DroppedRows += s.rows
		case f == fateReturns:
			plan.Attached = append(plan.Attached, name)
		case f == fateStranded:
			plan.Strand(name, why)
			d.noteHalf(s)
		default:
			d.noteHalf(s)
			if why != "" {
				plan.Kept[name] = why
			}
		}
	}
	return nil
}

// bringBack makes the table a partition again, all at once: a partition that is half detached may be brought to its end within a transaction.
func (d *definition) bringBack(ctx context.Context, s detached) error {
	return pg.InTx(ctx, patientConn{d.conn}, func(ctx context.Context, tx pgx.Tx) error {
		if err := d.finalize(ctx, tx, s); err != nil {
			return err
		}
		return d.reattach(ctx, tx, s.partition)
	})
}

// conclude drops the table, or makes it a partition again if it holds unpublished events after all. It is locked from the look on.
func (d *definition) conclude(ctx context.Context, s detached) error {
	dropped := false
	err := pg.InTx(ctx, patientConn{d.conn}, func(ctx context.Context, tx pgx.Tx) error {
		if err := d.finalize(ctx, tx, s); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "LOCK TABLE "+s.name.SQL()+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		var same bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class WHERE oid = $1::text::regclass AND oid = $2::oid AND NOT relispartition)`, s.name.SQL(), s.oid).Scan(&same); err != nil {
			return err
		}
		if !same {
			return operate.Refuse(operate.CodeConflict, "somebody else has changed %s meanwhile: run it again", s.name)
		}
		unpublished, err := hasUnpublished(ctx, tx, s.name)
		if err != nil {
			return err
		}
		if unpublished {
			return d.reattach(ctx, tx, s.partition)
		}
		dropped = true
		_, err = tx.Exec(ctx, "DROP TABLE "+s.name.SQL())
		return err
	})
	if err == nil && dropped {
		d.p.total.Dropped = append(d.p.total.Dropped, s.name.String())
		d.p.total.DroppedRows += s.rows
	}
	return err
}

func (d *definition) finalize(ctx context.Context, tx pgx.Tx, s detached) error {
	if !s.pending {
		return nil
	}
	_, err := tx.Exec(ctx, s.finalizeSQL(d.row.Table))
	return err
}

func (d *definition) reattach(ctx context.Context, tx pgx.Tx, part partition) error {
	if err := d.attach(ctx, tx, part); err != nil {
		return err
	}
	return d.forget(ctx, tx, part)
}

// patientConn is a runner for what waits for others: the session's own limits end its statements.
type patientConn struct{ conn *pgx.Conn }

// definitionTimeout is behind those limits, and in their stead where a pooler takes none.
const definitionTimeout = 3 * time.Minute

func (c patientConn) Run(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, definitionTimeout)
	defer cancel()
	return fn(ctx, c.conn)
}
