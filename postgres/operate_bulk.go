package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// walk is one table that a bulk change goes through in pages, each row once, by the order of an index.
type bulkWalk struct {
	// rows writes the next rows of the walk behind the cursor, in order; they are called l. condition is which of them are meant at all.
	rows func(b *bulkSQL, after operate.Cursor) string
	// order is the walk's order, of columns of l.
	order     []string
	condition string
	// letter is the dead-letter topic that the row was sent to, of columns of l; "" where there can be none.
	letter string
}

// bulkSQL writes the statements of a bulk change.
type bulkSQL struct {
	eventSQL
	bulk operate.Bulk
	// page is how many rows are looked at.
	page string
}

// walksOf says where the events or keys of a change are.
func walksOf(b operate.Bulk) []bulkWalk {
	if b.Keys != nil {
		return []bulkWalk{keyWalk()}
	}
	switch state := b.Events.State; {
	case b.Verb == operate.VerbReplay:
		return []bulkWalk{settledWalk()}
	case state == operate.StateDead:
		return []bulkWalk{deadWalk()}
	case state == operate.StateParked:
		return []bulkWalk{parkedWalk()}
	case state == operate.StateWaiting:
		// Of those that wait, only those that wait for their own attempt can be tried; and what waits behind another one is in order, so that nobody gives it up by this.
		return []bulkWalk{failureWalk("l.topic IS NOT NULL AND l.due > now() AND NOT l.stops")}
	case b.Verb == operate.VerbRetry:
		return []bulkWalk{parkedWalk(), failureWalk("l.topic IS NOT NULL AND l.due IS NOT NULL AND NOT l.stops")}
	case b.Events.Error != "" && state == operate.StatePending:
		return []bulkWalk{parkedWalk(), failureWalk("l.topic IS NOT NULL AND NOT l.stops")}
	}
	return []bulkWalk{pendingWalk()}
}

// keyWalk is over the primary key of parked_key.
func keyWalk() bulkWalk {
	return bulkWalk{order: []string{"hash"}, rows: func(b *bulkSQL, after operate.Cursor) string {
		return fmt.Sprintf(`SELECT k.key_hash AS hash, 0::bigint AS id, NULL::uuid AS event_id, k.topic, k.partition_key, k.event_type, k.code, k.reason AS error, k.parked_at
FROM outbox.parked_key k WHERE k.source = %s AND k.key_hash > %s ORDER BY k.key_hash LIMIT %s`, b.source(), b.hash(after), b.page)
	}}
}

// parkedWalk is of the events that stop keys, not of those that wait for another key, over the primary keys of parked_key and of the table.
func parkedWalk() bulkWalk {
	return bulkWalk{order: []string{"hash"}, condition: "l.topic IS NOT NULL AND l.code <> '" + relay.CodeAggregateParked + "'", rows: func(b *bulkSQL, after operate.Cursor) string {
		// OFFSET 0 keeps it a look at one row after the other: joined as a set, the table would be read whole.
		return fmt.Sprintf(`SELECT k.hash, k.id, k.event_id, %s, k.code, k.error FROM (
    SELECT k.key_hash AS hash, k.id, k.event_id, k.code, k.reason AS error FROM outbox.parked_key k WHERE k.source = %s AND k.key_hash > %s ORDER BY k.key_hash LIMIT %s
) k LEFT JOIN LATERAL (SELECT %s FROM %s e WHERE e.id = k.id AND e.event_id = k.event_id AND e.published_at IS NULL OFFSET 0) t ON true`,
			bulkColumns, b.source(), b.hash(after), b.page, b.tableColumns("e"), b.row.Table.SQL())
	}}
}

// failureWalk is of the events that were tried, over the primary keys of failure and of the table.
func failureWalk(condition string) bulkWalk {
	return bulkWalk{order: []string{"id", "event_id"}, condition: condition, rows: func(b *bulkSQL, after operate.Cursor) string {
		return fmt.Sprintf(`SELECT NULL::bytea AS hash, f.id, f.event_id, %s, '' AS code, f.error, f.due,
    EXISTS (SELECT FROM outbox.parked_key k WHERE k.source = %[2]s AND k.key_hash = %[3]s AND k.id = f.id) AS stops FROM (
    SELECT f.id, f.event_id, f.last_error AS error, f.next_attempt_at AS due FROM outbox.failure f
    WHERE f.source = %[2]s AND (f.id, f.event_id) > (%[4]s, %[5]s) ORDER BY f.id, f.event_id LIMIT %[6]s
) f LEFT JOIN LATERAL (SELECT %[7]s FROM %[8]s e WHERE e.id = f.id AND e.event_id = f.event_id AND e.published_at IS NULL OFFSET 0) t ON true`,
			bulkColumns, b.source(), pg.KeyHashSQL("t.topic", "t.partition_key"), b.param(after.ID, "bigint"), b.param(after.EventID, "uuid"), b.page,
			b.tableColumns("e"), b.row.Table.SQL())
	}}
}

// pendingWalk is over the index of what is unpublished.
func pendingWalk() bulkWalk {
	return bulkWalk{order: []string{"id"}, rows: func(b *bulkSQL, after operate.Cursor) string {
		return fmt.Sprintf("SELECT NULL::bytea AS hash, e.id, %s, '' AS code, '' AS error FROM %s e WHERE e.published_at IS NULL AND %s ORDER BY e.id LIMIT %s",
			b.tableColumns("e"), b.row.Table.SQL(), b.idsBehind("e.id", after), b.page)
	}}
}

// settledWalk is over the primary key of the table.
func settledWalk() bulkWalk {
	return bulkWalk{order: []string{"id"}, condition: "l.published_at IS NOT NULL", rows: func(b *bulkSQL, after operate.Cursor) string {
		return fmt.Sprintf("SELECT NULL::bytea AS hash, e.id, %s, '' AS code, '' AS error FROM %s e WHERE %s ORDER BY e.id LIMIT %s",
			b.tableColumns("e"), b.row.Table.SQL(), b.idsBehind("e.id", after), b.page)
	}}
}

// deadWalk is over the primary key of dead_event.
func deadWalk() bulkWalk {
	return bulkWalk{order: []string{"id", "event_id"}, letter: "l.letter_topic", rows: func(b *bulkSQL, after operate.Cursor) string {
		return fmt.Sprintf(`SELECT NULL::bytea AS hash, x.id, x.event_id, x.topic, x.partition_key, %s, NULL::timestamptz AS published_at, x.code, x.reason AS error, x.letter_topic
FROM outbox.dead_event x WHERE x.source = %s AND (x.id, x.event_id) > (%s, %s) ORDER BY x.id, x.event_id LIMIT %s`,
			b.fromDead(), b.source(), b.param(after.ID, "bigint"), b.param(after.EventID, "uuid"), b.page)
	}}
}

// fromDead are the columns that only the event itself has. It is unpacked for those that the filter asks for alone.
func (b *bulkSQL) fromDead() string {
	column := func(name, typ string, wanted bool) string {
		value := "NULL"
		if wanted {
			value = "(x.event->>'" + name + "')"
		}
		return value + "::" + typ + " AS " + name
	}
	q := b.q.EventFilter
	timed := !q.CreatedFrom.IsZero() || !q.CreatedUntil.IsZero() || q.MinAge > 0 || q.MaxAge > 0
	return strings.Join([]string{column("event_type", "text", q.Type != nil), column("aggregate_type", "text", q.AggregateType != nil),
		column("aggregate_id", "text", q.AggregateID != nil), column("created_at", "timestamptz", timed)}, ", ")
}

// bulkColumns are tableColumns without the event's id, which the state table has.
var bulkColumns = "t." + strings.Join(tableNames[1:], ", t.")

func (b *bulkSQL) hash(after operate.Cursor) string {
	return b.param(append([]byte{}, after.Hash...), "bytea")
}

// idsBehind bounds the ids for the index.
func (b *bulkSQL) idsBehind(id string, after operate.Cursor) string {
	if after.ID == 0 {
		return b.between(id)
	}
	return id + " > " + b.param(after.ID, "bigint") + " AND " + b.between(id)
}

// filter is the condition on l.
func (b *bulkSQL) filter(w bulkWalk) string {
	list := []string{"true"}
	add := func(condition string) {
		if condition != "" {
			list = append(list, condition)
		}
	}
	add(w.condition)
	add(b.columnFilter(func(name string) string { return "l." + name }))
	if b.bulk.Keys != nil {
		b.keyFilter(add)
		return strings.Join(list, " AND ")
	}
	add(b.between("l.id"))
	if b.q.Error != "" {
		add(b.holds(b.q.Error, "l.code", "l.error"))
	}
	return strings.Join(list, " AND ")
}

func (b *bulkSQL) keyFilter(add func(string)) {
	k := b.bulk.Keys
	// What waits for another key goes on with that one.
	add("l.code <> '" + relay.CodeAggregateParked + "'")
	if k.Code != nil {
		add("l.code = " + b.param(*k.Code, "text"))
	}
	if k.Error != "" {
		add(b.holds(k.Error, "l.code", "l.error"))
	}
	for _, age := range b.ages("l.parked_at", k.MinAge, k.MaxAge) {
		add(age)
	}
}

func newBulkSQL(l survey, bulk operate.Bulk, page int) (*bulkSQL, error) {
	b := &bulkSQL{eventSQL: eventSQL{survey: l}, bulk: bulk}
	switch {
	case bulk.Keys != nil:
		b.q.EventFilter = operate.EventFilter{Topic: bulk.Keys.Topic, PartitionKey: bulk.Keys.PartitionKey, Type: bulk.Keys.Type}
	case bulk.Events != nil:
		b.q.EventFilter = *bulk.Events
	}
	if bulk.Keys != nil && bulk.Keys.Code != nil && *bulk.Keys.Code == relay.CodeAggregateParked {
		return nil, operate.Refuse(operate.CodeInvalid, "keys with the code %s wait for another key, and go on by themselves with it: outbox keys list says for which; %s that one", relay.CodeAggregateParked, bulk.Verb)
	}
	if (b.q.AggregateType != nil && !l.has("aggregate_type")) || (b.q.AggregateID != nil && !l.has("aggregate_id")) {
		return nil, operate.Refuse(operate.CodeInvalid, "%s has no columns aggregate_type and aggregate_id to filter by", l.row.Table)
	}
	b.page = b.param(page, "bigint")
	return b, nil
}

// parts writes the page l, the hits in it, and the place where the page ends; room bounds the hits.
func (b *bulkSQL) parts(w bulkWalk, after operate.Cursor, room string) string {
	last := strings.Join(w.order, " DESC, ") + " DESC"
	return fmt.Sprintf(`WITH l AS MATERIALIZED (%s), hit AS MATERIALIZED (
    SELECT l.topic, l.partition_key, l.id, l.event_id, %s AS letter FROM l WHERE %s ORDER BY %s LIMIT %s
), last AS (
    SELECT (SELECT count(*) FROM l) AS looked, p.id, p.event_id, p.hash FROM (SELECT 1) one LEFT JOIN (SELECT id, event_id, hash FROM l ORDER BY %s LIMIT 1) p ON true
)`, w.rows(b, after), cmp.Or(w.letter, "NULL::text"), b.filter(w), "l."+strings.Join(w.order, ", l."), room, last)
}

// lookedAt is the end of a page as a statement returns it.
type lookedAt struct {
	looked  int64
	id      *int64
	eventID *uuid.UUID
	hash    []byte
}

// next is where the walk goes on.
func (p lookedAt) next(b operate.Bulk, at operate.Cursor, page int) operate.Cursor {
	if p.looked < int64(page) {
		if at.Walk++; at.Walk >= len(walksOf(b)) {
			return operate.Cursor{End: true}
		}
		return operate.Cursor{Walk: at.Walk}
	}
	at.Hash = p.hash
	if p.id != nil {
		at.ID = *p.id
	}
	if p.eventID != nil {
		at.EventID = *p.eventID
	}
	return at
}

// Match implements [operate.Matches].
func (s *Store) Match(ctx context.Context, bulk operate.Bulk, at operate.Cursor, limit int) (operate.Matched, error) {
	m := operate.Matched{Topics: map[string]int64{}, Letters: map[string]int64{}}
	if findsNothing(bulk) {
		m.Next.End = true
		return m, nil
	}
	var end lookedAt
	err := s.change(ctx, "count what would be touched", func(ctx context.Context, l survey) error {
		b, err := newBulkSQL(l, bulk, limit)
		if err != nil {
			return err
		}
		text := b.parts(walksOf(bulk)[at.Walk], at, "NULL") + `
SELECT last.looked, last.id, last.event_id, last.hash, h.topic, h.letter, h.n, h.top FROM last LEFT JOIN (SELECT topic, letter, count(*) AS n, max(id) AS top FROM hit GROUP BY topic, letter) h ON true`
		rows, err := l.tx.Query(ctx, text, b.args...)
		if err != nil {
			return err
		}
		var topic, letter *string
		var n, top *int64
		_, err = pgx.ForEachRow(rows, []any{&end.looked, &end.id, &end.eventID, &end.hash, &topic, &letter, &n, &top}, func() error {
			if topic != nil && n != nil && top != nil {
				m.Topics[*topic] += *n
				m.Count += *n
				m.Last = max(m.Last, *top)
				if letter != nil {
					m.Letters[*letter] += *n
				}
			}
			return nil
		})
		return err
	})
	m.Looked, m.Next = end.looked, end.next(bulk, at, limit)
	return m, err
}

// findsNothing tells that no event can be meant: what is settled has left no error.
func findsNothing(b operate.Bulk) bool {
	return b.Verb == operate.VerbReplay && b.Events != nil && b.Events.Error != ""
}

// askPage is how many rows are looked at for a batch of requests.
const askPage = 5_000

// AskMatching implements [operate.Matches]. A job that is over gets no more requests.
func (s *Store) AskMatching(ctx context.Context, job int64, bulk operate.Bulk, by string, at operate.Cursor, limit int) (operate.Asked, error) {
	asked := operate.Asked{Next: at}
	err := s.change(ctx, "write requests", func(ctx context.Context, l survey) error {
		var running bool
		if err := l.tx.QueryRow(ctx, `SELECT `+jobGoesOn+` FROM outbox.job j WHERE id = $1::bigint FOR SHARE`, job).Scan(&running); err != nil || !running {
			return err
		}
		if bulk.Only != nil {
			return s.askOnly(ctx, l, job, bulk, by, at, limit, &asked)
		}
		page := max(limit, askPage)
		b, err := newBulkSQL(l, bulk, page)
		if err != nil {
			return err
		}
		text := b.parts(walksOf(bulk)[at.Walk], at, b.param(limit, "bigint"))
		event, id := "hit.event_id", "hit.id"
		if bulk.Keys != nil {
			event, id = "NULL", "NULL"
		}
		text += fmt.Sprintf(`, asked AS (
    INSERT INTO outbox.request (source, verb, topic, partition_key, event_id, id_of_event, job, requested_by, reason)
    SELECT %s, %s, topic, partition_key, %s::uuid, %s::bigint, %s, %s, %s FROM hit ORDER BY id RETURNING *
)%s
SELECT last.looked, last.id, last.event_id, last.hash, (SELECT count(*) FROM asked), (SELECT coalesce(min(id), 0) FROM asked), (SELECT coalesce(max(id), 0) FROM asked) FROM last`,
			b.source(), b.param(string(bulk.Verb), "text"), event, id, b.param(job, "bigint"), b.param(l.row.Storable(by), "text"), b.param(l.row.Storable(bulk.Reason), "text"), alsoAskedSQL(l.row))
		var end lookedAt
		if err := l.tx.QueryRow(ctx, text, b.args...).Scan(&end.looked, &end.id, &end.eventID, &end.hash, &asked.Count, &asked.First, &asked.Last); err != nil {
			return err
		}
		asked.Next = end.next(bulk, at, page)
		return nil
	})
	return asked, err
}

// askOnly asks for the events that were named. The cursor's id is how many were asked for.
func (s *Store) askOnly(ctx context.Context, l survey, job int64, bulk operate.Bulk, by string, at operate.Cursor, limit int, asked *operate.Asked) error {
	from := int(at.ID)
	part := bulk.Only[from:min(from+limit, len(bulk.Only))]
	topics, keys, ids, events := make([]string, len(part)), make([]string, len(part)), make([]int64, len(part)), make([]string, len(part))
	for i, t := range part {
		topics[i], keys[i], ids[i], events[i] = t.Topic, t.PartitionKey, t.ID, t.EventID.String()
	}
	err := l.tx.QueryRow(ctx, `
WITH asked AS (
    INSERT INTO outbox.request (source, verb, topic, partition_key, event_id, id_of_event, job, requested_by, reason)
    SELECT $1::text::uuid, $2, n.topic, n.key, n.event::uuid, n.id, $7::bigint, $8, $9
    FROM unnest($3::text[], $4::text[], $5::bigint[], $6::text[]) WITH ORDINALITY n(topic, key, id, event, place) ORDER BY n.place RETURNING *
)`+alsoAskedSQL(l.row)+`
SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM asked`,
		l.row.ID.String(), string(bulk.Verb), topics, keys, ids, events, job, l.row.Storable(by), l.row.Storable(bulk.Reason)).
		Scan(&asked.Count, &asked.First, &asked.Last)
	asked.Next = operate.Cursor{ID: int64(from + len(part)), End: from+len(part) >= len(bulk.Only)}
	return err
}
