package operate

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// shelf is a store that has one event, and notes what it was asked for.
type shelf struct {
	Store
	query EventQuery
	limit time.Duration
}

func (s *shelf) Events(_ context.Context, limit time.Duration, q EventQuery) (EventPage, error) {
	s.query, s.limit = q, limit
	return EventPage{}, nil
}

func (s *shelf) Event(_ context.Context, _ time.Duration, ref Ref) (EventDetail, error) {
	value := "blue"
	d := EventDetail{Extra: []Column{{"tenant", &value}}}
	d.ID, d.Payload, d.Headers = ref.ID, Text(`{"n": 1}`), Text(`{}`)
	return d, nil
}

// press makes a record of every event but the id 13.
type press struct{}

func (press) Render(row Row) (Record, error) {
	if row.ID == 13 {
		return Record{}, errors.New("no luck")
	}
	return Record{Key: "k", Value: row.Payload, Headers: []RecordHeader{{"x", "y"}}}, nil
}

func newService(t *testing.T, c Cluster, cfg Config) (*Service, *shelf) {
	t.Helper()
	store := &shelf{}
	s, err := New(store, c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, store
}

func TestAServiceIsConfigured(t *testing.T) {
	t.Parallel()
	_, err := New(nil, nil, Config{LookTimeout: -1})
	if CodeOf(err) != CodeInvalid || !strings.Contains(err.Error(), "store is nil") || !strings.Contains(err.Error(), "negative") {
		t.Errorf("New of nothing = %v, want both problems", err)
	}
	s, store := newService(t, nil, Config{})
	if _, err := s.Events(t.Context(), Actor{}, EventQuery{}); err != nil {
		t.Fatal(err)
	}
	if store.limit != DefaultLookTimeout || store.query.Limit != DefaultPage || store.query.Order != NewestFirst || store.query.State != StateAny {
		t.Errorf("the store was asked for %+v within %s, want the defaults", store.query, store.limit)
	}
}

func TestOnlyAnOperatorSeesPayloads(t *testing.T) {
	t.Parallel()
	s, _ := newService(t, press{}, Config{})
	for name, c := range map[string]struct {
		actor    Actor
		withheld bool
	}{
		"nobody":            {Actor{}, true},
		"viewer":            {Actor{"ann", Viewer}, true},
		"nameless operator": {Actor{"", Operator}, true},
		"operator":          {Actor{"ann", Operator}, false},
		"admin":             {Actor{"ann", Admin}, false},
	} {
		d, err := s.Event(t.Context(), c.actor, Ref{ID: 1})
		if err != nil {
			t.Fatal(err)
		}
		hidden := d.Payload == nil && d.Headers == nil && d.Extra == nil && d.Record.Value == nil && d.Record.Headers == nil
		if d.Withheld != c.withheld || hidden != c.withheld || d.Record.Key != "k" {
			t.Errorf("%s: got %+v, %+v", name, d, d.Record)
		}
	}
	d, err := s.Event(t.Context(), Actor{"ann", Operator}, Ref{ID: 13})
	if err != nil || d.Record != nil || d.Unrenderable != "no luck" {
		t.Errorf("an event that cannot become a record = %+v, %v", d, err)
	}
}

func TestAnImpossibleQueryIsRefusedWithAllThatIsWrong(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	s, store := newService(t, nil, Config{})
	for name, c := range map[string]struct {
		q    EventQuery
		want []string
	}{
		"state, limit, order": {EventQuery{EventFilter: EventFilter{State: "gone"}, Limit: -1, Order: "up"}, []string{`state "gone"`, "limit -1: want 1 to 500", `order "up"`}},
		"a large limit":       {EventQuery{Limit: 501}, []string{"limit 501"}},
		"ages":                {EventQuery{EventFilter: EventFilter{MinAge: -1}}, []string{"an age is negative"}},
		"no age":              {EventQuery{EventFilter: EventFilter{MinAge: 2, MaxAge: 1}}, []string{"no event is older than 2ns and younger than 1ns"}},
		"no time":             {EventQuery{EventFilter: EventFilter{CreatedFrom: noon, CreatedUntil: noon}}, []string{"no event is from 2026-01-01T12:00:00Z on and before"}},
		"a year":              {EventQuery{EventFilter: EventFilter{CreatedFrom: noon.AddDate(9000, 0, 0)}}, []string{"year 11026"}},
		"no id":               {EventQuery{EventFilter: EventFilter{MinID: 2, MaxID: 1}}, []string{"no id is from 2 to 1"}},
		"texts":               {EventQuery{EventFilter: EventFilter{Topic: text("a\x00"), Error: "\xff"}}, []string{`topic "a\x00"`, `error text "\xff"`}},
		"nothing named":       {EventQuery{EventFilter: EventFilter{Refs: []Ref{{}}}}, []string{"no event is named"}},
		"too many":            {EventQuery{EventFilter: EventFilter{Refs: make([]Ref, MaxRefs+1)}}, []string{"1001 events are named"}},
	} {
		_, err := s.Events(t.Context(), Actor{}, c.q)
		if CodeOf(err) != CodeInvalid {
			t.Errorf("%s: got %v, want it refused", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", name, err, want)
			}
		}
	}
	if store.limit != 0 {
		t.Error("the store was asked all the same")
	}
}

func TestARefIsAWholeID(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0190f6c2-7d1e-7a55-8f0e-2f3c9a3d5b11")
	for s, want := range map[string]Ref{
		"4711":                                 {ID: 4711},
		"-5":                                   {ID: -5},
		"9223372036854775807":                  {ID: 9223372036854775807},
		id.String():                            {EventID: id},
		strings.ToUpper(id.String()):           {EventID: id},
		"0":                                    {},
		"":                                     {},
		"12x":                                  {},
		"9223372036854775808":                  {},
		"0190f6c2-7d1e-7a55":                   {},
		"{" + id.String() + "}":                {},
		"urn:uuid:" + id.String():              {},
		"00000000-0000-0000-0000-000000000000": {},
	} {
		got, err := ParseRef(s)
		if got != want || (err != nil) != (want == Ref{}) || err != nil && CodeOf(err) != CodeInvalid {
			t.Errorf("ParseRef(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
}

// A browser would round both the id and the numbers of a payload.
func TestJSONKeepsEveryDigit(t *testing.T) {
	t.Parallel()
	var d EventDetail
	d.ID, d.BlockedBy, d.Payload = 9007199254740993, 9007199254740995, Text(`{"id":1970670598291982290}`)
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"id":"9007199254740993"`, `"blocked_by":"9007199254740995"`, `"payload":"{\"id\":1970670598291982290}"`, `"headers":null`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	var back EventDetail
	if err := json.Unmarshal(text, &back); err != nil || back.ID != d.ID || string(back.Payload) != string(d.Payload) || back.Headers != nil {
		t.Errorf("read back: %+v, %v", back, err)
	}
}
