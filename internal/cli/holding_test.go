package cli

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox/postgres/retention"
)

func TestRetentionIsToldOfEachKind(t *testing.T) {
	t.Parallel()
	settled := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, h := range map[string]retention.Holding{
		"none": {},
		"NONE: nothing deletes settled events, so the table grows: outbox relay --retain 168h, or outbox prune": {OldestSettled: settled},
		"r1 deletes settled events after 1m0s": {Retained: true, By: "r1", OlderThan: time.Minute},
		"r1 deletes settled events after 1m0s, but the newest 7; dead events after 2h0m0s; audit, jobs and requests after 3h0m0s":                                 {Retained: true, By: "r1", OlderThan: time.Minute, Keep: 7, DeadOlderThan: 2 * time.Hour, AuditOlderThan: 3 * time.Hour},
		"NONE: nothing deletes settled events, so the table grows: outbox relay --retain 168h, or outbox prune; r1 deletes audit, jobs and requests after 3h0m0s": {OldestSettled: settled, By: "r1", AuditOlderThan: 3 * time.Hour},
	} {
		if got := retentionText(h); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTheNumberOfRowsSaysHowItIsKnown(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]retention.Holding{
		"12,345 rows": {Rows: 12_345, RowsFrom: retention.RowsCounted},
		"about 9,876,543 rows by the server's statistics":                                                       {Rows: 9_876_543, RowsFrom: retention.RowsEstimated},
		"more than 100,000 rows: the server's statistics are missing or old; ANALYZE makes them anew":           {Rows: 100_000, RowsFrom: retention.RowsAtLeast},
		"rows unknown: they could not be counted in time, and the server has no statistics; ANALYZE makes them": {RowsFrom: retention.RowsUnknown},
	} {
		if got := rowsText(h); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
