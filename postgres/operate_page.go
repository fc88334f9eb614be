package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// page is what one stream has for a page.
type page struct {
	events []operate.Event
	// end is how far the window went; nil when it went to the end of the stream.
	end *position
	// look is the window, when one was needed.
	look *operate.Look
}

// column of the outbox table, of a row l of it.
func tableColumn(name string) string { return "l." + name }

// order is the order of the rows, of an alias.
func (b *eventSQL) order(alias string) string {
	return fmt.Sprintf("%[1]s.id %[2]s, %[1]s.event_id %[2]s", alias, b.direction())
}

// text is the statement for a page: the rows of a window, what the filters leave of them, and what is known of those. What only the
// table decides is decided first, so that the look ends with the page.
func (b *eventSQL) text(st stream) string {
	column, known := tableColumn, b.known
	if st.dead {
		column, known = deadColumn, deadKnown
	}
	most := " LIMIT " + strconv.Itoa(b.q.Limit+1)
	filter, states := and(st.condition, b.columnFilter(column)), b.stateFilter(st)
	rows := "SELECT * FROM (" + st.rows(b) + " LIMIT " + b.window + ") l"
	if filter != "" {
		rows += " WHERE " + filter
	}
	if states == "" {
		rows += " ORDER BY " + b.order("l") + most
	} else {
		states = " WHERE " + states
	}
	return fmt.Sprintf("WITH l AS MATERIALIZED (%s)%s SELECT %s FROM (%s) s%s ORDER BY %s%s", rows, b.retrying(st), shownColumns, known(), states, b.order("s"), most)
}

// shownColumns are the columns of an [operate.Event], as scanEvent takes them.
var shownColumns = `s.id, s.event_id, s.state, s.topic, s.partition_key, s.event_type, s.aggregate_type, s.aggregate_id, ` + shownTime("s.created_at") + `, ` +
	shownTime("s.published_at") + `, s.since, s.attempts, s.code, s.error, s.next_attempt_at, s.blocked_by, s.letter`

// retrying are the keys in which an event waits for its next attempt.
func (b *eventSQL) retrying(st stream) string {
	if st.dead {
		return ""
	}
	return fmt.Sprintf(`, retrying AS MATERIALIZED (
    SELECT topic, partition_key, min(id) AS id FROM outbox.failure WHERE source = %s AND next_attempt_at > now() GROUP BY topic, partition_key)`, b.source())
}

// known are the rows l of the outbox table with what is known of them beside it.
func (b *eventSQL) known() string {
	return fmt.Sprintf(`SELECT l.*,
    CASE WHEN l.published_at IS NOT NULL THEN 'published' WHEN k.event_id = l.event_id AND k.id = l.id THEN 'parked'
         WHEN k.id IS NOT NULL OR f.next_attempt_at > now() OR r.id IS NOT NULL THEN 'waiting' ELSE 'pending' END AS state,
    CASE WHEN k.event_id = l.event_id AND k.id = l.id THEN k.parked_at END AS since, coalesce(f.attempts, 0) AS attempts,
    CASE WHEN k.event_id = l.event_id AND k.id = l.id THEN k.code ELSE '' END AS code,
    CASE WHEN k.event_id = l.event_id AND k.id = l.id THEN k.reason ELSE coalesce(f.last_error, '') END AS error,
    CASE WHEN f.next_attempt_at > now() THEN f.next_attempt_at END AS next_attempt_at,
    coalesce(CASE WHEN k.event_id <> l.event_id OR k.id <> l.id THEN k.id END, r.id, 0) AS blocked_by, '' AS letter
FROM l LEFT JOIN outbox.parked_key k ON k.source = %[1]s AND l.published_at IS NULL AND k.key_hash = %[2]s
LEFT JOIN outbox.failure f ON f.source = %[1]s AND f.id = l.id AND f.event_id = l.event_id AND l.published_at IS NULL
LEFT JOIN retrying r ON r.topic = l.topic AND r.partition_key = l.partition_key AND r.id < l.id AND l.published_at IS NULL`,
		b.source(), pg.KeyHashSQL("l.topic", "l.partition_key"))
}

func deadKnown() string {
	return fmt.Sprintf(`SELECT l.id, l.event_id, 'dead' AS state, l.topic, l.partition_key, %s AS event_type, %s AS aggregate_type, %s AS aggregate_id,
    %s AS created_at, NULL::timestamptz AS published_at, l.died_at AS since, l.attempts, l.code, l.reason AS error,
    NULL::timestamptz AS next_attempt_at, 0::bigint AS blocked_by, coalesce(l.letter_topic, '') AS letter FROM l`,
		deadColumn("event_type"), deadColumn("aggregate_type"), deadColumn("aggregate_id"), deadColumn("created_at"))
}

func scanEvent(row pgx.CollectableRow) (e operate.Event, err error) {
	var created, published, since, next *time.Time
	err = row.Scan(&e.ID, &e.EventID, &e.State, &e.Topic, &e.PartitionKey, &e.Type, &e.AggregateType, &e.AggregateID, &created, &published,
		&since, &e.Attempts, &e.Code, &e.Error, &next, &e.BlockedBy, &e.LetterTopic)
	e.CreatedAt, e.PublishedAt, e.Since, e.NextAttemptAt = timeOrZero(created), timeOrZero(published), timeOrZero(since), timeOrZero(next)
	return e, err
}

// read reads a page of the stream from a position on.
func (l survey) read(ctx context.Context, st stream, q operate.EventQuery, from *position) (page, error) {
	whole := st.named || !st.sparse && !filtered(q.EventFilter) && q.Error == "" && !q.State.Decided()
	b := l.sql(st, q, from, whole)
	rows, err := l.tx.Query(ctx, b.text(st), b.args...)
	if err != nil {
		return page{}, err
	}
	var p page
	if p.events, err = pgx.CollectRows(rows, scanEvent); err != nil || whole || len(p.events) > q.Limit {
		return p, err
	}
	return p, l.measure(ctx, st, q, from, &p)
}

// sql begins the statements of a stream.
func (l survey) sql(st stream, q operate.EventQuery, from *position, whole bool) *eventSQL {
	b := &eventSQL{survey: l, q: q, from: from, window: strconv.Itoa(l.windows.events)}
	switch {
	case st.named:
		b.window = "ALL"
	case whole:
		b.window = strconv.Itoa(q.Limit + 1)
	case st.dead:
		b.window = strconv.Itoa(l.windows.dead)
	case q.State.Decided():
		b.window = strconv.Itoa(l.windows.waiting)
	}
	return b
}

// measure finds how far the window of a page went that it did not fill.
func (l survey) measure(ctx context.Context, st stream, q operate.EventQuery, from *position, p *page) error {
	b := l.sql(st, q, from, false)
	rows, lastEvent := st.rows, "NULL::uuid"
	if st.ids != nil {
		rows = st.ids
	}
	if st.dead || st.ids != nil {
		lastEvent = "(array_agg(event_id ORDER BY " + reverse(q.Order) + "))[1]"
	}
	var looked operate.Look
	var first, last *int64
	var event *uuid.UUID
	err := l.tx.QueryRow(ctx, fmt.Sprintf("SELECT count(*), min(id), max(id), %s FROM (%s LIMIT %s) w", lastEvent, rows(b), b.window), b.args...).
		Scan(&looked.Events, &first, &last, &event)
	if err != nil {
		return err
	}
	most, _ := strconv.ParseInt(b.window, 10, 64)
	if looked.Events < most {
		return nil
	}
	if q.Order == operate.NewestFirst {
		first, last = last, first
	}
	looked.What, looked.From, looked.To = st.what, *first, *last
	end := afterID(*last, q.Order)
	if event != nil {
		end.EventID = *event
	}
	p.look, p.end = &looked, &end
	return nil
}

func reverse(order operate.Order) string {
	if order == operate.NewestFirst {
		return "id, event_id"
	}
	return "id DESC, event_id DESC"
}
