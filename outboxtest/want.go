package outboxtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox"
)

// Want is an event as a test wants it. A field that is left out matches everything.
type Want struct {
	Type, Topic, Key           string
	AggregateType, AggregateID string
	// Payload is JSON text as []byte, string or json.RawMessage, or anything that encoding/json takes. Of an object, only the fields that it names are compared,
	// in objects within it as well: an envelope's id and time need not be known. The fields of an envelope's Data are at the top of the payload. Everything else must be equal; 1.0 equals 1.
	Payload any
	// Headers must be there with these values; there may be others.
	Headers map[string]string
}

// require compares, and fails the test with the difference.
func require(t testing.TB, got []outbox.Event, wants []Want) []outbox.Event {
	t.Helper()
	read := make([]wanted, len(wants))
	for i, w := range wants {
		payload, err := decodeWant(w.Payload)
		if err != nil {
			t.Fatalf("the payload of wanted event %d is no JSON: %v", i+1, err)
		}
		read[i] = wanted{w, payload}
	}
	if text := difference(got, read); text != "" {
		t.Fatal(text)
	}
	return got
}

// wanted is a Want whose payload is decoded; nil when nothing is said of it.
type wanted struct {
	Want
	payload *any
}

func decodeWant(payload any) (*any, error) {
	var text []byte
	switch p := payload.(type) {
	case nil:
		return nil, nil
	case []byte:
		text = p
	case json.RawMessage:
		text = p
	case string:
		text = []byte(p)
	default:
		var err error
		if text, err = json.Marshal(p); err != nil {
			return nil, err
		}
	}
	v, err := decode(text)
	return &v, err
}

// problems says where the event is another one than wanted; nothing when it is not.
func (w wanted) problems(e outbox.Event) (found []string) {
	for _, f := range []struct{ name, got, want string }{
		{"Type", e.Type, w.Type},
		{"Topic", e.Topic, w.Topic},
		{"Key", e.PartitionKey, w.Key},
		{"AggregateType", e.AggregateType, w.AggregateType},
		{"AggregateID", e.AggregateID, w.AggregateID},
	} {
		if f.want != "" && f.got != f.want {
			found = append(found, fmt.Sprintf("%s is %q, want %q", f.name, f.got, f.want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		got, has := e.Headers[name]
		switch want := w.Headers[name]; {
		case !has:
			found = append(found, fmt.Sprintf("Headers[%q] is missing, want %q", name, want))
		case got != want:
			found = append(found, fmt.Sprintf("Headers[%q] is %q, want %q", name, got, want))
		}
	}
	if w.payload != nil {
		found = append(found, comparePayload(e.Payload.(json.RawMessage), *w.payload)...)
	}
	return found
}

func (w wanted) String() string {
	return describe(w.Type, w.Topic, w.Key)
}

func describe(kind, topic, key string) string {
	var parts []string
	if kind != "" {
		parts = append(parts, kind)
	}
	if topic != "" {
		parts = append(parts, "to "+topic)
	}
	if key != "" {
		parts = append(parts, fmt.Sprintf("key %q", key))
	}
	if len(parts) == 0 {
		return "any event"
	}
	return strings.Join(parts, ", ")
}
