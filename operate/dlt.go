package operate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// LetterRef names a record of a dead-letter topic.
type LetterRef struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func (r LetterRef) String() string { return fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset) }

// ParseLetterRef reads TOPIC/PARTITION/OFFSET.
func ParseLetterRef(s string) (LetterRef, error) {
	wrong := func(why string) (LetterRef, error) {
		return LetterRef{}, Refuse(CodeInvalid, "letter %q: %s; want TOPIC/PARTITION/OFFSET, such as shop.order-dlt/0/17; outbox dlt list shows them", s, why)
	}
	parts := strings.Split(s, "/")
	if len(parts) != 3 || parts[0] == "" {
		return wrong("a topic, a partition and an offset name one")
	}
	partition, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil || partition < 0 {
		return wrong(fmt.Sprintf("%q is no partition", parts[1]))
	}
	offset, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || offset < 0 {
		return wrong(fmt.Sprintf("%q is no offset", parts[2]))
	}
	return LetterRef{parts[0], int32(partition), offset}, nil
}

// Bytes are a record's bytes; nil is Kafka's null. In JSON they are null, a string if they are UTF-8, and {"base64": "…"} otherwise.
type Bytes []byte

// MarshalJSON implements [json.Marshaler].
func (b Bytes) MarshalJSON() ([]byte, error) {
	switch {
	case b == nil:
		return []byte("null"), nil
	case utf8.Valid(b):
		return json.Marshal(string(b))
	}
	return json.Marshal(map[string][]byte{"base64": b})
}

// The forms of a letter: who has written its headers.
const (
	LetterOfConsumer = "outbox-consumer"
	LetterOfRelay    = "outbox-relay"
	LetterOfSpring   = "spring"
	LetterOfConnect  = "kafka-connect"
)

// DeadLetter is a record of a dead-letter topic, with what its headers say. What they do not say is zero.
type DeadLetter struct {
	LetterRef
	// At is the record's time: when it was written there, or with Kafka Connect that of the first record.
	At time.Time `json:"at"`
	// Key is nil for null.
	Key     Bytes  `json:"key"`
	EventID string `json:"event_id,omitempty"`
	Type    string `json:"event_type,omitempty"`
	// Form is [LetterOfConsumer] or one of its like; "" where no header says of a failure.
	Form string `json:"form,omitempty"`
	// Error is why it failed the last time, Consumer who could not handle it, Attempts how often that was tried, FailedAt when the last time was.
	Error    string    `json:"error,omitempty"`
	Consumer string    `json:"consumer,omitempty"`
	Attempts int       `json:"attempts,omitempty"`
	FailedAt time.Time `json:"failed_at,omitzero"`
	// Original is where the record was first, with -1 for a partition or an offset that is not known; nil where nothing is. OriginalAt is its time there.
	Original   *LetterRef `json:"original,omitempty"`
	OriginalAt time.Time  `json:"original_at,omitzero"`
	// Redriven is nil where nobody has sent it back.
	Redriven *Redriven `json:"redriven,omitempty"`
}

// Redriven is when a letter was sent back, and by whom.
type Redriven struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
}

// LetterRecord is a letter whole.
type LetterRecord struct {
	DeadLetter
	// Value is nil for null.
	Value Bytes `json:"value"`
	// Headers are in their order; a name may occur more than once.
	Headers []LetterHeader `json:"headers"`
	// Withheld tells that value and headers were left out: the actor may not see them, or has not asked for them.
	Withheld bool `json:"withheld,omitempty"`
}

// LetterHeader is one header of a record.
type LetterHeader struct {
	Key   string `json:"key"`
	Value Bytes  `json:"value"`
}

// LetterFilter narrows letters down: those of which all is true that is said here.
type LetterFilter struct {
	// Error, unless "", is a part of the error, in any case.
	Error string `json:"error,omitempty"`
	// Key and Type, unless nil, are the record's key and the event's type.
	Key  *string `json:"key,omitempty"`
	Type *string `json:"type,omitempty"`
	// FailedBy, unless "", is the consumer that gave it up.
	FailedBy string `json:"failed_by,omitempty"`
	// From and Until, unless zero, bound the record's time: from From on, and before Until.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

func (f LetterFilter) check() error {
	if !f.From.IsZero() && !f.Until.IsZero() && !f.From.Before(f.Until) {
		return Refuse(CodeInvalid, "no letter is from %s on and before %s", f.From.UTC().Format(time.RFC3339), f.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

func (f LetterFilter) matches(d *DeadLetter) bool {
	return (f.Error == "" || strings.Contains(strings.ToLower(d.Error), strings.ToLower(f.Error))) &&
		(f.Key == nil || d.Key != nil && string(d.Key) == *f.Key) && (f.Type == nil || d.Type == *f.Type) &&
		(f.FailedBy == "" || d.Consumer == f.FailedBy) && (f.From.IsZero() || !d.At.Before(f.From)) && (f.Until.IsZero() || d.At.Before(f.Until))
}

// letterSuffixes are how dead-letter topics are called after their topic: by this product and by Spring, now and before.
var letterSuffixes = []string{"-dlt", ".DLT", "-DLT", ".dlt"}

// retryTopic finds the names of retry topics: what is there is tried again by itself.
var retryTopic = regexp.MustCompile(`-retry(-[0-9]+)?$`)

func namedAsLetters(topic string) bool {
	for _, suffix := range letterSuffixes {
		if strings.HasSuffix(topic, suffix) {
			return true
		}
	}
	return false
}
