package operate

import (
	"encoding/json"
	"fmt"
	"time"
)

// Row is the event as the table has it.
type Row struct {
	Event
	// Payload is the text as PostgreSQL prints it; nil when it was withheld, or cannot be shown.
	Payload Text `json:"payload"`
	// Headers is the text of the optional column; nil when there is none.
	Headers Text `json:"headers"`
}

// Text is a text that in JSON is a string, never a value of its own: a reader would round the numbers of a payload. nil is null.
type Text []byte

// MarshalJSON implements [json.Marshaler].
func (t Text) MarshalJSON() ([]byte, error) {
	if t == nil {
		return []byte("null"), nil
	}
	return json.Marshal(string(t))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Text) UnmarshalJSON(from []byte) error {
	var s *string
	if err := json.Unmarshal(from, &s); err != nil {
		return fmt.Errorf("read a text: %w", err)
	}
	if *t = nil; s != nil {
		*t = Text(*s)
	}
	return nil
}

// Record is what Kafka gets.
type Record struct {
	Topic   string         `json:"topic"`
	Key     string         `json:"key"`
	Value   Text           `json:"value"`
	Headers []RecordHeader `json:"headers"`
	// Bytes is the record's size by the client's own formula.
	Bytes int `json:"bytes"`
}

// RecordHeader is a header of a record.
type RecordHeader struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Column is a column of the row beyond those of the contract, as text.
type Column struct {
	Name string `json:"name"`
	// Value is nil for NULL.
	Value *string `json:"value"`
}

// Failures is what is known of an event's failures.
type Failures struct {
	Attempts      int       `json:"attempts"`
	FirstError    string    `json:"first_error"`
	LastError     string    `json:"last_error"`
	FirstAt       time.Time `json:"first_at"`
	LastAt        time.Time `json:"last_at"`
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
}

// Letter is where a dead event is in a dead-letter topic.
type Letter struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Offset is nil when the broker did not tell it.
	Offset *int64 `json:"offset"`
}

func (l Letter) String() string {
	if l.Offset == nil {
		return fmt.Sprintf("%s, partition %d", l.Topic, l.Partition)
	}
	return fmt.Sprintf("%s, partition %d, offset %d", l.Topic, l.Partition, *l.Offset)
}

// ReasonCode is a stable name of why an event does not move.
type ReasonCode string

// The reasons, the most telling first.
const (
	ReasonPublished    ReasonCode = "published"
	ReasonDead         ReasonCode = "dead"
	ReasonParked       ReasonCode = "parked"
	ReasonBehindParked ReasonCode = "behind_parked"
	// ReasonAggregateParked is of an event whose key waits for another key, which stops an aggregate.
	ReasonAggregateParked ReasonCode = "aggregate_parked"
	ReasonNextAttempt     ReasonCode = "next_attempt"
	ReasonPaused          ReasonCode = "paused"
	ReasonTopicHeld       ReasonCode = "topic_held"
	ReasonNoRelay         ReasonCode = "no_relay"
	ReasonLaneFree        ReasonCode = "lane_free"
	ReasonOutage          ReasonCode = "outage"
	// ReasonRowLocked is of an event whose row a session has locked; Writer is its transaction.
	ReasonRowLocked  ReasonCode = "row_locked"
	ReasonOpenWriter ReasonCode = "open_writer"
	ReasonRequested  ReasonCode = "requested"
	ReasonQueued     ReasonCode = "queued"
)

// Reason is one thing that keeps an event, or says that nothing does, with its evidence.
type Reason struct {
	Code ReasonCode `json:"code"`
	// Text is for people: one sentence without its full stop.
	Text string `json:"text"`
	// Since is when it began; zero when that is not known.
	Since time.Time `json:"since,omitzero"`
	// By is who or what it is: an operator, a relay.
	By string `json:"by,omitempty"`
	// Event is the event that is meant, where it is another one.
	Event *Ref `json:"event,omitempty"`
	// Writer is the open transaction that is meant.
	Writer *Writer `json:"writer,omitempty"`
}

// Writer is an open transaction that has written to the table, or may still.
type Writer struct {
	// PID is the process id at the server; 0 for a prepared transaction.
	PID int32 `json:"pid"`
	// User, Application and State are as the server shows them to the role; empty when it may not see them.
	User        string `json:"user,omitempty"`
	Application string `json:"application,omitempty"`
	State       string `json:"state,omitempty"`
	// Began is when the transaction began, and QueryAt when its last statement did; zero when the role may not see them.
	Began   time.Time `json:"began,omitzero"`
	QueryAt time.Time `json:"query_at,omitzero"`
}

// EventDetail is all that is known of one event.
type EventDetail struct {
	Row
	// At is the database's time of the look.
	At time.Time `json:"at"`
	// Extra are the columns that the contract does not have.
	Extra []Column `json:"columns,omitempty"`
	// Lane is the lane of its key, LaneOwner the relay that has it, "" when none has; LeaseEnds is when its lease does.
	Lane      int32     `json:"lane"`
	LaneOwner string    `json:"lane_owner,omitempty"`
	LeaseEnds time.Time `json:"lease_ends,omitzero"`
	// Failures is nil when none is known.
	Failures *Failures `json:"failures,omitempty"`
	// DiedBy is who gave it up.
	DiedBy string `json:"died_by,omitempty"`
	// Letter is where it is in a dead-letter topic; nil when it was sent to none.
	Letter *Letter `json:"dead_letter,omitempty"`
	// Why says why it does not move, the most telling first. There is always one.
	Why []Reason `json:"why"`
	// Record is what Kafka gets; nil when nobody could render it, and Unrenderable says why it cannot become one.
	Record       *Record `json:"record,omitempty"`
	Unrenderable string  `json:"unrenderable,omitempty"`
	// Withheld tells that payload and headers were left out because the actor may not see them.
	Withheld bool `json:"withheld,omitempty"`
	// Notes are what else should be known, such as another event under the same id.
	Notes []string `json:"notes,omitempty"`
}

func (d *EventDetail) render(c Cluster) {
	if c == nil || d.Record != nil {
		return
	}
	record, err := c.Render(d.Row)
	if err != nil {
		d.Unrenderable = err.Error()
		return
	}
	d.Record = &record
}

// withhold leaves out what only an operator may see. Columns that nobody knows may hold anything.
func (d *EventDetail) withhold() {
	d.Payload, d.Headers, d.Extra, d.Unrenderable = nil, nil, nil, ""
	if d.Record != nil {
		d.Record.Value, d.Record.Headers = nil, nil
	}
	d.Withheld = true
}
