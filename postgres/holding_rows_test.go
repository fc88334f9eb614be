package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
)

// A table of some size is counted; of a larger one the statistics count, unless they are none, or of a time when it was small.
func TestTheNumberOfRowsIsNeverOneOfOldStatistics(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	o := newOperator(t, db)
	rows := func() string {
		h, err := o.Holding(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(h.RowsFrom, " ", h.Rows)
	}
	exec(t, db, `ALTER TABLE outbox_event SET (autovacuum_enabled = off)`)
	same(t, "an empty one", rows(), "counted 0")
	bulkInsert(t, db, rowsCounted)
	same(t, "a small one", rows(), "counted 100000")
	exec(t, db, `ANALYZE outbox_event`)
	bulkInsert(t, db, 5)
	exec(t, db, `SELECT pg_stat_reset()`)
	await.Until(t, "statistics of a smaller table are no number", func() bool { return rows() == "at_least 100000" })
	exec(t, db, `UPDATE pg_class SET reltuples = -1 WHERE oid = 'outbox_event'::regclass`)
	same(t, "without statistics", rows(), "at_least 100000")
	exec(t, db, `ANALYZE outbox_event`)
	// Sessions report what they have inserted when they like, also after the ANALYZE: the number may be higher.
	await.Until(t, "new statistics count", func() bool { return strings.HasPrefix(rows(), "statistics ") })
}

// The planner's estimate stays what it was until vacuum comes by; what was deleted is counted at once.
func TestTheNumberOfRowsFollowsADeletion(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	o := newOperator(t, db)
	rows := func() int64 {
		h, err := o.Holding(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return h.Rows
	}
	exec(t, db, `ALTER TABLE outbox_event SET (autovacuum_enabled = off)`)
	bulkInsert(t, db, 3000)
	await.Until(t, "the rows are counted", func() bool { return rows() == 3000 })
	exec(t, db, `DELETE FROM outbox_event WHERE id > 1000`)
	await.Until(t, "the deletion is counted", func() bool { return rows() == 1000 })
	exec(t, db, `DELETE FROM outbox_event`)
	await.Until(t, "none are left", func() bool { return rows() == 0 })
}
