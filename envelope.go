package outbox

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
)

// Envelope is a payload that tells consumers about the event besides its data. In Kafka:
//
//	{"eventId": "0198…", "eventType": "order.confirmed.v1", "occurredAt": "2026-03-01T12:00:00.000Z",
//	 "aggregateType": "Order", "aggregateId": "42", …the fields of Data…}
//
// It is made when the event is written, so that eventId is the row's event_id and the header x-event-id. occurredAt is [Event.OccurredAt] in
// UTC, cut to milliseconds. PostgreSQL's jsonb keeps the fields in an order of its own.
type Envelope struct {
	// Data must become a JSON object by the rules of [Event.Payload]; nil adds no fields. Its text is kept as it is, every digit of a number
	// included. A field that is named like one of the envelope's own is refused.
	Data any
	// Type is eventType in the envelope. "" means [Event.Type]; set it where consumers know the event by another name.
	Type string
}

// MarshalJSON always fails: an envelope needs the event around it, so it can only be a payload itself, not a part of one.
func (Envelope) MarshalJSON() ([]byte, error) {
	return nil, errors.New("an outbox.Envelope must be the payload itself, not a part of one")
}

// head holds the envelope's own fields.
type head struct {
	EventID       uuid.UUID `json:"eventId"`
	EventType     string    `json:"eventType"`
	OccurredAt    string    `json:"occurredAt"`
	AggregateType string    `json:"aggregateType"`
	AggregateID   string    `json:"aggregateId"`
}

func isHeadField(name string) bool {
	switch name {
	case "eventId", "eventType", "occurredAt", "aggregateType", "aggregateId":
		return true
	}
	return false
}

// text returns the envelope around the data as JSON text.
func (v Envelope) text(e *Event) ([]byte, *fault) {
	own, f := v.own()
	if f != nil {
		return nil, &fault{"envelope's Data " + f.text, f.remedy}
	}
	h, f := v.head(e)
	if f != nil {
		return nil, f
	}
	text, err := marshal(h)
	if err != nil {
		return nil, faultf("correct the event", "envelope cannot be made: %v", err)
	}
	if len(own) > 0 {
		text = append(text[:len(text)-1], ',')
		text = append(append(text, own...), '}')
	}
	if len(text) > MaxPayloadBytes {
		return nil, faultf("store it elsewhere and publish a reference", "is longer than %d bytes", MaxPayloadBytes)
	}
	return text, nil
}

// own returns the members of the data's object, without the braces.
func (v Envelope) own() ([]byte, *fault) {
	if v.Data == nil {
		return nil, nil
	}
	switch v.Data.(type) {
	case Envelope, *Envelope:
		return nil, &fault{"is an Envelope itself", "give the data"}
	}
	text, f := jsonText(v.Data)
	if f != nil {
		return nil, f
	}
	text = bytes.Trim(text, " \t\r\n")
	if text[0] != '{' {
		return nil, &fault{"is not a JSON object", "put the value into a field"}
	}
	if f := checkCollision(text); f != nil {
		return nil, f
	}
	return bytes.Trim(text[1:len(text)-1], " \t\r\n"), nil
}

// checkCollision refuses a top-level field that the envelope has too: of two, jsonb would keep one and drop the other silently.
func checkCollision(object []byte) *fault {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, err := dec.Token()
	for err == nil && dec.More() {
		var name json.Token
		if name, err = dec.Token(); err != nil {
			break
		}
		if s, ok := name.(string); ok && isHeadField(s) {
			return faultf("rename it, or leave it out: the envelope has it", "has the field %q of the envelope", s)
		}
		var value json.RawMessage
		err = dec.Decode(&value)
	}
	if err != nil {
		return faultf("correct it", "cannot be read: %v", err)
	}
	return nil
}

func (v Envelope) head(e *Event) (head, *fault) {
	const layout = "2006-01-02T15:04:05.000Z" // cuts, does not round
	at := e.OccurredAt.UTC()
	if at.Year() < 0 || at.Year() > 9999 {
		return head{}, faultf("correct Event.OccurredAt", "occurredAt is in the year %d, which has no form in RFC 3339", at.Year())
	}
	h := head{e.ID, v.Type, at.Format(layout), e.AggregateType, e.AggregateID}
	if h.EventType == "" {
		h.EventType = e.Type
	}
	if f := checkText(h.EventType); f != nil && v.Type != "" {
		return head{}, &fault{"envelope's Type " + f.text, f.remedy}
	}
	return h, nil
}
