package operate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// State is where an event is.
type State string

// The states of an event, and those that a query may ask for. In a query, pending is everything unpublished, as in the status: parked and
// waiting events are part of it. Of one event the state is the most telling one.
const (
	// StatePending: unpublished, and nothing known of the event itself or its key keeps it.
	StatePending State = "pending"
	// StateParked: it stops its key.
	StateParked State = "parked"
	// StateWaiting: it is behind the event that stops its key, or it or one before it in the key waits for its next attempt.
	StateWaiting State = "waiting"
	// StatePublished: it is in Kafka, and settled.
	StatePublished State = "published"
	// StateDead: it was given up, and is kept in outbox.dead_event.
	StateDead State = "dead"
	// StateHeld, StateQueued and StateAny are for queries only. The first two are the pending ones that are neither parked nor waiting: StateHeld those that a pause keeps, or to
	// whose topic a relay can publish nothing, StateQueued the others.
	StateHeld   State = "held"
	StateQueued State = "queued"
	StateAny    State = "any"
)

// Decided tells that other tables than that of the events decide of each event whether it has the state.
func (s State) Decided() bool { return s == StateWaiting || s == StateHeld || s == StateQueued }

// ParseState reads a state of a query; "" is any.
func ParseState(s string) (State, error) {
	switch state := State(strings.ToLower(s)); state {
	case "":
		return StateAny, nil
	case StatePending, StateParked, StateWaiting, StateHeld, StateQueued, StatePublished, StateDead, StateAny:
		return state, nil
	}
	return "", Refuse(CodeInvalid, "state %q: want pending, parked, waiting, held, queued, published, dead or any", s)
}

// Order is the order of a list.
type Order string

// The orders, by id.
const (
	NewestFirst Order = "newest"
	OldestFirst Order = "oldest"
)

// Ref names an event by one of its ids, or by both: an id alone may be issued again after a crash of the database.
type Ref struct {
	// ID is the row's id; 0 when only the event's id is known.
	ID int64 `json:"id,string,omitempty"`
	// EventID is the event's id for consumers; zero when only the row's id is known.
	EventID uuid.UUID `json:"event_id,omitzero"`
}

// ParseRef reads a row's id or an event's id.
func ParseRef(s string) (Ref, error) {
	if id, err := strconv.ParseInt(s, 10, 64); err == nil && id != 0 {
		return Ref{ID: id}, nil
	}
	// The parser knows more forms than anybody means here.
	if id, err := uuid.Parse(s); err == nil && len(s) == len(id.String()) && id != uuid.Nil {
		return Ref{EventID: id}, nil
	}
	return Ref{}, Refuse(CodeInvalid, "event %q: %swant the whole id of a row, such as 4711, or of an event, such as 0190f6c2-7d1e-7a55-8f0e-2f3c9a3d5b11", s, wrongRef(s))
}

// wrongRef says what is wrong with an id that looks like one; "" of any other text.
func wrongRef(s string) string {
	id, err := strconv.ParseInt(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "no row has so large an id; "
	case err == nil && id == 0, s == uuid.Nil.String():
		return "no event has this id; "
	}
	return ""
}

func (r Ref) String() string {
	switch {
	case r.EventID == uuid.Nil:
		return strconv.FormatInt(r.ID, 10)
	case r.ID == 0:
		return r.EventID.String()
	}
	return fmt.Sprintf("%d (%s)", r.ID, r.EventID)
}

func (r Ref) validate() error {
	if r.ID == 0 && r.EventID == uuid.Nil {
		return Refuse(CodeInvalid, "no event is named: want the id of a row or of an event")
	}
	return nil
}

// The page sizes.
const (
	DefaultPage = 50
	MaxPage     = 500
	// MaxRefs is how many events one query may name.
	MaxRefs = 1000
)

// EventFilter says which events are meant. The zero value means all; each field narrows. It is what a bulk change keeps as its filter.
type EventFilter struct {
	// State is any when empty.
	State State `json:"state,omitempty"`
	// Refs are events by name: those that have one of these ids.
	Refs         []Ref   `json:"events,omitempty"`
	Topic        *string `json:"topic,omitempty"`
	PartitionKey *string `json:"partition_key,omitempty"`
	Type         *string `json:"event_type,omitempty"`
	// AggregateType and AggregateID are as in the table.
	AggregateType *string `json:"aggregate_type,omitempty"`
	AggregateID   *string `json:"aggregate_id,omitempty"`
	// CreatedFrom and CreatedUntil bound created_at; the second is excluded. MinAge and MaxAge do the same by the database's clock.
	CreatedFrom  time.Time     `json:"created_from,omitzero"`
	CreatedUntil time.Time     `json:"created_until,omitzero"`
	MinAge       time.Duration `json:"min_age_ns,omitempty"`
	MaxAge       time.Duration `json:"max_age_ns,omitempty"`
	// MinID and MaxID bound the row's id, both included; 0 bounds nothing.
	MinID int64 `json:"min_id,string,omitempty"`
	MaxID int64 `json:"max_id,string,omitempty"`
	// Error is a part of an error, code or reason, in any case. It leaves out events that never failed.
	Error string `json:"error,omitempty"`
}

// EventQuery asks for a page of events.
type EventQuery struct {
	EventFilter
	// Order is newest first when empty.
	Order Order
	// After is the cursor of the page before; "" begins.
	After string
	// Limit is the size of the page, 1 to [MaxPage]; 0 is [DefaultPage].
	Limit int
}

func (q EventQuery) normalized() (EventQuery, error) {
	var err, problems error
	if q.State, err = ParseState(string(q.State)); err != nil {
		problems = err
	}
	if q.Limit, err = pageSize(q.Limit); err != nil {
		problems = errors.Join(problems, err)
	}
	switch q.Order {
	case "":
		q.Order = NewestFirst
	case NewestFirst, OldestFirst:
	default:
		problems = errors.Join(problems, Refuse(CodeInvalid, "order %q: want newest or oldest", q.Order))
	}
	if problems = errors.Join(problems, q.EventFilter.validate()); problems != nil {
		return EventQuery{}, &Error{Code: CodeInvalid, Text: "list events", Err: problems}
	}
	return q, nil
}

func (f EventFilter) validate() error {
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, Refuse(CodeInvalid, format, args...)) }
	if len(f.Refs) > MaxRefs {
		problem("%d events are named: want %d at most", len(f.Refs), MaxRefs)
	}
	for _, r := range f.Refs {
		if err := r.validate(); err != nil {
			problems = append(problems, err)
		}
	}
	for _, text := range []struct {
		name  string
		value *string
	}{
		{"topic", f.Topic}, {"key", f.PartitionKey}, {"type", f.Type}, {"aggregate type", f.AggregateType}, {"aggregate id", f.AggregateID}, {"error text", &f.Error},
	} {
		if text.value != nil && !storable(*text.value) {
			problem("%s %q: no event has such a text: it is no UTF-8, or holds a NUL", text.name, *text.value)
		}
	}
	switch {
	case f.MinAge < 0 || f.MaxAge < 0:
		problem("an age is negative: no event is from the future")
	case f.MinAge > 0 && f.MaxAge > 0 && f.MinAge > f.MaxAge:
		problem("no event is older than %s and younger than %s", f.MinAge, f.MaxAge)
	}
	if !f.CreatedFrom.IsZero() && !f.CreatedUntil.IsZero() && !f.CreatedFrom.Before(f.CreatedUntil) {
		problem("no event is from %s on and before %s", f.CreatedFrom.UTC().Format(time.RFC3339), f.CreatedUntil.UTC().Format(time.RFC3339))
	}
	for _, t := range []time.Time{f.CreatedFrom, f.CreatedUntil} {
		if year := t.UTC().Year(); !t.IsZero() && (year < 1 || year > 9999) {
			problem("year %d: want 1 to 9999", year)
		}
	}
	if f.MinID != 0 && f.MaxID != 0 && f.MinID > f.MaxID {
		problem("no id is from %d to %d", f.MinID, f.MaxID)
	}
	return errors.Join(problems...)
}

// storable tells whether PostgreSQL could hold the text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func pageSize(n int) (int, error) {
	switch {
	case n == 0:
		return DefaultPage, nil
	case n < 0 || n > MaxPage:
		return 0, Refuse(CodeInvalid, "limit %d: want 1 to %d", n, MaxPage)
	}
	return n, nil
}

// Event is a line of a list.
type Event struct {
	ID            int64     `json:"id,string"`
	EventID       uuid.UUID `json:"event_id"`
	State         State     `json:"state"`
	Topic         string    `json:"topic"`
	PartitionKey  string    `json:"partition_key"`
	Type          string    `json:"event_type"`
	AggregateType string    `json:"aggregate_type"`
	AggregateID   string    `json:"aggregate_id"`
	// CreatedAt is the start of the writer's transaction; zero when the row has no time that a clock could show.
	CreatedAt   time.Time `json:"created_at,omitzero"`
	PublishedAt time.Time `json:"published_at,omitzero"`
	// Since is when it was parked or given up.
	Since time.Time `json:"since,omitzero"`
	// Attempts, Code and Error tell of failures; Code is "" where only a text is known.
	Attempts int    `json:"attempts"`
	Code     string `json:"code,omitempty"`
	Error    string `json:"error,omitempty"`
	// LetterTopic is the dead-letter topic that a dead one was sent to; "" when it was sent to none.
	LetterTopic string `json:"letter_topic,omitempty"`
	// NextAttemptAt is when it is tried again; zero when that has no date.
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	// BlockedBy is the id of the event of its key that it waits for; 0 when it waits for none.
	BlockedBy int64 `json:"blocked_by,string,omitempty"`
	// Kept is what keeps a pending event in a list: a pause, its topic, Kafka, or that no relay is there; nil when nothing is known to.
	Kept *Reason `json:"kept,omitempty"`
}

// Ref names the event by both ids.
func (e Event) Ref() Ref { return Ref{e.ID, e.EventID} }

// Look is what a page has looked at, where no index knows what was asked for: beside the page itself nothing is known of the rest.
type Look struct {
	// What was looked at: unpublished, settled or dead events, parked keys or failures.
	What string `json:"what"`
	// Events is how many, and From and To their first and last id in the order of the list.
	Events int64 `json:"events"`
	From   int64 `json:"from,string"`
	To     int64 `json:"to,string"`
	// Ended tells that there are no more of this kind.
	Ended bool `json:"ended"`
}

// EventPage is a page of events.
type EventPage struct {
	Events []Event `json:"events"`
	// Next is the cursor of the next page; "" when there is nothing more to look at. A page may be empty and have a next one: its windows held
	// nothing.
	Next string `json:"next,omitempty"`
	// Looks are the windows that were looked at; none when the page came from an index, and so is exact.
	Looks []Look `json:"looks,omitempty"`
	// Estimated says what of the page is estimated; "" when nothing is.
	Estimated string `json:"estimated,omitempty"`
}

// Exact tells that the page came from an index: no event between its first and last is missing.
func (p EventPage) Exact() bool { return len(p.Looks) == 0 && p.Estimated == "" }
