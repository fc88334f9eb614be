package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/outbox-relay/outbox/operate"
)

// asked is what a column has to be; nil wants nothing.
type asked struct {
	column string
	value  *string
}

// equal is the condition for an expression to be a value, if there is one.
func (q *query) equal(expression string, value *string) []string {
	if value == nil {
		return nil
	}
	return []string{expression + " = " + q.param(*value, "text")}
}

// columnFilter is the condition on the columns of l that the query narrows; "" for none. column is the expression for one of them.
func (b *eventSQL) columnFilter(column func(string) string) string {
	var list []string
	for _, w := range []asked{
		{"topic", b.q.Topic}, {"partition_key", b.q.PartitionKey}, {"event_type", b.q.Type}, {"aggregate_type", b.q.AggregateType}, {"aggregate_id", b.q.AggregateID},
	} {
		list = append(list, b.equal(column(w.column), w.value)...)
	}
	created := column("created_at")
	if !b.q.CreatedFrom.IsZero() {
		list = append(list, created+" >= "+b.param(b.q.CreatedFrom, "timestamptz"))
	}
	if !b.q.CreatedUntil.IsZero() {
		list = append(list, created+" < "+b.param(b.q.CreatedUntil, "timestamptz"))
	}
	return strings.Join(append(list, b.ages(created, b.q.MinAge, b.q.MaxAge)...), " AND ")
}

// ages are the conditions for a time to be that long ago by the database's clock.
func (q *query) ages(column string, atLeast, atMost time.Duration) (list []string) {
	ago := func(d time.Duration) string {
		return "now() - " + q.param(d.Microseconds(), "float8") + " * interval '1 microsecond'"
	}
	if atLeast > 0 {
		list = append(list, column+" <= "+ago(atLeast))
	}
	if atMost > 0 {
		list = append(list, column+" >= "+ago(atMost))
	}
	return list
}

// holds is the condition for a part to be in one of the texts, in any case.
func (q *query) holds(part string, texts ...string) string {
	p := q.param(strings.ToLower(part), "text")
	list := make([]string, len(texts))
	for i, t := range texts {
		list[i] = "strpos(lower(coalesce(" + t + ", '')), " + p + ") > 0"
	}
	return "(" + strings.Join(list, " OR ") + ")"
}

// kept is the condition for a pause to keep the event s, or for a relay that is alive to hold its topic. Each of its tables is read once for all events.
func (b *eventSQL) kept() string {
	return fmt.Sprintf(`(EXISTS (SELECT FROM outbox.pause WHERE source = %[1]s AND scope = 'source')
    OR s.topic IN (SELECT topic FROM outbox.pause WHERE source = %[1]s AND scope = 'topic')
    OR (s.topic, s.partition_key) IN (SELECT topic, partition_key FROM outbox.pause WHERE source = %[1]s AND scope = 'key')
    OR s.topic IN (SELECT h.topic FROM outbox.held_topic h JOIN outbox.relay r USING (source, owner) WHERE h.source = %[1]s AND r.expires_at > now()))`, b.source())
}

// stateFilter is the condition on what is known of the rows s beside the table: their state, and their errors; "" for none.
func (b *eventSQL) stateFilter(st stream) string {
	var list []string
	switch state := b.q.State; {
	case st.dead:
	case state == operate.StateWaiting, st.named && (state == operate.StateParked || state == operate.StatePublished):
		list = append(list, "s.state = "+b.param(string(state), "text"))
	case state == operate.StateHeld:
		list = append(list, "s.state = 'pending'", b.kept())
	case state == operate.StateQueued:
		list = append(list, "s.state = 'pending'", "NOT "+b.kept())
	case st.named && state == operate.StatePending:
		list = append(list, "s.published_at IS NULL")
	}
	// A stream of what failed has decided it already.
	if b.q.Error != "" && st.ids == nil {
		list = append(list, b.holds(b.q.Error, "s.code", "s.error"))
	}
	return strings.Join(list, " AND ")
}
