package inbox

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of what is remembered, in bytes: both are in one entry of an index.
const (
	MaxConsumerBytes = 255
	MaxEventIDBytes  = 1024
)

// Headers that events are known by, in the order in which they are looked for: this product's, those of CloudEvents in binary mode, and the one that Debezium's
// outbox event router writes.
var (
	idHeaders   = []string{"x-event-id", "ce_id", "id"}
	typeHeaders = []string{"x-event-type", "ce_type", "eventType"}
)

// ErrNoID is what a function for [Config.EventID] returns of a record that has no event id.
var ErrNoID = errors.New("the record has no event id")

// EventID is the event id in a record's headers: x-event-id, ce_id or Debezium's id. Without any of them it is [ErrNoID].
func EventID(r *Record) (string, error) {
	if id, ok := firstHeader(r, idHeaders); ok {
		return id, nil
	}
	return "", fmt.Errorf("%w: none of the headers %s is there", ErrNoID, strings.Join(idHeaders, ", "))
}

// EventType is the event type in a record's headers: x-event-type, ce_type or eventType; "" without any of them.
func EventType(r *Record) string {
	t, _ := firstHeader(r, typeHeaders)
	return t
}

func firstHeader(r *Record, names []string) (string, bool) {
	for _, name := range names {
		if value, ok := r.Header(name); ok && len(value) > 0 {
			return string(value), true
		}
	}
	return "", false
}

// checkName refuses what cannot be remembered.
func checkName(what, s string, most int) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty", what)
	case len(s) > most:
		return fmt.Errorf("%s has %d bytes; at most %d can be remembered", what, len(s), most)
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return fmt.Errorf("%s %q is no text that PostgreSQL can hold", what, s)
	}
	return nil
}
