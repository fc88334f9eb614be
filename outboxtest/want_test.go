package outboxtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox"
)

func differenceOf(t *testing.T, got []outbox.Event, wants ...Want) string {
	t.Helper()
	read := make([]wanted, len(wants))
	for i, w := range wants {
		payload, err := decodeWant(w.Payload)
		if err != nil {
			t.Fatal(err)
		}
		read[i] = wanted{w, payload}
	}
	return difference(got, read)
}

func written(kinds ...string) []outbox.Event {
	events := make([]outbox.Event, len(kinds))
	for i, kind := range kinds {
		events[i] = outbox.Event{Type: kind, Topic: "shop.order", PartitionKey: "order-1", Payload: json.RawMessage(`{"total": 41}`)}
	}
	return events
}

func TestTheDifferenceShowsWhatIsThereAndWhatIsWanted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		got   []outbox.Event
		wants []Want
		want  string
	}{
		{"equal", written("a", "b"), []Want{{Type: "a"}, {Type: "b", Topic: "shop.order", Key: "order-1"}}, ""},
		{"nothing is wanted, nothing is there", nil, nil, ""},
		{"too many", written("a", "b"), []Want{{Type: "b"}}, `the transaction has written 2 events, want 1 event
  + a, to shop.order, key "order-1": written, not wanted here
    b, to shop.order, key "order-1"`},
		{"too few", written("b"), []Want{{Type: "a", Key: "order-1"}, {Type: "b"}, {}}, `the transaction has written 1 event, want 3 events
  - a, key "order-1": wanted here, not written
    b, to shop.order, key "order-1"
  - any event: wanted here, not written`},
		{"another one", written("a", "b", "c"), []Want{{Type: "a"}, {Type: "x", Key: "order-2", Payload: `{"total": 42}`}, {Type: "c"}},
			`the transaction has written 3 events, want 3 events
    a, to shop.order, key "order-1"
  ! b, to shop.order, key "order-1"
      Type is "b", want "x"
      Key is "order-1", want "order-2"
      Payload.total is 41, want 42
    c, to shop.order, key "order-1"`},
		{"another order", written("a", "b"), []Want{{Type: "b"}, {Type: "a"}}, `the transaction has written 2 events, want 2 events
  + a, to shop.order, key "order-1": written, not wanted here
    b, to shop.order, key "order-1"
  - a: wanted here, not written`},
		{"none", nil, []Want{{Type: "a"}}, `the transaction has written no events, want 1 event
  - a: wanted here, not written`},
	} {
		if got := differenceOf(t, c.got, c.wants...); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestPayloadsAreComparedByWhatIsWantedOfThem(t *testing.T) {
	t.Parallel()
	const payload = `{"id": "1", "data": {"total": 12.50, "lines": [{"n": 1, "sku": "x"}, {"n": 2}], "note": null, "big": 12345678901234567890}, "paid": true}`
	for want, problem := range map[string]string{
		`{}`:                        "",
		`{"data": {"total": 12.5}}`: "",
		`{"data": {"big": 12345678901234567890}}`:   "",
		`{"data": {"big": 12345678901234567891}}`:   "Payload.data.big is 12345678901234567890, want 12345678901234567891",
		`{"data": {"lines": [{"n": 1}, {}]}}`:       "",
		`{"data": {"lines": [{"n": 1}]}}`:           "Payload.data.lines has 2 elements, want 1",
		`{"data": {"lines": [{"n": 1}, {"n": 3}]}}`: "Payload.data.lines[1].n is 2, want 3",
		`{"data": {"note": null}}`:                  "",
		`{"data": {"none": null}}`:                  "Payload.data.none is missing, want null",
		`{"data": {"note": 0}}`:                     "Payload.data.note is null, want 0",
		`{"paid": "true"}`:                          `Payload.paid is true, want "true"`,
		`{"data": []}`:                              "Payload.data is {",
		`[]`:                                        "Payload is {",
	} {
		w, err := decodeWant(want)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(comparePayload(json.RawMessage(payload), *w), "\n")
		if problem == "" && got != "" || !strings.HasPrefix(got, problem) {
			t.Errorf("%s: got %q, want %q", want, got, problem)
		}
	}
	for name, given := range map[string]any{"bytes": []byte(`{"id": "1"}`), "raw": json.RawMessage(`{"id":"1"}`), "map": map[string]any{"id": "1"}, "struct": struct {
		ID string `json:"id"`
	}{"1"}} {
		w, err := decodeWant(given)
		if err != nil {
			t.Fatal(err)
		}
		if got := comparePayload(json.RawMessage(payload), *w); got != nil {
			t.Errorf("%s: got %q", name, got)
		}
	}
	for _, bad := range []any{"{", "{} {}", func() {}} {
		if _, err := decodeWant(bad); err == nil {
			t.Errorf("%v is taken for JSON", bad)
		}
	}
}
