package kafka

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/relay"
)

func rendered(e *relay.Event) *item { return &newCall([]*relay.Event{e}, nil).items[0] }

// vector is what the reference service put on the wire for a row.
type vector struct {
	Payload   string            `json:"payload_text"`
	Value     []byte            `json:"value_b64"`
	Partition int               `json:"partition"`
	Headers   map[string]string `json:"headers"`
	EventID   string            `json:"event_id"`
	EventType string            `json:"event_type"`
	Key       string            `json:"partition_key"`
	What      string            `json:"what"`
}

func vectors(t testing.TB) []vector {
	t.Helper()
	f, err := os.Open("testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []vector
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if lines.Err() != nil || len(all) < 93 {
		t.Fatalf("%d vectors, %v", len(all), lines.Err())
	}
	return all
}

func (v vector) event() *relay.Event {
	return &relay.Event{
		EventID: uuid.MustParse(v.EventID), Type: v.EventType, PartitionKey: v.Key, Payload: []byte(v.Payload), Topic: "t",
	}
}

func TestRecordsAreThoseOfTheReference(t *testing.T) {
	t.Parallel()
	plan := planner()
	for _, v := range vectors(t) {
		r := &rendered(v.event()).rec
		if got := plan.Partition(r, 12); got != v.Partition {
			t.Errorf("%s: partition %d, want %d", v.What, got, v.Partition)
		}
		if r.Key == nil || string(r.Key) != v.Key {
			t.Errorf("%s: key %q, want %q", v.What, r.Key, v.Key)
		}
		want := []kgo.RecordHeader{
			{Key: "x-event-id", Value: []byte(v.Headers["x-event-id"])}, {Key: "x-event-type", Value: []byte(v.Headers["x-event-type"])},
		}
		if !reflect.DeepEqual(r.Headers, want) {
			t.Errorf("%s: headers %q, want %q", v.What, r.Headers, want)
		}
		if !sameToJavaScript(t, r.Value, v.Value) {
			t.Errorf("%s: value %.200s, want %.200s", v.What, r.Value, v.Value)
		}
	}
}

// sameToJavaScript compares values as a JavaScript consumer sees them: the reference has passed its numbers through float64.
func sameToJavaScript(t *testing.T, a, b []byte) bool {
	t.Helper()
	return reflect.DeepEqual(asJavaScript(t, a), asJavaScript(t, b))
}

func asJavaScript(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("value is not JSON: %v", err)
	}
	return throughFloats(v)
}

func throughFloats(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = throughFloats(v[k])
		}
	case []any:
		for i := range v {
			v[i] = throughFloats(v[i])
		}
	case json.Number:
		f, _, err := big.ParseFloat(v.String(), 10, 2000, big.ToNearestEven)
		if err != nil {
			return v
		}
		n, _ := f.Float64()
		if fmt.Sprint(n) == "+Inf" || fmt.Sprint(n) == "-Inf" {
			return nil // as JSON.stringify writes it
		}
		if n == 0 {
			return 0.0
		}
		return n
	}
	return v
}

func TestThePayloadLosesItsBlanksAndNothingElse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a": 1, "b": [1, 2]}`:  `{"a":1,"b":[1,2]}`,
		`{"a b": " c : , "}`:     `{"a b":" c : , "}`,
		`"quote \" and blank  "`: `"quote \" and blank  "`,
		`{"end\\": "\\\" , \\"}`: `{"end\\":"\\\" , \\"}`,
		"[ 1 ,\n\t2 ,\r\n 3 ]":   `[1,2,3]`,
		`{"n": 9007199254740993, "u": 18446744073709551615, "d": 0.1234567890123456789, "p": 1.10}`: `{"n":9007199254740993,"u":18446744073709551615,"d":0.1234567890123456789,"p":1.10}`,
		`{"list": [1, 2.5, 3], "x": null, "deep": {"y": []}}`:                                       `{"list":[1,2.5,3],"x":null,"deep":{"y":[]}}`,
		`null`: `null`, `{}`: `{}`, `[]`: `[]`, `""`: `""`, ` 1e400 `: `1e400`, `"é "`: `"é "`,
	} {
		if got := string(appendCompact(nil, []byte(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func FuzzCompact(f *testing.F) {
	for _, seed := range []string{`{"a": "b \" \\"}`, `[1, 2]`, `" "`, `"`, `"\`, ` `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := appendCompact(nil, text)
		var want bytes.Buffer
		if json.Compact(&want, text) == nil && !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%q: %q, want %q", text, got, want.Bytes())
		}
	})
}

func TestKeysAreTheBytesOfThePartitionKey(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", " ", "ord-1", "42", "3F2504E0-4F89-11D3-9A0C-0305E82C3301", `a"b`, "trailing ", "Ünï", strings.Repeat("k", 10_000)} {
		r := &rendered(&relay.Event{PartitionKey: key, Payload: []byte("1")}).rec
		if r.Key == nil || string(r.Key) != key {
			t.Errorf("key %q, want %q", r.Key, key)
		}
	}
	if got := planner().Partition(&rendered(&relay.Event{}).rec, 12); got != 9 {
		t.Errorf("the empty key goes to partition %d of 12, want 9 as in Java", got)
	}
}

func TestHeadersOfTheRowFollowTheStandardOnes(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("01A2282D-9A16-738D-8754-200AAFDA256B")
	for text, want := range map[string][]kgo.RecordHeader{
		"":                               nil,
		`{}`:                             nil,
		`null`:                           nil,
		`{"a": null}`:                    {{Key: "a", Value: nil}},
		`{"b": ""}`:                      {{Key: "b", Value: []byte{}}},
		`{"c": 1, "d": true, "e": 1.10}`: {{Key: "c", Value: []byte("1")}, {Key: "d", Value: []byte("true")}, {Key: "e", Value: []byte("1.10")}},
		`{"e": {"x": [1, "a b"]}}`:       {{Key: "e", Value: []byte(`{"x":[1,"a b"]}`)}},
		`{"l": [1, 2]}`:                  {{Key: "l", Value: []byte(`[1,2]`)}},
		`{"f": "ü\n\u00e9\""}`:           {{Key: "f", Value: []byte("ü\né\"")}},
		`{"z": "1", "a": "2"}`:           {{Key: "z", Value: []byte("1")}, {Key: "a", Value: []byte("2")}},
		`{"x-event-id": "mine", "x-event-type": {"a": 1}, "k": "v"}`: {{Key: "k", Value: []byte("v")}},
	} {
		it := rendered(&relay.Event{EventID: id, Type: "t.v1", Payload: []byte("1"), Headers: []byte(text)})
		all := append([]kgo.RecordHeader{
			{Key: "x-event-id", Value: []byte("01a2282d-9a16-738d-8754-200aafda256b")}, {Key: "x-event-type", Value: []byte("t.v1")},
		}, want...)
		if it.broken != nil || !reflect.DeepEqual(it.rec.Headers, all) {
			t.Errorf("%s: %q, %v; want %q", text, it.rec.Headers, it.broken, all)
		}
	}
}

func TestHeadersThatAreNoObjectAreTheEventsFault(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`[]`, `"secret"`, `1`, `{"a":`, `{"secret" 1}`, `{"a": secret}`, `{} {}`, `{"a": 1} secret`} {
		err := rendered(&relay.Event{EventID: uuid.New(), Payload: []byte("1"), Headers: []byte(text)}).broken
		if err == nil || err.Code != codeHeaders || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v, want one without the text", text, err)
		}
	}
}

func TestARowWithoutIDOrPayloadIsTheEventsFault(t *testing.T) {
	t.Parallel()
	for code, e := range map[string]*relay.Event{
		codeEventID: {Payload: []byte("1")},
		codePayload: {EventID: uuid.New()},
	} {
		if err := rendered(e).broken; err == nil || err.Code != code || err.Class != relay.ClassEvent {
			t.Errorf("got %v, want an event's fault of code %s", err, code)
		}
	}
	for _, payload := range []string{"null", "{}", "[]", `""`} {
		it := rendered(&relay.Event{EventID: uuid.New(), Payload: []byte(payload)})
		if it.broken != nil || string(it.rec.Value) != payload {
			t.Errorf("payload %s: value %q, %v", payload, it.rec.Value, it.broken)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add([]byte(`{"a": "b", "c": null, "d": {"e": [1]}}`))
	f.Add([]byte(`{"a"`))
	f.Fuzz(func(t *testing.T, text []byte) {
		headers, err := appendRowHeaders(nil, text)
		var object map[string]json.RawMessage
		if isObject := json.Unmarshal(text, &object) == nil && object != nil; isObject != (err == nil) {
			t.Errorf("%q: %d headers, %v; an object: %t", text, len(headers), err, isObject)
		}
	})
}

func TestAllocationsDoNotGrowWithTheEventsOfACall(t *testing.T) {
	allocations := func(n int) float64 {
		events := make([]*relay.Event, n)
		for i := range events {
			events[i] = event(i, "t", "k")
		}
		return testing.AllocsPerRun(20, func() { newCall(events, nil) })
	}
	if few, many := allocations(2), allocations(2000); many > few {
		t.Errorf("%v allocations for 2 events, %v for 2000", few, many)
	}
}

func BenchmarkCompact(b *testing.B) {
	var payload []byte
	for i := range 9 {
		payload = fmt.Appendf(payload, `, "field%d": "some words, and more"`, i)
	}
	payload = append([]byte(`{"amount": 12.50`), append(payload, '}')...)
	dst := make([]byte, 0, len(payload))
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		dst = appendCompact(dst[:0], payload)
	}
}
