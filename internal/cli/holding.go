package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres/retention"
)

// statusWithHolding is the status with what the table holds, in one object.
type statusWithHolding struct {
	statusObject
	holdingObject
	LetterTopics []operate.LetterTopic `json:"letter_topics"`
}

// holdingObject is null where nothing is known or nobody deletes.
type holdingObject struct {
	TableBytes              int64            `json:"table_bytes"`
	TableRows               int64            `json:"table_rows_estimate"`
	TableRowsFrom           string           `json:"table_rows_from"`
	OldestSettled           *time.Time       `json:"oldest_settled_at"`
	OldestSettledAgeSeconds float64          `json:"oldest_settled_age_seconds"`
	Retention               *retentionObject `json:"retention"`
	Pruned                  int64            `json:"pruned_total"`
	PrunedAt                *time.Time       `json:"pruned_at"`
}

type retentionObject struct {
	By               string  `json:"by"`
	OlderThanSeconds float64 `json:"older_than_seconds"`
	Keep             int64   `json:"keep"`
	// 0 where nobody deletes them.
	DeadOlderThanSeconds  float64 `json:"dead_older_than_seconds"`
	AuditOlderThanSeconds float64 `json:"audit_older_than_seconds"`
}

func holdingJSON(h retention.Holding) holdingObject {
	o := holdingObject{
		TableBytes: h.Bytes, TableRows: h.Rows, TableRowsFrom: string(h.RowsFrom), OldestSettled: timeOrNull(h.OldestSettled), OldestSettledAgeSeconds: h.OldestSettledAge.Seconds(),
		Pruned: h.Pruned, PrunedAt: timeOrNull(h.PrunedAt),
	}
	if h.Retained || h.DeadOlderThan > 0 || h.AuditOlderThan > 0 {
		o.Retention = &retentionObject{h.By, h.OlderThan.Seconds(), h.Keep, h.DeadOlderThan.Seconds(), h.AuditOlderThan.Seconds()}
	}
	return o
}

func printHolding(w io.Writer, h retention.Holding) {
	fmt.Fprintf(w, "table size\t%s, %s\n", size(h.Bytes), rowsText(h))
	oldest := "-"
	if !h.OldestSettled.IsZero() {
		oldest = moment(h.OldestSettled)
	}
	fmt.Fprintf(w, "oldest settled\t%s\n", oldest)
	fmt.Fprintf(w, "retention\t%s\n", retentionText(h))
}

// rowsText says how many rows there are, and how that is known.
func rowsText(h retention.Holding) string {
	switch h.RowsFrom {
	case retention.RowsCounted:
		return grouped(h.Rows) + " rows"
	case retention.RowsAtLeast:
		return fmt.Sprintf("more than %s rows: the server's statistics are missing or old; ANALYZE makes them anew", grouped(h.Rows))
	case retention.RowsEstimated:
		return fmt.Sprintf("about %s rows by the server's statistics", grouped(h.Rows))
	}
	return "rows unknown: they could not be counted in time, and the server has no statistics; ANALYZE makes them"
}

// retentionText says who deletes settled events, or that nobody does, and what of the other kinds is deleted.
func retentionText(h retention.Holding) string {
	var others []string
	if h.DeadOlderThan > 0 {
		others = append(others, fmt.Sprintf("dead events after %s", h.DeadOlderThan))
	}
	if h.AuditOlderThan > 0 {
		others = append(others, fmt.Sprintf("audit, jobs and requests after %s", h.AuditOlderThan))
	}
	switch {
	case h.Retained:
		text := fmt.Sprintf("%s deletes settled events after %s", printable(h.By), h.OlderThan)
		if h.Keep > 0 {
			text += fmt.Sprintf(", but the newest %d", h.Keep)
		}
		return strings.Join(append([]string{text}, others...), "; ")
	case len(others) > 0:
		return fmt.Sprintf("%s; %s deletes %s", settledText(h), printable(h.By), strings.Join(others, ", "))
	}
	return settledText(h)
}

// settledText is for settled events that no relay deletes.
func settledText(h retention.Holding) string {
	switch {
	case !h.PrunedAt.IsZero() && !h.Endless():
		return "no relay deletes settled events; last pruned " + moment(h.PrunedAt)
	case h.OldestSettled.IsZero():
		return "none"
	}
	return "NONE: nothing deletes settled events, so the table grows: outbox relay --retain 168h, or outbox prune"
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, letter := float64(n)/unit, 0
	for value >= unit && letter < 4 {
		value, letter = value/unit, letter+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[letter])
}
