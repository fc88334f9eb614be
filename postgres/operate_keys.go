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

// keyStream is the only stream of a list of keys, in its cursor.
const keyStream = "k"

// Keys implements [operate.Lookups], over the index parked_key_id.
func (s *Store) Keys(ctx context.Context, limit time.Duration, q operate.KeyQuery) (operate.KeyPage, error) {
	return see(ctx, s, limit, "list parked keys", func(ctx context.Context, l survey) (operate.KeyPage, error) {
		c, err := parseCursor(q.After, fingerprint("keys", q.KeyFilter, q.Order), []string{keyStream})
		if err != nil {
			return operate.KeyPage{}, err
		}
		// The list of events has the conditions on the order.
		b := l.sql(stream{}, operate.EventQuery{Order: q.Order, Limit: q.Limit}, c.Streams[keyStream], false)
		b.window = strconv.Itoa(l.windows.keys)
		p, err := l.readKeys(ctx, b, q)
		if err != nil {
			return p, err
		}
		if p.Competing, err = competingNames(ctx, l.tx, l.row.ID); err != nil || q.After != "" {
			return p, err
		}
		p.KeysBeside, err = l.keysBeside(ctx, q.KeyFilter)
		return p, err
	})
}

func (l survey) readKeys(ctx context.Context, b *eventSQL, q operate.KeyQuery) (operate.KeyPage, error) {
	text := fmt.Sprintf(`
SELECT p.topic, p.partition_key, p.id, p.event_id, p.event_type, p.code, p.reason, p.parked_at, p.lane,
    coalesce(p.aggregate_type, ''), coalesce(p.aggregate_id, ''), f.id, f.event_id, coalesce(f.topic, ''), coalesce(f.partition_key, '')
FROM (SELECT * FROM (%s) x%s ORDER BY %s LIMIT %d) p
LEFT JOIN LATERAL (SELECT r.id, r.event_id, r.topic, r.partition_key %s) f ON true ORDER BY %s`,
		b.parkedKeys(q), where(b.keyFilter(q.KeyFilter)), b.order("x"), q.Limit+1, rootsOfSQL, b.order("p"))
	rows, err := l.tx.Query(ctx, text, b.args...)
	if err != nil {
		return operate.KeyPage{}, err
	}
	p := operate.KeyPage{}
	p.Keys, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (k operate.Key, err error) {
		var root operate.Root
		var id *int64
		var event *uuid.UUID
		err = row.Scan(&k.Topic, &k.PartitionKey, &k.ID, &k.EventID, &k.Type, &k.Code, &k.Reason, &k.ParkedAt, &k.Lane,
			&k.AggregateType, &k.AggregateID, &id, &event, &root.Topic, &root.PartitionKey)
		k.ParkedAt = k.ParkedAt.UTC()
		if id != nil && event != nil {
			root.Ref = operate.Ref{ID: *id, EventID: *event}
			k.WaitsFor = &root
		}
		return k, err
	})
	if err != nil {
		return operate.KeyPage{}, err
	}
	var end *position
	if len(p.Keys) > q.Limit {
		p.Keys = p.Keys[:q.Limit]
		end = &position{p.Keys[q.Limit-1].ID, p.Keys[q.Limit-1].EventID}
	} else if end, err = l.measureKeys(ctx, b.from, q, &p); err != nil {
		return operate.KeyPage{}, err
	}
	if end != nil {
		p.Next = cursor{fingerprint("keys", q.KeyFilter, q.Order), map[string]*position{keyStream: end}}.String()
	}
	return p, nil
}

// parkedKeys are the keys of the window. A named one is found by its hash.
func (b *eventSQL) parkedKeys(q operate.KeyQuery) string {
	named := ""
	if q.Topic != nil && q.PartitionKey != nil {
		named = "x.key_hash = " + b.param(pg.KeyHash(relayKey(*q.Topic, *q.PartitionKey)), "bytea")
	}
	return fmt.Sprintf("SELECT * FROM outbox.parked_key x WHERE %s ORDER BY %s LIMIT %s",
		and("x.source = "+b.source(), named, b.beyond("x.id", "x.event_id")), b.order("x"), b.window)
}

func (b *eventSQL) keyFilter(f operate.KeyFilter) string {
	var list []string
	for _, w := range []asked{{"topic", f.Topic}, {"partition_key", f.PartitionKey}, {"event_type", f.Type}, {"code", f.Code}} {
		list = append(list, b.equal("x."+w.column, w.value)...)
	}
	if f.Error != "" {
		list = append(list, b.holds(f.Error, "x.code", "x.reason"))
	}
	return and(append(list, b.ages("x.parked_at", f.MinAge, f.MaxAge)...)...)
}

// measureKeys finds how far the window of a page went that it did not fill; nil when it went to the end.
func (l survey) measureKeys(ctx context.Context, from *position, q operate.KeyQuery, p *operate.KeyPage) (*position, error) {
	b := l.sql(stream{}, operate.EventQuery{Order: q.Order}, from, false)
	b.window = strconv.Itoa(l.windows.keys)
	var looked operate.Look
	var first, last *int64
	var event *uuid.UUID
	err := l.tx.QueryRow(ctx, fmt.Sprintf("SELECT count(*), min(id), max(id), (array_agg(event_id ORDER BY %s))[1] FROM (%s) w", reverse(q.Order), b.parkedKeys(q)), b.args...).
		Scan(&looked.Events, &first, &last, &event)
	if err != nil || looked.Events < int64(l.windows.keys) {
		return nil, err
	}
	if q.Order == operate.NewestFirst {
		first, last = last, first
	}
	looked.What, looked.From, looked.To = "parked keys", *first, *last
	p.Looks = append(p.Looks, looked)
	return &position{*last, *event}, nil
}

func where(condition string) string {
	if condition == "" {
		return ""
	}
	return " WHERE " + condition
}
