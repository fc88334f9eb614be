package inbox

import (
	"slices"
	"strings"
)

// Every statement here works with every driver: its parameters are texts and numbers. The tables are those of the schema outbox; `outbox migrate up` makes them.
const (
	// transaction is the id of the transaction, as the rows have it that it writes.
	transaction = `(txid_current() % 4294967296)::text`
	// The row is there before the handler runs, so that of two that come at the same time the second waits for what becomes of the first.
	claimOneSQL = `INSERT INTO outbox.inbox (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING ` + transaction + ` || ' ' || event_id`
	// The array is in order: two that have the same ids do not wait for each other.
	claimSQL = `INSERT INTO outbox.inbox (consumer, event_id)
SELECT $1::text, unnest($2::text::text[]) ON CONFLICT DO NOTHING RETURNING ` + transaction + ` || ' ' || event_id`
	unclaimSQL  = `DELETE FROM outbox.inbox WHERE consumer = $1 AND event_id = $2`
	takeBackSQL = `DELETE FROM outbox.inbox WHERE consumer = $1 AND event_id = ANY ($2::text::text[]) AND xmin::text = $3 RETURNING event_id`
	currentSQL  = `SELECT ` + transaction
	// A record of another event at the same place is another one: its topic was made anew.
	failedSQL = `INSERT INTO outbox.inbox_failure AS f (consumer, topic, partition, record_offset, event_id, event_type, first_error, last_error)
VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
ON CONFLICT (consumer, topic, partition, record_offset)
DO UPDATE SET attempts = CASE WHEN f.event_id = excluded.event_id THEN f.attempts + 1 ELSE 1 END,
    first_error = CASE WHEN f.event_id = excluded.event_id THEN f.first_error ELSE excluded.first_error END,
    first_failed_at = CASE WHEN f.event_id = excluded.event_id THEN f.first_failed_at ELSE excluded.first_failed_at END,
    event_id = excluded.event_id, event_type = excluded.event_type, last_error = excluded.last_error, last_failed_at = excluded.last_failed_at
RETURNING attempts::text`
	pruneSQL = `DELETE FROM outbox.inbox WHERE ctid = ANY (ARRAY(
    SELECT i.ctid FROM outbox.inbox i WHERE i.consumer = $1 AND i.handled_at < now() - $2::float8 * interval '1 second'
    ORDER BY i.handled_at LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING ''`
	pruneFailuresSQL = `DELETE FROM outbox.inbox_failure WHERE consumer = $1 AND last_failed_at < now() - $2::float8 * interval '1 second'`
	settledSQL       = `DELETE FROM outbox.inbox_failure WHERE consumer = $1 AND topic = $2 AND partition = $3 AND record_offset = $4`
)

// array is a list of texts as a parameter of a statement, in the order of their bytes.
func array(list []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var b strings.Builder
	b.WriteByte('{')
	for i, s := range slices.Sorted(slices.Values(list)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		_, _ = escape.WriteString(&b, s) // a strings.Builder never fails
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// unclaimed marks which of the ids came back from claimSQL. Of an id that is given twice only the first is new.
func unclaimed(ids, returned []string) []bool {
	left := make(map[string]struct{}, len(returned))
	for _, id := range returned {
		left[id] = struct{}{}
	}
	fresh := make([]bool, len(ids))
	for i, id := range ids {
		if _, fresh[i] = left[id]; fresh[i] {
			delete(left, id)
		}
	}
	return fresh
}
