package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// maxFinds is how many rows the holes may give in one read. A transaction of a million events that commits late exceeds it; then
	// everything unpublished is walked through in pages instead.
	maxFinds = 20_000
	// shortSpan is the longest span that is looked up by its single ids. The lookup of ids costs a fifth of a join on ranges; a
	// wide span, left by a rolled-back bulk insert, costs nothing as a range, because nothing unpublished is in it.
	shortSpan = 128
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
	// limit is how many rows are wanted; head and page are how many the parts pass for that, if it is more.
	limit, head, page int
	// look are the groups of holes to look at; skipped are those left out, if the answer's snapshot allows it.
	look, skipped []*group
	// walk is nil when there is none.
	walk *walk
	// noHead and beyond switch parts off and on.
	noHead, beyond bool
}

// rows is how many rows a part passes at most.
func (q *question) rows(kind int) int {
	switch kind {
	case kindHead:
		return max(q.limit, q.head)
	case kindPage:
		return max(q.limit, q.page)
	}
	return q.limit
}

// build writes the statement of the question. It is one statement, so everything in the answer is of one snapshot.
func (r *reader) build(q *question) *statement {
	s := &statement{}
	fmt.Fprintf(&s.text, `WITH seq AS MATERIALIZED (SELECT last_value - (NOT is_called)::integer AS top FROM %s)
SELECT %d AS kind, (SELECT top FROM seq), NULL::uuid, pg_relation_filenode(%s::text::regclass)::text,
    CASE WHEN NOT pg_is_in_recovery() THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer::text END,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text, pg_current_snapshot()::text, CASE WHEN %s THEN 'headers' END, pg_postmaster_start_time()`,
		r.row.Sequence, kindServer, s.param(pgtype.TextOID, r.row.Sequence), headersSQL(s, r.row.Table))
	if r.row.Aggregates {
		s.text.WriteString(", NULL::text, NULL::text")
	}
	r.addLooks(s, q)
	if q.walk != nil {
		r.addPage(s, kindPage, q, q.walk.pos, r.pos, r.walkFilter(s, q.walk))
	}
	switch {
	case q.noHead:
	case r.walking():
		r.addPage(s, kindHead, q, r.pos, r.cursor, and(r.startFilter(s, r.sieve), r.mine(s)))
	default:
		r.addHead(s, q)
	}
	if q.beyond {
		r.addBeyond(s, q)
	}
	return s
}

// addHead adds the newest rows, through the primary key. A row that is settled already, or another relay's, comes back as its id alone.
func (r *reader) addHead(s *statement, q *question) {
	r.addRows(s, kindHead, fmt.Sprintf("e.id > %s AND e.id <= (SELECT top FROM seq) ORDER BY e.id LIMIT %s", s.bigint(r.pos), s.bigint(int64(q.rows(kindHead)))))
}

// addRows adds rows of which only the unpublished ones of the reader's lanes are wanted whole.
func (r *reader) addRows(s *statement, kind int, where string) {
	if r.lanes.all() {
		fmt.Fprintf(&s.text, "\nUNION ALL (SELECT %d, e.id, %s FROM %s e WHERE %s)", kind, r.columnsIf(s, "e.published_at IS NULL"), r.table(), where)
		return
	}
	fmt.Fprintf(&s.text, "\nUNION ALL (SELECT %d, e.id, %s FROM (SELECT e.id, %s, CASE WHEN e.published_at IS NULL THEN %s END AS matches FROM %s e WHERE %s) e)",
		kind, r.columnsIf(s, "e.matches"), r.rawColumns(), r.lanes.within(r.row, s), r.table(), where)
}

// addBeyond adds rows that the sequence did not give: only the partial index leads to them.
func (r *reader) addBeyond(s *statement, q *question) {
	fmt.Fprintf(&s.text, `
UNION ALL (SELECT %d, e.id, %s FROM %s e WHERE e.published_at IS NULL AND %s ORDER BY e.id LIMIT %s)`,
		kindBeyond, r.columns(s), r.table(), and(above(s, r.beyond), "e.id > (SELECT top FROM seq)", r.mine(s)), s.bigint(int64(q.limit)))
}

// addPage adds the next unpublished rows in (after, upTo], through the partial index. Those that the filter leaves out come back as their ids alone.
func (r *reader) addPage(s *statement, kind int, q *question, after, upTo int64, filter string) {
	from := fmt.Sprintf("FROM %s e WHERE e.published_at IS NULL AND %s AND e.id <= %s ORDER BY e.id LIMIT %s",
		r.table(), above(s, after), s.bigint(upTo), s.bigint(int64(q.rows(kind))))
	if filter == "" {
		fmt.Fprintf(&s.text, "\nUNION ALL (SELECT %d, e.id, %s %s)", kind, r.columns(s), from)
		return
	}
	fmt.Fprintf(&s.text, "\nUNION ALL (SELECT %d, e.id, %s FROM (SELECT e.id, %s, %s AS matches %s) e)",
		kind, r.columnsIf(s, "e.matches"), r.rawColumns(), filter, from)
}

// above is the condition for a row to lie above a position; the lowest id there is lies above the beginning, too.
func above(s *statement, pos int64) string {
	if pos == beginning {
		return "e.id >= " + s.bigint(pos)
	}
	return "e.id > " + s.bigint(pos)
}

// addLooks adds what is now visible in the holes.
func (r *reader) addLooks(s *statement, q *question) {
	limit := maxFinds + 1
	ids, lo, hi := r.spansOf(q.look)
	r.count.looked += len(ids) + len(lo)
	if len(ids) > 0 {
		r.addRows(s, kindFind, fmt.Sprintf("e.id = ANY (%s) LIMIT %d", s.param(pgtype.Int8ArrayOID, ids), limit))
	}
	if len(lo) > 0 {
		r.addWideLooks(s, lo, hi, limit)
	}
	for _, g := range q.look {
		if g.below != 0 {
			r.addLookBelow(s, g, limit)
		}
	}
}

// addWideLooks adds what is unpublished in wide spans.
func (r *reader) addWideLooks(s *statement, lo, hi []int64, limit int) {
	from := fmt.Sprintf("FROM %s e WHERE e.published_at IS NULL AND e.id BETWEEN s.lo AND s.hi ORDER BY e.id LIMIT %d", r.table(), limit)
	rows := ""
	if r.lanes.all() {
		rows = fmt.Sprintf("SELECT e.id, %s %s", r.columns(s), from)
	} else {
		rows = fmt.Sprintf("SELECT e.id, %s FROM (SELECT e.id, %s, %s AS matches %s) e", r.columnsIf(s, "e.matches"), r.rawColumns(), r.lanes.within(r.row, s), from)
	}
	fmt.Fprintf(&s.text, `
UNION ALL (SELECT %d, e.* FROM unnest(%s::bigint[], %s::bigint[]) AS s(lo, hi) CROSS JOIN LATERAL (
    %s) e LIMIT %d)`,
		kindFind, s.param(pgtype.Int8ArrayOID, lo), s.param(pgtype.Int8ArrayOID, hi), rows, limit)
}

// addLookBelow adds what the writers that were open at Start have committed: rows below Start's cursor that are no older than those
// writers. xmin is the row's (sub)transaction, never older than its top-level one.
func (r *reader) addLookBelow(s *statement, g *group, limit int) {
	fmt.Fprintf(&s.text, `
UNION ALL (SELECT %d, e.id, %s FROM %s e WHERE e.published_at IS NULL AND e.id <= %s AND %s ORDER BY e.id LIMIT %d)`,
		kindFind, r.columns(s), r.table(), s.bigint(min(g.below, r.pos)), and(notOlder(s, g.since), r.startFilter(s, sieve{}), r.mine(s)), limit)
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

func (r *reader) table() string { return r.row.Table.SQL() }
