package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
)

const (
	// settledPage is how many rows are looked at for a page of settled events.
	settledPage = 5_000
	// settledBytes is where a page ends early: the payloads' size as it is stored, which is compressed.
	settledBytes = 4 << 20
)

// Settled implements [operate.Matches].
func (s *Store) Settled(ctx context.Context, bulk operate.Bulk, at operate.Cursor, limit int) (operate.SettledPage, error) {
	var page operate.SettledPage
	if findsNothing(bulk) {
		page.Next.End = true
		return page, nil
	}
	err := s.change(ctx, "read settled events", func(ctx context.Context, l survey) error {
		ids, next, err := s.settledIDs(ctx, l, bulk, at, limit)
		if err != nil {
			return err
		}
		page.Next = next
		page.Events, err = s.settled(ctx, l, ids)
		return err
	})
	if unprintable(err) {
		page.Events, err = s.settledOneByOne(ctx, bulk, at, limit)
	}
	return page, err
}

// settledIDs finds the next ones, and where to go on.
func (s *Store) settledIDs(ctx context.Context, l survey, bulk operate.Bulk, at operate.Cursor, limit int) ([]int64, operate.Cursor, error) {
	b, err := newBulkSQL(l, bulk, settledPage)
	if err != nil {
		return nil, at, err
	}
	where := b.idsBehind("e.id", at)
	if bulk.Only != nil {
		where = and(where, "e.id = ANY ("+b.param(targetIDs(bulk.Only), "bigint[]")+")")
	}
	from := fmt.Sprintf("FROM %s e WHERE %s ORDER BY e.id LIMIT %s", l.row.Table.SQL(), where, b.page)
	rows, err := l.tx.Query(ctx, fmt.Sprintf(`SELECT l.id, l.event_id, coalesce(l.size, 0) FROM (SELECT e.id, %s, pg_column_size(e.payload)::bigint AS size %s) l
WHERE l.published_at IS NOT NULL AND %s ORDER BY l.id LIMIT %s`, b.tableColumns("e"), from, b.filter(bulkWalk{}), b.param(limit, "bigint")), b.args...)
	if err != nil {
		return nil, at, err
	}
	var ids []int64
	var size, bytes, id int64
	var event uuid.UUID
	full := false
	_, err = pgx.ForEachRow(rows, []any{&id, &event, &size}, func() error {
		if full = full || len(ids) > 0 && bytes+size > settledBytes; full {
			return nil
		}
		if bulk.Only == nil || slices.ContainsFunc(bulk.Only, func(t operate.Target) bool { return t.ID == id && t.EventID == event }) {
			ids = append(ids, id)
			bytes += size
		}
		return nil
	})
	if err != nil {
		return nil, at, err
	}
	if full || len(ids) == limit {
		return ids, operate.Cursor{ID: ids[len(ids)-1]}, nil
	}
	next, err := s.pageEnd(ctx, l, bulk, at)
	return ids, next, err
}

// pageEnd is where the page ends that was looked at.
func (s *Store) pageEnd(ctx context.Context, l survey, bulk operate.Bulk, at operate.Cursor) (operate.Cursor, error) {
	b, err := newBulkSQL(l, bulk, settledPage)
	if err != nil || bulk.Only != nil {
		return operate.Cursor{ID: at.ID, End: true}, err
	}
	var looked, last int64
	err = l.tx.QueryRow(ctx, fmt.Sprintf("SELECT count(*), coalesce(max(id), 0) FROM (SELECT e.id FROM %s e WHERE %s ORDER BY e.id LIMIT %s) l",
		l.row.Table.SQL(), b.idsBehind("e.id", at), b.page), b.args...).Scan(&looked, &last)
	return operate.Cursor{ID: last, End: looked < settledPage}, err
}

func targetIDs(targets []operate.Target) []int64 {
	ids := make([]int64, len(targets))
	for i, t := range targets {
		ids[i] = t.ID
	}
	return ids
}

// settled reads the events whole, as the reader does. One that somebody deletes meanwhile is not there.
func (s *Store) settled(ctx context.Context, l survey, ids []int64) ([]operate.Settled, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.readSettled(ctx, l, ids, bounded("e.payload"), bounded("e.headers"))
}

func (s *Store) readSettled(ctx context.Context, l survey, ids []int64, payload, headers string) ([]operate.Settled, error) {
	if !l.has("headers") {
		headers = "NULL::text"
	}
	rows, err := l.tx.Query(ctx, fmt.Sprintf(`
SELECT e.id, coalesce(e.event_id, %s), coalesce(e.event_type::text, ''), coalesce(e.topic::text, ''), coalesce(e.partition_key::text, ''), %s, %s, %s
FROM %s e WHERE e.id = ANY ($1::bigint[]) AND e.published_at IS NOT NULL ORDER BY e.id`, nilUUID, payload, headers, shownTime("e.created_at"), l.row.Table.SQL()), ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e operate.Settled, err error) {
		var payload, headers *string
		var created *time.Time
		err = row.Scan(&e.ID, &e.EventID, &e.Type, &e.Topic, &e.PartitionKey, &payload, &headers, &created)
		if payload != nil {
			e.Payload = []byte(*payload)
		}
		if headers != nil {
			e.Headers = []byte(*headers)
		}
		e.CreatedAt = timeOrZero(created)
		return e, err
	})
}

// settledOneByOne is for a page with an event that PostgreSQL cannot print: that one comes without payload and headers, and is refused by the publisher.
func (s *Store) settledOneByOne(ctx context.Context, bulk operate.Bulk, at operate.Cursor, limit int) ([]operate.Settled, error) {
	var ids []int64
	err := s.change(ctx, "read settled events", func(ctx context.Context, l survey) (err error) {
		ids, _, err = s.settledIDs(ctx, l, bulk, at, limit)
		return err
	})
	var all []operate.Settled
	for _, id := range ids {
		var one []operate.Settled
		read := func(payload, headers string) error {
			return s.change(ctx, "read a settled event", func(ctx context.Context, l survey) (err error) {
				one, err = s.readSettled(ctx, l, []int64{id}, payload, headers)
				return err
			})
		}
		if err == nil {
			if err = read(bounded("e.payload"), bounded("e.headers")); unprintable(err) {
				err = read("NULL::text", "NULL::text")
			}
		}
		all = append(all, one...)
	}
	return all, err
}
