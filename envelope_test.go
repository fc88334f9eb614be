package outbox_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox"
)

// payloadOf returns the payload's text as it is sent.
func payloadOf(t *testing.T, e outbox.Event) string {
	t.Helper()
	text, err := payloadText(e)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func payloadText(e outbox.Event) (string, error) {
	_, args, err := outbox.Statement(e)
	if err != nil {
		return "", err
	}
	literal := args[4].(string)
	text := strings.TrimSuffix(strings.TrimPrefix(literal, `{"`), `"}`)
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(text), nil
}

func TestEnvelopeHoldsTheEventAndTheData(t *testing.T) {
	t.Parallel()
	const id = "0198a0f0-1111-7222-8333-444444444444"
	at := time.Date(2026, 3, 1, 14, 0, 0, 999_999_999, time.FixedZone("", 2*60*60))
	const fields = `"eventId":"` + id + `","eventType":"order.confirmed.v1","occurredAt":"2026-03-01T12:00:00.999Z","aggregateType":"Order","aggregateId":"42"`
	for name, c := range map[string]struct {
		payload any
		want    string
	}{
		"struct":             {outbox.Envelope{Data: struct{ HTML string }{"<&>"}}, `{` + fields + `,"HTML":"<&>"}`},
		"pointer":            {&outbox.Envelope{Data: map[string]int{"a": 1}}, `{` + fields + `,"a":1}`},
		"no data":            {outbox.Envelope{}, `{` + fields + `}`},
		"empty object":       {outbox.Envelope{Data: struct{}{}}, `{` + fields + `}`},
		"empty with blanks":  {outbox.Envelope{Data: []byte("\n{ \t}\r ")}, `{` + fields + `}`},
		"text is verbatim":   {outbox.Envelope{Data: json.RawMessage(` {"n": 9007199254740993, "d":1.10, "eventid":1} `)}, `{` + fields + `,"n": 9007199254740993, "d":1.10, "eventid":1}`},
		"name further down":  {outbox.Envelope{Data: []byte(`{"a":{"eventId":1},"b":["eventId"]}`)}, `{` + fields + `,"a":{"eventId":1},"b":["eventId"]}`},
		"list, null, nested": {outbox.Envelope{Data: []byte(`{"list":[1,2.5,3],"x":null,"deep":{"y":[]}}`)}, `{` + fields + `,"list":[1,2.5,3],"x":null,"deep":{"y":[]}}`},
		"own type":           {outbox.Envelope{Type: "OrderConfirmed.v1"}, strings.Replace(`{`+fields+`}`, "order.confirmed.v1", "OrderConfirmed.v1", 1)},
	} {
		e := withPayload(c.payload)
		e.ID, e.OccurredAt = uuid.MustParse(id), at
		got := payloadOf(t, e)
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s: not valid JSON: %s", name, got)
		}
	}
}

// The reference draws two ids, one for the row and one for the payload, so consumers cannot match them.
func TestEnvelopeHasTheIDOfTheRow(t *testing.T) {
	t.Parallel()
	tx := begin(t, setup(t))
	ids := write(t, tx, withPayload(outbox.Envelope{}), withPayload(outbox.Envelope{}))
	got := query(t, tx, `SELECT payload->>'eventId' FROM outbox_event WHERE payload->>'eventId' = event_id::text ORDER BY id`)
	if want := []string{ids[0].String(), ids[1].String()}; !slices.Equal(got, want) {
		t.Errorf("ids in the envelopes %v, want %v", got, want)
	}
}

func TestEnvelopeTellsTheWritersTime(t *testing.T) {
	t.Parallel()
	w := newWriter(t, outbox.Config{Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC) }})
	_, args, err := w.Statement(withPayload(outbox.Envelope{}))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(args[4].(string), "2026-01-02T03:04:05.006Z") {
		t.Errorf("payload %v", args[4])
	}
}

func TestEnvelopesThatCannotBeMadeAreRefused(t *testing.T) {
	t.Parallel()
	for says, payload := range map[string]any{
		`Data has the field "eventId" of the envelope`:       outbox.Envelope{Data: map[string]int{"eventId": 1}},
		`Data has the field "eventType" of the envelope`:     outbox.Envelope{Data: []byte(`{"event\u0054ype":1}`)},
		`Data has the field "occurredAt" of the envelope`:    outbox.Envelope{Data: []byte(`{"a":{},"occurredAt":1}`)},
		`Data has the field "aggregateType" of the envelope`: outbox.Envelope{Data: []byte(`{"aggregateType":1}`)},
		`Data has the field "aggregateId" of the envelope`:   outbox.Envelope{Data: []byte(`{"aggregateId":1}`)},
		"Data is not a JSON object":                          outbox.Envelope{Data: []int{1}},
		"Data is a map[string]int that marshals to null":     outbox.Envelope{Data: map[string]int(nil)},
		"Data is empty":                                      outbox.Envelope{Data: []byte{}},
		"Data is not valid JSON at byte 2":                   outbox.Envelope{Data: []byte(`{]`)},
		"Data has the character U+0000":                      outbox.Envelope{Data: map[string]string{"a": "\x00"}},
		"Data cannot be marshalled: json: unsupported value": outbox.Envelope{Data: map[string]float64{"a": math.NaN()}},
		"Data is an Envelope itself":                         outbox.Envelope{Data: &outbox.Envelope{}},
		"must be the payload itself":                         map[string]any{"a": outbox.Envelope{}},
		"is a *outbox.Envelope that marshals to null":        (*outbox.Envelope)(nil),
		"envelope's Type has the character U+0000":           outbox.Envelope{Type: "a\x00"},
	} {
		_, err := payloadText(withPayload(payload))
		if !errors.Is(err, outbox.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one with %q", err, says)
		}
	}
	e := withPayload(outbox.Envelope{})
	e.OccurredAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := payloadText(e); err == nil || !strings.Contains(err.Error(), "in the year 10000") {
		t.Errorf("error %v", err)
	}
}
