package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres/retention"
	"github.com/outbox-relay/outbox/relay"
)

// Event implements [operate.Lookups].
func (s *Store) Event(ctx context.Context, limit time.Duration, ref operate.Ref) (operate.EventDetail, error) {
	what := "look at event " + ref.String()
	found, err := see(ctx, s, limit, what, func(ctx context.Context, l survey) (operate.EventDetail, error) { return l.event(ctx, ref, true) })
	if unprintable(err) {
		// The error has ended the snapshot.
		found, err = see(ctx, s, limit, what, func(ctx context.Context, l survey) (operate.EventDetail, error) { return l.event(ctx, ref, false) })
		found.Notes = append(found.Notes, "payload and headers are larger than PostgreSQL can print, so they are left out")
	}
	if err == nil && found.State == operate.StateDead {
		err = s.addPlace(ctx, &found)
	}
	return found, err
}

// addPlace says where a restore would put a dead event. It looks through many rows, so it has a time limit of its own, and no part in the snapshot.
func (s *Store) addPlace(ctx context.Context, d *operate.EventDetail) error {
	behind, err := s.overtaken(ctx, d.Topic, d.PartitionKey, d.ID)
	if err != nil {
		return err
	}
	for i := range d.Why {
		d.Why[i].Text += "; outbox events restore puts it back" + behind.place()
	}
	return nil
}

func (l survey) event(ctx context.Context, ref operate.Ref, whole bool) (operate.EventDetail, error) {
	var d operate.EventDetail
	if err := l.tx.QueryRow(ctx, "SELECT now()").Scan(&d.At); err != nil {
		return d, err
	}
	d.At = d.At.UTC()
	q := operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StateAny, Refs: []operate.Ref{ref}}, Order: operate.NewestFirst, Limit: operate.MaxPage}
	var found []operate.Event
	for _, st := range streamsOf(q.EventFilter) {
		p, err := l.read(ctx, st, q, nil)
		if err != nil {
			return d, err
		}
		found = append(found, p.events...)
	}
	found = slices.DeleteFunc(found, func(e operate.Event) bool { return ref.ID != 0 && e.ID != ref.ID })
	if len(found) == 0 {
		return d, l.missing(ctx, ref)
	}
	// The one in the table comes first.
	d.Event = found[0]
	for _, other := range found[1:] {
		d.Notes = append(d.Notes, fmt.Sprintf("%s is a dead event under the same id: outbox events show %s", other.EventID, other.EventID))
	}
	return d, l.complete(ctx, &d, whole)
}

// complete adds to a line of the list what is beside it.
func (l survey) complete(ctx context.Context, d *operate.EventDetail, whole bool) error {
	d.Lane = relay.Lane(d.PartitionKey, l.row.Lanes)
	steps := []func(context.Context, *operate.EventDetail) error{l.addFailures, l.addLane}
	switch {
	case d.State == operate.StateDead:
		steps = append(steps, l.addDead)
	case whole:
		steps = append(steps, l.addTexts, l.addExtra)
	}
	for _, step := range append(steps, l.addReasons) {
		if err := step(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// addTexts adds payload and headers as the relay reads them.
func (l survey) addTexts(ctx context.Context, d *operate.EventDetail) error {
	headers := "NULL::text"
	if l.has("headers") {
		headers = bounded("e.headers")
	}
	var payload, own *string
	err := l.tx.QueryRow(ctx, fmt.Sprintf("SELECT %s, %s FROM %s e WHERE e.id = $1::bigint", bounded("e.payload"), headers, l.row.Table.SQL()), d.ID).
		Scan(&payload, &own)
	if err != nil {
		return fmt.Errorf("read the payload: %w", err)
	}
	d.Payload, d.Headers = bytesOrNil(payload), bytesOrNil(own)
	if payload == nil {
		d.Notes = append(d.Notes, "the payload is NULL or larger than 32 MiB, so it is left out")
	}
	return nil
}

func bytesOrNil(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}

// contract are the columns that an event has of its own.
var contract = append([]string{"id", "payload", "headers"}, tableNames...)

// maxColumn is how much is shown of a column that nobody knows, in characters.
const maxColumn = 1000

// addExtra adds the columns that the contract does not have, as text.
func (l survey) addExtra(ctx context.Context, d *operate.EventDetail) error {
	var names, list []string
	for _, name := range l.columns {
		if !slices.Contains(contract, name) {
			names = append(names, name)
			list = append(list, fmt.Sprintf("left(e.%s::text, %d)", pgx.Identifier{name}.Sanitize(), maxColumn))
		}
	}
	if len(names) == 0 {
		return nil
	}
	values, targets := make([]*string, len(names)), make([]any, len(names))
	for i := range values {
		targets[i] = &values[i]
	}
	err := l.tx.QueryRow(ctx, fmt.Sprintf("SELECT %s FROM %s e WHERE e.id = $1::bigint", strings.Join(list, ", "), l.row.Table.SQL()), d.ID).Scan(targets...)
	if err != nil {
		return fmt.Errorf("read the columns beyond the contract: %w", err)
	}
	for i, name := range names {
		d.Extra = append(d.Extra, operate.Column{Name: name, Value: values[i]})
	}
	return nil
}

// addDead takes payload, headers and other columns out of the row that was moved.
func (l survey) addDead(ctx context.Context, d *operate.EventDetail) error {
	var payload, headers, topic *string
	var letter operate.Letter
	err := l.tx.QueryRow(ctx, `
SELECT coalesce(event->'`+deadTexts+`'->>'payload', (event->'payload')::text), coalesce(event->'`+deadTexts+`'->>'headers', nullif(event->'headers', 'null')::text), died_by,
    letter_topic, coalesce(letter_partition, 0), letter_offset
FROM outbox.dead_event WHERE source = $1::uuid AND id = $2::bigint AND event_id = $3::text::uuid`,
		l.row.ID.String(), d.ID, d.EventID.String()).Scan(&payload, &headers, &d.DiedBy, &topic, &letter.Partition, &letter.Offset)
	if err != nil {
		return fmt.Errorf("read the dead event: %w", err)
	}
	d.Payload, d.Headers = bytesOrNil(payload), bytesOrNil(headers)
	if topic != nil {
		letter.Topic, d.Letter = *topic, &letter
		d.Notes = append(d.Notes, "it was sent to the dead-letter topic "+letter.String())
	}
	rows, err := l.tx.Query(ctx, `
SELECT key, left(value, `+fmt.Sprint(maxColumn)+`) FROM outbox.dead_event, jsonb_each_text(event - '`+deadTexts+`')
WHERE source = $1::uuid AND id = $2::bigint AND event_id = $3::text::uuid AND key <> ALL ($4::text[]) ORDER BY key`, l.row.ID.String(), d.ID, d.EventID.String(), contract)
	if err != nil {
		return fmt.Errorf("read the dead event's other columns: %w", err)
	}
	d.Extra, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c operate.Column, err error) {
		err = row.Scan(&c.Name, &c.Value)
		return c, err
	})
	return err
}

func (l survey) addFailures(ctx context.Context, d *operate.EventDetail) error {
	var f operate.Failures
	var next *time.Time
	err := l.tx.QueryRow(ctx, `
SELECT attempts, coalesce(first_error, ''), coalesce(last_error, ''), first_at, last_at, next_attempt_at
FROM outbox.failure WHERE source = $1::uuid AND id = $2::bigint AND event_id = $3::text::uuid`, l.row.ID.String(), d.ID, d.EventID.String()).
		Scan(&f.Attempts, &f.FirstError, &f.LastError, &f.FirstAt, &f.LastAt, &next)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the failures: %w", err)
	}
	f.FirstAt, f.LastAt, f.NextAttemptAt = f.FirstAt.UTC(), f.LastAt.UTC(), timeOrZero(next)
	d.Failures = &f
	return nil
}

func (l survey) addLane(ctx context.Context, d *operate.EventDetail) error {
	var ends *time.Time
	err := l.tx.QueryRow(ctx, `
SELECT coalesce(r.name, n.owner::text), n.expires_at FROM outbox.lane n LEFT JOIN outbox.relay r ON r.source = n.source AND r.owner = n.owner
WHERE n.source = $1::uuid AND n.lane = $2::integer AND n.expires_at > now()`, l.row.ID.String(), d.Lane).Scan(&d.LaneOwner, &ends)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	d.LeaseEnds = timeOrZero(ends)
	return err
}

// missing says where an event could be that is nowhere.
func (l survey) missing(ctx context.Context, ref operate.Ref) error {
	text := fmt.Sprintf("event %s: there is none in %s, and none that is dead", ref, l.row.Table)
	if where, err := retention.DetachedWith(ctx, l.tx, l.row, ref); err != nil || where != "" {
		return firstError(err, operate.Refuse(operate.CodeNotFound, "%s: %s", text, where))
	}
	if ref.EventID == uuid.Nil {
		last, err := l.lastID(ctx)
		if err != nil {
			return err
		}
		if last > 0 && ref.ID > last {
			return operate.Refuse(operate.CodeNotFound, "%s: the last id that was drawn is %d", text, last)
		}
	}
	writers, err := l.writers(ctx)
	if err != nil {
		return err
	}
	if len(writers) == 0 {
		return operate.Refuse(operate.CodeNotFound, "%s: it was rolled back, or deleted after it was published", text)
	}
	open := make([]string, 0, maxWriters)
	for _, w := range writers {
		open = append(open, writerText(w))
	}
	return operate.Refuse(operate.CodeNotFound, "%s: it was rolled back, deleted after it was published, or its transaction is still open: %s", text, strings.Join(open, "; "))
}

// lastID is the last id that was drawn; 0 when the role may not know it.
func (l survey) lastID(ctx context.Context) (last int64, err error) {
	var oid uint32
	if err := l.tx.QueryRow(ctx, pg.TableSQL, l.row.Table.Schema, l.row.Table.Name).Scan(&oid); err != nil {
		return 0, err
	}
	s, err := pg.ReadSequence(ctx, l.tx, oid)
	if err != nil || s.Name == "" || !s.CanRead {
		return 0, err
	}
	err = l.tx.QueryRow(ctx, "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM "+s.Name).Scan(&last)
	return last, err
}
