package postgres

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// maxFinds is how many rows the holes may give in one read. A transaction of a million events that commits late exceeds it; then
	// everything unpublished is walked through in pages instead.
	maxFinds = 20_000
	// shortSpan is the longest span that is looked up by its single ids. The lookup of ids costs a fifth of a join on ranges; a
	// wide span, left by a rolled-back bulk insert, costs nothing as a range, because nothing unpublished is in it.
	shortSpan = 128
	// minScan is how many rows a page of a filtered walk looks through at least, however few of them match.
	minScan = 10_000
)

// Kinds of rows in the answer to a read, in the order of their parts in the statement.
const (
	kindServer = iota
	kindFind
	kindPage
	kindHead
	kindBeyond
)

// question is what one read asks for.
type question struct {
	limit int
	// look are the groups of holes to look at; skipped are those left out, if the answer's snapshot allows it.
	look, skipped []*group
	// walk is nil when there is none.
	walk *walk
	// noHead and beyond switch parts off and on.
	noHead, beyond bool
}

// scan is how many rows a filtered page looks through.
func (q *question) scan() int { return max(q.limit, minScan) }

// build writes the statement of the question. It is one statement, so everything in the answer is of one snapshot.
func (r *reader) build(q *question) *statement {
	s := &statement{}
	fmt.Fprintf(&s.text, `WITH seq AS MATERIALIZED (SELECT last_value - (NOT is_called)::integer AS top FROM %s)
SELECT %d AS kind, (SELECT top FROM seq), NULL::uuid, pg_relation_filenode(%s::text::regclass)::text,
    CASE WHEN NOT pg_is_in_recovery() THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer::text END,
    NULL::text, pg_current_snapshot()::text, NULL::text, pg_postmaster_start_time()`,
		r.row.sequence, kindServer, s.param(pgtype.TextOID, r.row.sequence))
	r.addLooks(s, q)
	if q.walk != nil {
		r.addPage(s, kindPage, q, q.walk.pos, r.pos, r.walkFilter(s, q.walk))
	}
	switch {
	case q.noHead:
	case r.walking():
		r.addPage(s, kindHead, q, r.pos, r.cursor, r.startFilter(s))
	default:
		r.addHead(s, q)
	}
	if q.beyond {
		r.addBeyond(s, q)
	}
	return s
}

// addHead adds the newest rows, through the primary key. A row that is settled already comes back as its id alone.
func (r *reader) addHead(s *statement, q *question) {
	fmt.Fprintf(&s.text, "\nUNION ALL (SELECT %d, e.id, %s FROM %s e WHERE e.id > %s AND e.id <= (SELECT top FROM seq) ORDER BY e.id LIMIT %s)",
		kindHead, r.columnsIf(s, "e.published_at IS NULL"), r.table(), s.bigint(r.pos), s.bigint(int64(q.limit)))
}

// addBeyond adds rows that the sequence did not give: only the partial index leads to them.
func (r *reader) addBeyond(s *statement, q *question) {
	fmt.Fprintf(&s.text, `
UNION ALL (SELECT %d, e.id, %s FROM %s e WHERE e.published_at IS NULL AND e.id > %s AND e.id > (SELECT top FROM seq) ORDER BY e.id LIMIT %s)`,
		kindBeyond, r.columns(s), r.table(), s.bigint(r.beyond), s.bigint(int64(q.limit)))
}

// addPage adds the next unpublished rows in (after, upTo], through the partial index: limit of them, or if there is a filter, as many as
// match it among the next rows; the others come back as their ids alone.
func (r *reader) addPage(s *statement, kind int, q *question, after, upTo int64, filter string) {
	from := fmt.Sprintf("FROM %s e WHERE e.published_at IS NULL AND e.id > %s AND e.id <= %s ORDER BY e.id LIMIT ",
		r.table(), s.bigint(after), s.bigint(upTo))
	if filter == "" {
		fmt.Fprintf(&s.text, "\nUNION ALL (SELECT %d, e.id, %s %s%s)", kind, r.columns(s), from, s.bigint(int64(q.limit)))
		return
	}
	fmt.Fprintf(&s.text, `
UNION ALL (SELECT %d, e.id, %s FROM (
    SELECT e.*, count(*) FILTER (WHERE e.matches) OVER (ORDER BY e.id ROWS UNBOUNDED PRECEDING) AS nth FROM (
        SELECT e.id, %s, %s AS matches %s%s) e) e
    WHERE e.nth <= %s ORDER BY e.id)`,
		kind, r.columnsIf(s, "e.matches"), r.rawColumns(), filter, from, s.bigint(int64(q.scan())), s.bigint(int64(q.limit)))
}

// addLooks adds what is now visible in the holes.
func (r *reader) addLooks(s *statement, q *question) {
	limit := maxFinds + 1
	ids, lo, hi := r.spansOf(q.look)
	r.count.looked += len(ids) + len(lo)
	if len(ids) > 0 {
		fmt.Fprintf(&s.text, "\nUNION ALL (SELECT %d, e.id, %s FROM %s e WHERE e.id = ANY (%s) LIMIT %d)",
			kindFind, r.columnsIf(s, "e.published_at IS NULL"), r.table(), s.param(pgtype.Int8ArrayOID, ids), limit)
	}
	if len(lo) > 0 {
		fmt.Fprintf(&s.text, `
UNION ALL (SELECT %d, e.* FROM unnest(%s::bigint[], %s::bigint[]) AS s(lo, hi) CROSS JOIN LATERAL (
    SELECT e.id, %s FROM %s e WHERE e.published_at IS NULL AND e.id BETWEEN s.lo AND s.hi ORDER BY e.id LIMIT %d) e LIMIT %d)`,
			kindFind, s.param(pgtype.Int8ArrayOID, lo), s.param(pgtype.Int8ArrayOID, hi), r.columns(s), r.table(), limit, limit)
	}
	for _, g := range q.look {
		if g.below != 0 {
			r.addLookBelow(s, g, limit)
		}
	}
}

// addLookBelow adds what the writers that were open at Start have committed: rows below Start's cursor that are no older than those
// writers. xmin is the row's (sub)transaction, never older than its top-level one.
func (r *reader) addLookBelow(s *statement, g *group, limit int) {
	filter := r.startFilter(s)
	if filter != "" {
		filter = " AND " + filter
	}
	fmt.Fprintf(&s.text, `
UNION ALL (SELECT %d, e.id, %s FROM %s e WHERE e.published_at IS NULL AND e.id <= %s AND %s%s ORDER BY e.id LIMIT %d)`,
		kindFind, r.columns(s), r.table(), s.bigint(min(g.below, r.pos)), notOlder(s, g.since), filter, limit)
}

// notOlder is true for a row whose transaction is not older than xid. age() compares across the wrap of xids.
func notOlder(s *statement, xid uint32) string {
	return fmt.Sprintf("age(e.xmin) <= age(%s::text::xid)", s.param(pgtype.TextOID, fmt.Sprint(xid)))
}

// spansOf returns the holes of the groups, up to the reader's position: the single ids of short spans, and the ends of wide ones. What
// lies above the position is left to the walk that will come to it.
func (r *reader) spansOf(groups []*group) (ids, lo, hi []int64) {
	for _, g := range groups {
		for _, s := range g.spans {
			end := min(s.hi, r.pos)
			if end-s.lo >= shortSpan {
				lo, hi = append(lo, s.lo), append(hi, end)
				continue
			}
			for id := s.lo; id <= end; id++ {
				ids = append(ids, id)
			}
		}
	}
	return ids, lo, hi
}

// walkFilter is the condition for a row to be one of the walk's.
func (r *reader) walkFilter(s *statement, w *walk) string {
	topics, keyTopics, keys := w.lists()
	return fmt.Sprintf("(e.topic::text = ANY (%s::text[]) OR (e.topic::text, e.partition_key::text) IN (SELECT k.topic, k.key FROM unnest(%s::text[], %s::text[]) AS k(topic, key)))",
		s.param(pgtype.TextArrayOID, topics), s.param(pgtype.TextArrayOID, keyTopics), s.param(pgtype.TextArrayOID, keys))
}

// startFilter is the condition for a row to be no known hopeless one, so that a million parked rows are not carried over; "" when nothing
// was parked or held at Start. It need not be exact: the gate drops what may not go on.
func (r *reader) startFilter(s *statement) string {
	var conditions []string
	if len(r.heldTopics) > 0 {
		conditions = append(conditions, fmt.Sprintf("e.topic::text <> ALL (%s::text[])", s.param(pgtype.TextArrayOID, r.heldTopics)))
	}
	if r.parked {
		// A scalar subquery is one index lookup for each row. EXISTS would be joined or hashed, that is, read all parked keys for each page.
		conditions = append(conditions, fmt.Sprintf(`(SELECT p.lane FROM outbox.parked_key p
        WHERE p.source = %s AND p.key_hash = %s) IS NULL`,
			s.param(pgtype.UUIDOID, [16]byte(r.row.id)), keyHashSQL("coalesce(e.topic::text, '')", "coalesce(e.partition_key::text, '')")))
	}
	return strings.Join(conditions, " AND ")
}

func (r *reader) table() string { return r.row.table.sql() }

// columnNames are the columns of an event beside its id.
var columnNames = [...]string{"event_id", "event_type", "topic", "partition_key", "payload", "headers", "created_at"}

// columns lists an event's columns, beside its id, as text where the type of the column is the user's choice.
func (r *reader) columns(s *statement) string {
	return strings.Join(r.expressions(s), ", ")
}

// columnsIf is columns, all NULL where the condition is not true.
func (r *reader) columnsIf(s *statement, condition string) string {
	list := r.expressions(s)
	for i, e := range list {
		list[i] = "CASE WHEN " + condition + " THEN " + e + " END"
	}
	return strings.Join(list, ", ")
}

// expressions are the columns one by one. A row that a looser table lets be without event_id is an event all the same: it is refused by name.
func (r *reader) expressions(s *statement) []string {
	list := make([]string, len(columnNames))
	for i, name := range columnNames {
		switch name {
		case "event_id":
			list[i] = "coalesce(e.event_id, '" + uuid.Nil.String() + "'::uuid)"
		case "created_at":
			list[i] = "e.created_at"
		case "payload":
			list[i] = r.printable(s, bounded("e.payload"))
		case "headers":
			list[i] = "NULL::text"
			if r.row.headers {
				list[i] = r.printable(s, bounded("e.headers"))
			}
		default:
			list[i] = "e." + name + "::text"
		}
	}
	return list
}

// rawColumns lists the columns as they are, for an inner query.
func (r *reader) rawColumns() string {
	raw := "e." + strings.Join(columnNames[:], ", e.")
	if !r.row.headers {
		raw = strings.ReplaceAll(raw, "e.headers, ", "")
	}
	return raw
}
