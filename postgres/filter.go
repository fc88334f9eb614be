package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox/internal/pg"
)

// and joins the conditions that are not empty.
func and(conditions ...string) string {
	return strings.Join(slices.DeleteFunc(conditions, func(c string) bool { return c == "" }), " AND ")
}

// mine is the condition for a row to be of the reader's lanes; "" when these are all.
func (r *reader) mine(s *statement) string {
	if r.lanes.all() {
		return ""
	}
	return r.lanes.within(r.row, s)
}

// walkFilter is the condition for a row to be one of the walk's. Released keys and topics are looked for in the reader's lanes alone; of a gained lane
// hopeless rows are left out, as at Start.
func (r *reader) walkFilter(s *statement, w *walk) string {
	if w.lanes.len() == 0 {
		return and(r.releasedFilter(s, w), r.mine(s))
	}
	gained := and(w.lanes.within(r.row, s), r.heldFilter(s), r.parkedFilter(s, w.sieve))
	if len(w.keys) == 0 && len(w.topics) == 0 {
		return gained
	}
	return "(" + gained + " OR " + and(r.releasedFilter(s, w), r.mine(s)) + ")"
}

func (r *reader) releasedFilter(s *statement, w *walk) string {
	topics, keyTopics, keys := w.lists()
	return fmt.Sprintf("(e.topic::text = ANY (%s::text[]) OR (e.topic::text, e.partition_key::text) IN (SELECT k.topic, k.key FROM unnest(%s::text[], %s::text[]) AS k(topic, key)))",
		s.param(pgtype.TextArrayOID, topics), s.param(pgtype.TextArrayOID, keyTopics), s.param(pgtype.TextArrayOID, keys))
}

// startFilter is the condition for a row to be no known hopeless one, so that a million parked rows are not carried over; "" when nothing
// was parked or held at Start. It need not be exact: the gate drops what may not go on.
func (r *reader) startFilter(s *statement, v sieve) string {
	if !r.parked {
		return r.heldFilter(s)
	}
	return and(r.heldFilter(s), r.parkedFilter(s, v))
}

func (r *reader) heldFilter(s *statement) string {
	if len(r.heldTopics) == 0 {
		return ""
	}
	return fmt.Sprintf("e.topic::text <> ALL (%s::text[])", s.param(pgtype.TextArrayOID, r.heldTopics))
}

func (r *reader) parkedFilter(s *statement, v sieve) string {
	if !v.on() {
		return ""
	}
	return unparkedSQL(s, r.row.ID)
}

// unparkedSQL is the condition for the row e to be of no parked key. It is a scalar subquery, that is one index lookup for each row. EXISTS would be
// joined or hashed, that is, read all parked keys for each page.
func unparkedSQL(s *statement, source uuid.UUID) string {
	return fmt.Sprintf(`(SELECT p.lane FROM outbox.parked_key p
        WHERE p.source = %s AND p.key_hash = %s) IS NULL`,
		s.param(pgtype.UUIDOID, [16]byte(source)), pg.KeyHashSQL("coalesce(e.topic::text, '')", "coalesce(e.partition_key::text, '')"))
}

// notOlder is true for a row whose transaction is not older than xid. age() compares across the wrap of xids.
func notOlder(s *statement, xid uint32) string {
	return fmt.Sprintf("age(e.xmin) <= age(%s::text::xid)", s.param(pgtype.TextOID, fmt.Sprint(xid)))
}
