package outbox_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox"
)

// FuzzPayload: whatever is accepted is JSON, holds no U+0000 and is sent as it is; whatever is refused has a reason.
func FuzzPayload(f *testing.F) {
	for _, text := range documents() {
		if len(text) < 1000 {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		sent, err := payloadText(withPayload(text))
		if err != nil {
			if !errors.Is(err, outbox.ErrInvalid) {
				t.Fatalf("error %v", err)
			}
			return
		}
		var value any
		dec := json.NewDecoder(strings.NewReader(sent))
		dec.UseNumber()
		if err := dec.Decode(&value); err != nil {
			t.Fatalf("%q is accepted: %v", text, err)
		}
		if again, err := json.Marshal(value); err != nil || strings.Contains(strings.ReplaceAll(string(again), `\\`, ``), `\u0000`) {
			t.Fatalf("%q is accepted and holds U+0000 (%v)", text, err)
		}
		if sent != string(text) {
			t.Fatalf("%q was changed to %q", text, sent)
		}
	})
}

// FuzzEnvelope: whatever is accepted is a JSON object with the row's id and as many fields as envelope and data have.
func FuzzEnvelope(f *testing.F) {
	for _, text := range []string{`{}`, ` { "a" : 1 } `, `{"eventId":1}`, `{"event\u0049d":1}`, `{"a":{"eventId":1}}`, `[]`, `{"a":1,"a":2}`, `{"EventID":1}`} {
		f.Add(text, "order.confirmed.v1")
	}
	f.Fuzz(func(t *testing.T, data, eventType string) {
		e := withPayload(outbox.Envelope{Data: []byte(data)})
		e.ID, e.Type = uuid.MustParse("0198a0f0-1111-7222-8333-444444444444"), eventType
		text, err := payloadText(e)
		if err != nil {
			return
		}
		var whole, own map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal([]byte(text), &whole), json.Unmarshal([]byte(data), &own)); err != nil {
			t.Fatalf("%s from %s: %v", text, data, err)
		}
		if string(whole["eventId"]) != `"`+e.ID.String()+`"` || len(whole) != len(own)+5 {
			t.Fatalf("%s from %s", text, data)
		}
		var got string
		if err := json.Unmarshal(whole["eventType"], &got); err != nil || got != eventType {
			t.Fatalf("eventType %q, want %q (%v)", got, eventType, err)
		}
	})
}

// FuzzTopics: a derived topic is one that Kafka takes, and begins with the service.
func FuzzTopics(f *testing.F) {
	for _, v := range topicVectors(f) {
		f.Add(v.Aggregate, v.Type, false)
	}
	f.Fuzz(func(t *testing.T, aggregate, eventType string, perAggregate bool) {
		topic, err := outbox.Topics{Service: "order-service", PerAggregate: perAggregate}.Topic(aggregate, eventType)
		if err != nil {
			return
		}
		if err := outbox.CheckTopic(topic); err != nil {
			t.Fatal(err)
		}
		points := 2
		if perAggregate {
			points = 1
		}
		if !strings.HasPrefix(topic, "order-service.") || strings.Count(topic, ".") != points || strings.ToLower(topic) != topic {
			t.Fatalf("topic %q", topic)
		}
	})
}
