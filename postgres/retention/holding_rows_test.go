package retention

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/expect"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// A table of some size is counted; of a larger one the statistics count, unless they are none, or of a time when it was small.
func TestTheNumberOfRowsIsNeverOneOfOldStatistics(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	o := newPruner(t, db)
	rows := func() string {
		h, err := o.Holding(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(h.RowsFrom, " ", h.Rows)
	}
	pgtest.Exec(t, db, `ALTER TABLE outbox_event SET (autovacuum_enabled = off)`)
	expect.Same(t, "an empty one", rows(), "counted 0")
	settledRows(t, db, rowsCounted, 0, "true")
	expect.Same(t, "a small one", rows(), "counted 100000")
	pgtest.Exec(t, db, `ANALYZE outbox_event`)
	settledRows(t, db, 5, 0, "true")
	pgtest.Exec(t, db, `SELECT pg_stat_reset()`)
	await.Until(t, "statistics of a smaller table are no number", func() bool { return rows() == "at_least 100000" })
	pgtest.Exec(t, db, `UPDATE pg_class SET reltuples = -1 WHERE oid = 'outbox_event'::regclass`)
	expect.Same(t, "without statistics", rows(), "at_least 100000")
	pgtest.Exec(t, db, `ANALYZE outbox_event`)
	// Sessions report what they have inserted when they like, also after the ANALYZE: the number may be higher.
	await.Until(t, "new statistics count", func() bool { return strings.HasPrefix(rows(), "statistics ") })
}

// The planner's estimate stays what it was until vacuum comes by; what was deleted is counted at once.
func TestTheNumberOfRowsFollowsADeletion(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	o := newPruner(t, db)
	rows := func() int64 {
		h, err := o.Holding(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return h.Rows
	}
	pgtest.Exec(t, db, `ALTER TABLE outbox_event SET (autovacuum_enabled = off)`)
	settledRows(t, db, 3000, 0, "true")
	await.Until(t, "the rows are counted", func() bool { return rows() == 3000 })
	pgtest.Exec(t, db, `DELETE FROM outbox_event WHERE id > 1000`)
	await.Until(t, "the deletion is counted", func() bool { return rows() == 1000 })
	pgtest.Exec(t, db, `DELETE FROM outbox_event`)
	await.Until(t, "none are left", func() bool { return rows() == 0 })
}
