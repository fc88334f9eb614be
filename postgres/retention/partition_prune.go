package retention

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// partitionTimeouts are for statements on the partitions' definitions. None of them takes a lock that a writer waits for; but where one waits itself, everything that wants a
// stronger lock queues up behind it.
var partitionTimeouts = map[string]string{"lock_timeout": "3s", "statement_timeout": "60s", "idle_in_transaction_session_timeout": "60s"}

// partitions creates and drops the partitions of the request.
func (o *Pruner) partitions(ctx context.Context, row pg.Source, request operate.PrunePartitions, p *pruning) error {
	return o.define(ctx, row, request, p, (*definition).run)
}

// planPartitions says what partitions would do.
func (o *Pruner) planPartitions(ctx context.Context, row pg.Source, request operate.PrunePartitions, p *pruning, plan *operate.PrunePlan) error {
	return o.define(ctx, row, request, p, func(d *definition, ctx context.Context) error { return d.plan(ctx, plan) })
}

// define does something with the partitions while nobody else does. A plan is made alone, too: the partitions of another run come and go.
func (o *Pruner) define(ctx context.Context, row pg.Source, request operate.PrunePartitions, p *pruning, do func(*definition, context.Context) error) error {
	alone, err := o.exclude(ctx, row, exclusionWait)
	if err != nil {
		return err
	}
	defer alone.release(ctx)
	conn, err := o.definer(ctx)
	if err != nil {
		return fmt.Errorf("connect for the partitions: %w", err)
	}
	defer func() {
		// The server ends the session when the socket goes.
		_ = conn.Close(context.WithoutCancel(ctx))
	}()
	d := &definition{conn: conn, db: loneConn{conn}, row: row, request: request, p: p, alone: alone}
	if d.parted, err = readPartitioning(ctx, conn, row); err != nil {
		return err
	}
	return do(d, ctx)
}

// definer is a connection of its own: a partition cannot be detached inside a transaction, and limits for the session do not belong into the pool.
func (o *Pruner) definer(ctx context.Context) (*pgx.Conn, error) {
	return pg.Connector{Pool: o.db.Pool, ApplicationName: "outbox-prune"}.ConnectWith(ctx, partitionTimeouts)
}

// loneConn is a runner of one connection.
type loneConn struct{ conn *pgx.Conn }

func (l loneConn) Run(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*pg.CallTimeout)
	defer cancel()
	return fn(ctx, l.conn)
}

// definition is the change of a table's partitions, under way.
type definition struct {
	conn    *pgx.Conn
	db      pg.Runner
	row     pg.Source
	request operate.PrunePartitions
	p       *pruning
	parted  *partitioning
	alone   *exclusion
	// halfDetached is a partition that somebody else detaches, or has begun to; "" when there is none.
	halfDetached string
}

// run makes what the writers need first.
func (d *definition) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{d.create, d.forgetUndone, d.finish, d.dropAll} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// dropAll drops what may go, unless another partition is half detached: PostgreSQL detaches one after the other.
func (d *definition) dropAll(ctx context.Context) error {
	if d.halfDetached != "" {
		return nil
	}
	for _, part := range d.parted.parts {
		if !part.past || part.pending {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		reason, err := d.staying(ctx, part)
		if err != nil {
			return err
		}
		if reason != "" {
			continue
		}
		if err := d.drop(ctx, part); err != nil {
			return err
		}
		d.p.report(d.p.total)
	}
	return nil
}

// create makes the partitions ahead. A table that is made on its own and then attached takes a lock that no writer waits for, unlike CREATE TABLE … PARTITION OF.
func (d *definition) create(ctx context.Context) error {
	next, err := d.parted.following(ctx, d.db, d.parted.missingAhead(d.request.Ahead))
	if err != nil {
		return err
	}
	for _, part := range next {
		err := pg.InTx(ctx, d.db, func(ctx context.Context, tx pgx.Tx) error {
			options, err := d.storage(ctx, tx)
			if err != nil {
				return err
			}
			// Neither the identity nor the indexes are copied: attaching makes the ones that the table has.
			_, err = tx.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED INCLUDING STORAGE INCLUDING COMPRESSION)%s`,
				part.name.SQL(), d.row.Table.SQL(), options))
			if err != nil {
				return err
			}
			return d.attach(ctx, tx, part)
		})
		if err != nil {
			return fmt.Errorf("create partition %s: %w", part.name, partitionTrouble(err, d.row))
		}
		d.p.total.Created = append(d.p.total.Created, part.name.String())
		d.p.report(d.p.total)
	}
	return nil
}

// plainOption is a storage parameter that can be repeated as it stands.
var plainOption = regexp.MustCompile(`^[a-z_.]+=[a-zA-Z0-9.+-]+$`)

// storage repeats the settings of the newest partition, such as those for autovacuum.
func (d *definition) storage(ctx context.Context, q pg.Querier) (string, error) {
	last, err := d.parted.newest()
	if err != nil {
		return "", err
	}
	var options []string
	err = q.QueryRow(ctx, `SELECT coalesce(reloptions, '{}') FROM pg_class WHERE oid = $1::text::regclass`, last.name.SQL()).Scan(&options)
	if err != nil {
		return "", err
	}
	var plain []string
	for _, option := range options {
		if plainOption.MatchString(option) {
			plain = append(plain, option)
		}
	}
	if len(plain) == 0 {
		return "", nil
	}
	return " WITH (" + strings.Join(plain, ", ") + ")", nil
}

// attach makes the table a partition. A bound cannot be a parameter; it comes from the catalog, and is quoted here.
func (d *definition) attach(ctx context.Context, db executor, part partition) error {
	_, err := db.Exec(ctx, attachSQL(d.row.Table, part))
	return err
}

func bound(text, none string) string {
	if text == "" {
		return none
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// drop detaches the partition while the table is in use, looks at it once more when nobody can write to it any more, and drops it; or attaches it again. A note on it tells
// the next run what it was: whoever is killed in between leaves a table that nobody reads, and it may hold a late event.
func (d *definition) drop(ctx context.Context, part partition) error {
	if err := d.alone.check(ctx); err != nil {
		return err
	}
	if err := d.note(ctx, d.conn, part, false); err != nil {
		return fmt.Errorf("note that partition %s is detached: %w", part.name, partitionTrouble(err, d.row))
	}
	if _, err := d.conn.Exec(ctx, fmt.Sprintf(`ALTER TABLE %s DETACH PARTITION %s CONCURRENTLY`, d.row.Table.SQL(), part.name.SQL())); err != nil {
		return errors.Join(fmt.Errorf("detach partition %s: %w", part.name, partitionTrouble(err, d.row)), d.notDetached(ctx, part))
	}
	return d.discard(ctx, part)
}

// discard drops a partition that this run has detached, if all of it may go.
func (d *definition) discard(ctx context.Context, part partition) error {
	// What was begun is brought to its end, whatever becomes of the command: a table that is neither a partition nor gone is of no use to anybody.
	ctx = context.WithoutCancel(ctx)
	s := detached{partition: part}
	err := d.note(ctx, d.conn, part, true)
	if err == nil {
		err = d.conclude(ctx, s)
	}
	if err == nil {
		return nil
	}
	switch again := d.bringBack(ctx, s); {
	case again == nil:
		return fmt.Errorf("drop partition %s, which is attached again: %w", part.name, err)
	case pg.Code(again) == "42P01":
		return fmt.Errorf("drop partition %s, which somebody else has dropped or renamed meanwhile: %w", part.name, err)
	default:
		return fmt.Errorf("attach partition %s again, which is to be done by hand now, since it may hold unpublished events, with %s %w", part.name, s.returnSQL(d.row.Table), errors.Join(err, again))
	}
}

// staying says why the partition must stay; "" when it may go.
func (d *definition) staying(ctx context.Context, part partition) (string, error) {
	if d.parted.hasDefault {
		return "the table has a default partition, so no other can be detached without stopping the writers", nil
	}
	if unpublished, err := hasUnpublished(ctx, d.conn, part.name); err != nil || unpublished {
		return "it holds unpublished events", err
	}
	ended, err := d.writersEnded(ctx, part)
	if err != nil {
		return "", err
	}
	if !ended {
		return "a transaction that may have written to it is open", nil
	}
	return d.remains(ctx, part)
}

// writersEnded waits a little for the transactions that may have written to the partition: what they wrote is not visible before they end. Those that come meanwhile are
// no concern; the relay that settles is always among them, for it may lock all partitions.
func (d *definition) writersEnded(ctx context.Context, part partition) (bool, error) {
	var before []string
	tick := time.NewTicker(writerLook)
	defer tick.Stop()
	for n := 0; ; n++ {
		var still []string
		err := d.conn.QueryRow(ctx, `
SELECT coalesce(array_agg(virtualtransaction), '{}') FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted AND relation = $1::text::regclass
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND ($2 OR virtualtransaction = ANY ($3::text[]))`,
			part.name.SQL(), n == 0, before).Scan(&still)
		if err != nil {
			return false, fmt.Errorf("look for writers of partition %s: %w", part.name, err)
		}
		if len(still) == 0 {
			return true, nil
		}
		if before = still; n == writerLooks {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-tick.C:
		}
	}
}

// Writers are looked for so often, so many times.
const (
	writerLook  = 50 * time.Millisecond
	writerLooks = 40
)

// remains says what in the partition has to stay; "" when nothing has to. It looks at every row, in pages.
func (d *definition) remains(ctx context.Context, part partition) (string, error) {
	w := d.p.walk(eventTarget(part.name, d.p.aged(d.request.OlderThan)))
	w.db, w.keeping = d.db, true
	if err := w.begin(ctx, 0); err != nil {
		return "", err
	}
	for !w.done() {
		page, err := w.page(ctx)
		if err != nil {
			return "", err
		}
		if page.skipped == 0 && page.doomed == page.rows {
			continue
		}
		if unpublished, err := hasUnpublished(ctx, d.conn, part.name); err != nil || unpublished {
			return "it holds unpublished events", err
		}
		return "some of its events were published too lately", nil
	}
	return "", nil
}

// partitionTrouble says what to do about the errors that are to be expected.
func partitionTrouble(err error, row pg.Source) error {
	switch pg.Code(err) {
	case "42501":
		return pg.Misconfigured(&operate.Error{Code: operate.CodeForbidden, Text: fmt.Sprintf("only the owner of %s may create and drop its partitions: connect as that role", row.Table), Err: err})
	case "55P03", "57014":
		return &operate.Error{Code: operate.CodeTooSlow, Text: "a transaction that uses the table has been open for too long: run it again later; what was begun is finished then", Err: err}
	}
	return err
}

// plan says what run would do.
func (d *definition) plan(ctx context.Context, plan *operate.PrunePlan) error {
	plan.Kept = map[string]string{}
	if err := d.planFinish(ctx, plan); err != nil {
		return err
	}
	next, err := d.parted.following(ctx, d.db, d.parted.missingAhead(d.request.Ahead))
	if err != nil {
		return err
	}
	for _, part := range next {
		plan.Created = append(plan.Created, part.name.String())
	}
	for _, part := range d.parted.parts {
		if !part.past || part.pending {
			continue
		}
		reason, err := d.staying(ctx, part)
		if err != nil {
			return err
		}
		if reason == "" && d.halfDetached != "" {
			reason = "PostgreSQL detaches no other while " + d.halfDetached + " is half detached"
		}
		if reason != "" {
			plan.Kept[part.name.String()] = reason
			continue
		}
		plan.Dropped = append(plan.Dropped, part.name.String())
		plan.DroppedRows += part.rows
	}
	return nil
}
