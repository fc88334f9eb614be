package postgres

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/operate"
)

// stream is one place where events are listed from, each over an index in the order of the ids. A list takes the first of all its streams.
type stream struct {
	// name is in cursors.
	name string
	// what is for people.
	what string
	// refs writes the rows (id, event_id) of the stream's index, in order, from a position on.
	rows func(b *eventSQL) string
	// condition keeps rows of the outbox table out that the index does not know to be others; "" where it does.
	condition string
	// dead streams read from outbox.dead_event.
	dead bool
	// named streams hold what was named, and so end.
	named bool
	// sparse streams look at rows that are none of theirs: even without a filter a page of them needs a window.
	sparse bool
	// ids are the rows without their columns, to count a window; nil where the rows do.
	ids func(b *eventSQL) string
}

// windows are how many rows are looked at for one page when no index knows what is asked for. A dead event is looked at whole where a column of its own
// does not say enough, which costs more; a parked key has all that is asked for.
// For an event that waits, other tables decide for each row.
type windows struct{ events, waiting, dead, keys, topics int }

var defaultWindows = windows{events: 20_000, waiting: 10_000, dead: 10_000, keys: 20_000, topics: 30_000}

// settledStream is the name of the stream of what is settled, which is most of a table.
const settledStream = "s"

func tableStream(name, what, condition string) stream {
	return stream{name: name, what: what, condition: condition, rows: func(b *eventSQL) string {
		base := ""
		if name == "u" {
			base = "e.published_at IS NULL"
		}
		return fmt.Sprintf("SELECT e.id, %s FROM %s e WHERE %s ORDER BY e.id %s", b.tableColumns("e"), b.row.Table.SQL(),
			and(base, b.beyond("e.id", "e.event_id"), b.between("e.id")), b.direction())
	}, sparse: condition != ""}
}

// refStream is of events that a state table names by (id, event_id), in the order of an index there; the rows come one by one over the primary key.
func refStream(name, what string, tables ...string) stream {
	ids := func(b *eventSQL) string { return b.refsOf(tables) }
	return stream{name: name, what: what, sparse: true, ids: ids, condition: "l.topic IS NOT NULL", rows: func(b *eventSQL) string {
		// OFFSET 0 keeps it a look at one row after the other: joined as a set, the table would be read whole.
		return fmt.Sprintf(`SELECT d.id, d.event_id, %s FROM (%s LIMIT %s) d LEFT JOIN LATERAL (
    SELECT %s FROM %s e WHERE d.hit AND e.id = d.id AND e.event_id = d.event_id AND e.published_at IS NULL OFFSET 0) t ON true
ORDER BY d.id %[6]s, d.event_id %[6]s`, "t."+strings.Join(tableNames[1:], ", t."), ids(b), b.window, b.tableColumns("e"), b.row.Table.SQL(), b.direction())
	}}
}

// errorsOf are the columns with what went wrong.
var errorsOf = map[string][]string{"parked_key": {"x.code", "x.reason"}, "failure": {"x.first_error", "x.last_error"}}

// refsOf are the events that the state tables name, each with whether those tables leave it in: that is cheaper than to fetch the event first.
func (b *eventSQL) refsOf(tables []string) string {
	parts := make([]string, len(tables))
	for i, table := range tables {
		hit := append(b.equal("x.topic", b.q.Topic), b.equal("x.partition_key", b.q.PartitionKey)...)
		if b.q.Error != "" {
			hit = append(hit, b.holds(b.q.Error, errorsOf[table]...))
		}
		parts[i] = fmt.Sprintf("(SELECT x.id, x.event_id, %s AS hit FROM outbox.%s x WHERE %s ORDER BY x.id %[4]s, x.event_id %[4]s LIMIT %[5]s)", and(append(hit, "true")...), table,
			and("x.source = "+b.source(), b.beyond("x.id", "x.event_id"), b.between("x.id")), b.direction(), b.window)
	}
	return fmt.Sprintf("SELECT id, event_id, bool_or(hit) AS hit FROM (%s) n GROUP BY id, event_id ORDER BY id %[2]s, event_id %[2]s", strings.Join(parts, " UNION ALL "), b.direction())
}

func deadStream() stream {
	return stream{name: "d", what: "dead events", dead: true, rows: func(b *eventSQL) string {
		return fmt.Sprintf("SELECT %s FROM outbox.dead_event x WHERE %s ORDER BY x.id %[3]s, x.event_id %[3]s", deadColumns,
			and("x.source = "+b.source(), b.beyond("x.id", "x.event_id"), b.between("x.id")), b.direction())
	}}
}

// namedStream is of the rows that have one of the ids.
func namedStream() stream {
	return stream{name: "n", named: true, rows: func(b *eventSQL) string {
		return b.named(fmt.Sprintf("SELECT e.id, %s FROM %s e WHERE", b.tableColumns("e"), b.row.Table.SQL()), "e", "true")
	}}
}

func namedDeadStream() stream {
	return stream{name: "x", named: true, dead: true, rows: func(b *eventSQL) string {
		return b.named("SELECT "+deadColumns+" FROM outbox.dead_event x WHERE", "x", "x.source = "+b.source())
	}}
}

// named looks by the two indexes one after the other.
func (b *eventSQL) named(from, alias, condition string) string {
	ids, events := b.refs()
	id, eventID := alias+".id", alias+".event_id"
	both := and(condition, b.beyond(id, eventID), b.between(id))
	return fmt.Sprintf("SELECT * FROM (%[1]s %[2]s = ANY (%[3]s) AND %[4]s UNION ALL %[1]s %[5]s = ANY (%[6]s) AND %[2]s <> ALL (%[3]s) AND %[4]s) n ORDER BY id %[7]s, event_id %[7]s",
		from, id, ids, both, eventID, events, b.direction())
}

// streamsOf says where the events of a query are.
func streamsOf(f operate.EventFilter) []stream {
	var streams []stream
	alive, dead := f.State != operate.StateDead, f.State == operate.StateDead || f.State == operate.StateAny
	switch {
	case len(f.Refs) > 0:
		if alive {
			streams = append(streams, namedStream())
		}
		if dead {
			streams = append(streams, namedDeadStream())
		}
		return streams
	case !alive:
	case f.State == operate.StateParked:
		streams = append(streams, refStream("p", "parked events", "parked_key"))
	case f.Error != "" && f.State == operate.StateWaiting:
		// What is parked does not wait, it stops.
		streams = append(streams, refStream("f", "events that failed", "failure"))
	case f.Error != "" && f.State != operate.StatePublished:
		streams = append(streams, refStream("t", "events that failed", "parked_key", "failure"))
	case f.Error != "":
		// What is settled has left no error.
	case f.State == operate.StatePublished:
		streams = append(streams, tableStream(settledStream, "events", "l.published_at IS NOT NULL"))
	case f.State == operate.StatePending || f.State.Decided():
		streams = append(streams, tableStream("u", "unpublished events", ""))
	case filtered(f):
		streams = append(streams, tableStream("u", "unpublished events", ""), tableStream(settledStream, "events", "l.published_at IS NOT NULL"))
	default:
		streams = append(streams, tableStream("a", "events", ""))
	}
	if dead {
		streams = append(streams, deadStream())
	}
	return streams
}

// filtered tells that a column decides that no index of the outbox table knows.
func filtered(f operate.EventFilter) bool {
	return f.Topic != nil || f.PartitionKey != nil || f.Type != nil || f.AggregateType != nil || f.AggregateID != nil ||
		!f.CreatedFrom.IsZero() || !f.CreatedUntil.IsZero() || f.MinAge > 0 || f.MaxAge > 0
}

// names returns the streams' names.
func names(streams []stream) []string {
	list := make([]string, len(streams))
	for i, s := range streams {
		list[i] = s.name
	}
	return list
}

// eventSQL writes the statements of one stream.
type eventSQL struct {
	query
	survey
	q    operate.EventQuery
	from *position
	// window is the expression for how many rows are looked at.
	window string
	id     string
}

func (b *eventSQL) source() string {
	if b.id == "" {
		b.id = b.param(b.row.ID, "uuid")
	}
	return b.id
}

func (b *eventSQL) direction() string {
	if b.q.Order == operate.NewestFirst {
		return "DESC"
	}
	return "ASC"
}

// beyond is the condition for a row to come behind the position; its first half is for the index.
func (b *eventSQL) beyond(id, eventID string) string {
	if b.from == nil {
		return ""
	}
	compare := ">"
	if b.q.Order == operate.NewestFirst {
		compare = "<"
	}
	last := b.param(b.from.ID, "bigint")
	return fmt.Sprintf("%[1]s %[2]s= %[3]s AND (%[1]s, coalesce(%[4]s, %[5]s)) %[2]s (%[3]s, %[6]s)", id, compare, last, eventID, nilUUID, b.param(b.from.EventID, "uuid"))
}

func (b *eventSQL) between(id string) string {
	var bounds []string
	if b.q.MinID != 0 {
		bounds = append(bounds, id+" >= "+b.param(b.q.MinID, "bigint"))
	}
	if b.q.MaxID != 0 {
		bounds = append(bounds, id+" <= "+b.param(b.q.MaxID, "bigint"))
	}
	if len(bounds) == 0 {
		return "true"
	}
	return strings.Join(bounds, " AND ")
}

func (b *eventSQL) refs() (ids, events string) {
	var numbers []int64
	var texts []string
	for _, r := range b.q.Refs {
		if r.EventID != uuid.Nil {
			texts = append(texts, r.EventID.String())
		} else {
			numbers = append(numbers, r.ID)
		}
	}
	// An empty list must not become NULL, of which nothing is true, nor its contrary.
	return b.param(append([]int64{}, numbers...), "bigint[]"), b.param(append([]string{}, texts...), "text[]::uuid[]")
}

var nilUUID = "'" + uuid.Nil.String() + "'::uuid"

// tableNames are the columns of a row in the statements, beside its id.
var tableNames = []string{"event_id", "topic", "partition_key", "event_type", "aggregate_type", "aggregate_id", "created_at", "published_at"}

// tableColumns are they, of the outbox table: whatever the types that its owner chose.
func (b *eventSQL) tableColumns(alias string) string {
	list := []string{"coalesce(" + alias + ".event_id, " + nilUUID + ") AS event_id"}
	for _, name := range tableNames[1:6] {
		text := "''"
		if b.has(name) {
			text = "coalesce(" + alias + "." + name + "::text, '')"
		}
		list = append(list, text+" AS "+name)
	}
	return strings.Join(append(list, alias+".created_at", alias+".published_at"), ", ")
}

// deadColumns are those of a dead event. What is in the row that was moved whole is taken out of it as late as possible: it may be large.
const deadColumns = "x.id, x.event_id, x.topic, x.partition_key, x.event, x.code, x.reason, x.attempts, x.died_at, x.letter_topic"

// deadColumn is the expression for a column of the outbox table, of a dead event l.
func deadColumn(name string) string {
	switch name {
	case "topic", "partition_key":
		return "l." + name
	case "created_at":
		return "(l.event->>'created_at')::timestamptz"
	}
	return "coalesce(l.event->>'" + name + "', '')"
}
