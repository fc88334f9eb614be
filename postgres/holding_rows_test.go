package postgres

import (
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
)

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
