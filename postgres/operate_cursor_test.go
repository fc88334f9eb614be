package postgres

import (
	"errors"
	"math"
	"testing"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/operate"
)

func TestACursorIsShortAndReadsBackAsItWas(t *testing.T) {
	t.Parallel()
	query := fingerprint("events", "x")
	streams := []string{"a", "history", "u"}
	event := uuid.MustParse("0190f6c2-7d1e-7a55-8f0e-2f3c9a3d5b11")
	for most, c := range map[int]map[string]*position{
		0:  {},
		18: {"u": {ID: 4711}},
		14: {"a": nil},
		19: {"a": {ID: -5, EventID: uuid.Max}},
		44: {"u": {ID: 4_711_000, EventID: event}},
		99: {"a": {ID: math.MaxInt64, EventID: event}, "history": {ID: math.MinInt64}, "u": nil},
	} {
		text := cursor{query, c}.String()
		if most > 0 && len(text) > most {
			t.Errorf("%q has %d characters, want %d at most", text, len(text), most)
		}
		got, err := parseCursor(text, query, streams)
		if err != nil {
			t.Fatal(err)
		}
		same(t, text, got, cursor{query, c})
	}
}

func TestACursorThatWasCutIsNone(t *testing.T) {
	t.Parallel()
	query := fingerprint("events", "x")
	whole := cursor{query, map[string]*position{"a": {ID: 17}, "u": {ID: 4711, EventID: uuid.MustParse("0190f6c2-7d1e-7a55-8f0e-2f3c9a3d5b11")}}}.String()
	for n := 1; n < len(whole); n++ {
		if _, err := parseCursor(whole[:n], query, []string{"a", "u"}); err == nil {
			t.Errorf("the first %d characters of %s are taken for a cursor", n, whole)
		}
	}
	_, err := parseCursor(whole, query, []string{"a", "v"})
	wantText(t, err, "another version")
	_, err = parseCursor(whole, fingerprint("events", "y"), []string{"u"})
	wantText(t, err, "another list")
}

func FuzzACursor(f *testing.F) {
	query := fingerprint("events")
	f.Add("")
	f.Add(cursor{query, map[string]*position{"u": {ID: 4711}, "a": nil}}.String())
	f.Add(cursor{query, map[string]*position{"u": {ID: 1, EventID: uuid.New()}}}.String() + "AA")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseCursor(s, query, []string{"a", "u"})
		if err != nil {
			var refused *operate.Error
			if !errors.As(err, &refused) || refused.Code != operate.CodeInvalid {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		again, err := parseCursor(c.String(), query, []string{"a", "u"})
		if err != nil || again.String() != c.String() {
			t.Errorf("%q reads as %s and then as %s: %v", s, c, again, err)
		}
	})
}
