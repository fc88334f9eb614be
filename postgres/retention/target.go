package retention

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/pg"
)

// parameters collects the values of a statement.
type parameters []any

// add returns the value's name in the statement.
func (p *parameters) add(value any) string {
	*p = append(*p, value)
	return "$" + strconv.Itoa(len(*p))
}

// ago is the moment that was so long before the statement's transaction, by the database's clock.
func (p *parameters) ago(age time.Duration) string {
	return "now() - " + p.add(age.Microseconds()) + "::bigint * interval '1 microsecond'"
}

// pruneTarget is a table of which rows are deleted, told as expressions over its alias t. Every one of them has a column id that its primary key begins with, behind the source.
type pruneTarget struct {
	// what names its rows in errors.
	what string
	// table is the quoted name.
	table string
	// source is the rows' source, of a table that has such a column.
	source *uuid.UUID
	// doomed tells that a row may be deleted. young, that it will be later, as all behind it will.
	doomed, young func(*parameters) string
	// settledAt is the moment from which a row's age is counted.
	settledAt string
	// skipLocked leaves rows alone that somebody has locked; else they are waited for, a little. It needs the right to update.
	skipLocked bool
}

// aheadOfTime is how far in the future a writer's clock may be until it is called broken.
const aheadOfTime = "interval '1 day'"

// eventTarget are settled events of at least that age. Nothing that is unpublished is ever one: published_at is NULL then, and NULL is not less than anything.
//
// A row is young by created_at, which follows the ids, and not by published_at: what waited for weeks and was settled today lies among rows that are
// to go, and must not end a walk.
func eventTarget(table pg.Table, age func() time.Duration) pruneTarget {
	t := pruneTarget{what: "settled events", table: table.SQL(), settledAt: "t.published_at", skipLocked: true}
	t.doomed = func(p *parameters) string {
		if age() <= 0 {
			return "t.published_at IS NOT NULL"
		}
		return "t.published_at < " + p.ago(age())
	}
	t.young = func(p *parameters) string {
		if age() <= 0 {
			return "false"
		}
		return "t.created_at >= " + p.ago(age()) + " AND t.created_at < now() + " + aheadOfTime
	}
	return t
}

// stateTarget are rows of schema outbox of which all those moments are longer ago than age.
func stateTarget(what, table string, source uuid.UUID, age func() time.Duration, since string, also ...string) pruneTarget {
	return pruneTarget{
		what: what, table: table, source: &source, settledAt: since,
		doomed: func(p *parameters) string {
			return strings.Join(append([]string{since + " < " + p.ago(age())}, also...), " AND ")
		},
		young: func(*parameters) string { return "false" },
	}
}

func deadTarget(source uuid.UUID, age func() time.Duration) pruneTarget {
	t := stateTarget("dead events", "outbox.dead_event", source, age, "t.died_at")
	t.skipLocked = true
	return t
}

// auditTarget are the rows that were completed, and those that nobody has completed in all that time.
func auditTarget(source uuid.UUID, age func() time.Duration) pruneTarget {
	return stateTarget("the audit", "outbox.audit", source, age, "coalesce(t.ended_at, t.at)")
}

func requestTarget(source uuid.UUID, age func() time.Duration) pruneTarget {
	return stateTarget("requests", "outbox.request", source, age, "t.done_at")
}

// jobTarget are the jobs that have ended, and those that nobody has run in all that time.
func jobTarget(source uuid.UUID, age func() time.Duration) pruneTarget {
	return stateTarget("jobs", "outbox.job", source, age, "coalesce(t.ended_at, t.seen_at)", "NOT "+pg.JobGoesOn("t"))
}

// within is the condition for a range of ids.
func (t pruneTarget) within(p *parameters, after, last int64) string {
	condition := "t.id > " + p.add(after) + "::bigint AND t.id <= " + p.add(last) + "::bigint"
	if t.source != nil {
		condition = "t.source = " + p.add(*t.source) + "::uuid AND " + condition
	}
	return condition
}

// lookSQL counts the first rows of a range, at most limit: all, the last id, those that may go with the age of the oldest in microseconds, those that are young.
func (t pruneTarget) lookSQL(after, last int64, limit int) (string, parameters) {
	p := &parameters{}
	return `SELECT count(*), coalesce(max(id), 0), count(*) FILTER (WHERE doomed), count(*) FILTER (WHERE young),
    coalesce((extract(epoch FROM now() - min(since) FILTER (WHERE doomed AND isfinite(since))) * 1000000)::bigint, 0)
FROM (SELECT t.id, ` + t.doomed(p) + ` AS doomed, ` + t.young(p) + ` AS young, ` + t.settledAt + ` AS since
    FROM ` + t.table + ` t WHERE ` + t.within(p, after, last) + ` ORDER BY t.id LIMIT ` + p.add(limit) + `) page`, *p
}

// deleteSQL deletes what may go in a range. It says all conditions twice: what was locked may be another row by then.
func (t pruneTarget) deleteSQL(after, last int64) (string, parameters) {
	p := &parameters{}
	condition := t.within(p, after, last) + " AND " + t.doomed(p)
	sql := "DELETE FROM " + t.table + " t WHERE " + condition
	if t.skipLocked {
		sql += " AND t.id = ANY (ARRAY(SELECT t.id FROM " + t.table + " t WHERE " + condition + " ORDER BY t.id FOR UPDATE OF t SKIP LOCKED))"
	}
	return sql, *p
}

// ends finds the lowest and the highest id; both NULL in an empty table.
func (t pruneTarget) endsSQL() (string, parameters) {
	p := &parameters{}
	where := ""
	if t.source != nil {
		where = " WHERE t.source = " + p.add(*t.source) + "::uuid"
	}
	return "SELECT (SELECT t.id FROM " + t.table + " t" + where + " ORDER BY t.id LIMIT 1), (SELECT t.id FROM " + t.table + " t" + where + " ORDER BY t.id DESC LIMIT 1)", *p
}
