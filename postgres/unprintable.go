package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/internal/pg"
)

// A jsonb of 90 kB can hold numbers whose text is larger than PostgreSQL's limit of 1 GB for a value: it can be inserted and never be read.
// One such row would fail every read that meets it, and so stop the whole source. It is set aside instead: it is read without payload
// and headers, and the publisher refuses it as any other bad event.

// maxText is the largest payload that is read, outbox.MaxPayloadBytes: a larger one would cost the relay its memory, and a few of them its life, before
// the publisher could refuse it. suspectBytes is the stored size from which a text is measured first: stored values are compressed, some to a
// hundredth and less, and measuring costs as much as printing.
const (
	maxText      = outbox.MaxPayloadBytes
	suspectBytes = 32 << 10
)

// bounded is the text of a column, or NULL when it is larger than maxText.
func bounded(column string) string {
	return fmt.Sprintf("CASE WHEN pg_column_size(%[1]s) <= %[2]d OR octet_length(%[1]s::text) <= %[3]d THEN %[1]s::text END", column, suspectBytes, maxText)
}

// unprintable recognises the error of a value whose text is too large, or larger than the server's memory allows.
func unprintable(err error) bool {
	return slices.Contains([]string{"54000", "53200"}, pg.Code(err))
}

// printable is the expression, or NULL for the rows that are set aside.
func (r *reader) printable(s *statement, expression string) string {
	switch {
	case r.bare:
		return "NULL::text"
	case len(r.aside) == 0:
		return expression
	}
	ids := slices.Sorted(maps.Keys(r.aside))
	return fmt.Sprintf("CASE WHEN e.id = ANY (%s) THEN NULL ELSE %s END", s.param(pgtype.Int8ArrayOID, ids), expression)
}

var errNothingUnprintable = errors.New("each row can be printed by itself")

// setAside finds the rows of the question that cannot be printed: those among the ids that it answers without texts.
func (r *reader) setAside(ctx context.Context, q *question) error {
	r.bare = true
	a, err := r.fetch(ctx, q)
	r.bare = false
	if err != nil {
		return err
	}
	var ids []int64
	for _, rows := range [][]row{a.finds, a.page, a.head, a.beyond} {
		for _, got := range rows {
			if _, known := r.aside[got.id]; got.event != nil && !known {
				ids = append(ids, got.id)
			}
		}
	}
	before := len(r.aside)
	if err := r.search(ctx, ids); err != nil {
		return err
	}
	if len(r.aside) == before {
		return errNothingUnprintable
	}
	return nil
}

// search halves the ids until it has those that fail alone.
func (r *reader) search(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	err := r.print(ctx, ids)
	switch {
	case !unprintable(err):
		return err
	case len(ids) > 1:
		half := len(ids) / 2
		if err := r.search(ctx, ids[:half]); err != nil {
			return err
		}
		return r.search(ctx, ids[half:])
	}
	if r.aside == nil {
		r.aside = map[int64]struct{}{}
	}
	r.aside[ids[0]] = struct{}{}
	return nil
}

// print has the texts made and throws them away.
func (r *reader) print(ctx context.Context, ids []int64) error {
	texts := "octet_length(e.payload::text)"
	if r.row.Headers {
		texts += " + octet_length(e.headers::text)"
	}
	return r.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("SELECT max(%s) FROM %s e WHERE e.id = ANY ($1)", texts, r.table()), ids)
		return err
	})
}
