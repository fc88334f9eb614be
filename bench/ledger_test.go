package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// number n of the events; its id is n as well.
func event(n byte) uuid.UUID { return uuid.UUID{15: n} }

func record(key string, n byte) *kgo.Record {
	return &kgo.Record{Key: []byte(key), Headers: []kgo.RecordHeader{{Key: "x-event-type"}, {Key: "x-event-id", Value: []byte(event(n).String())}}}
}

func TestTheAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		records []*kgo.Record
		want    string // "" for sound
	}{
		"all there":             {[]*kgo.Record{record("a", 1), record("b", 2), record("a", 3)}, ""},
		"keys may be mixed":     {[]*kgo.Record{record("b", 2), record("a", 1), record("a", 3)}, ""},
		"one lost":              {[]*kgo.Record{record("a", 1), record("b", 2)}, "1 are lost, 0 repeated"},
		"one repeated":          {[]*kgo.Record{record("a", 1), record("b", 2), record("a", 1), record("a", 3)}, "0 are lost, 1 repeated"},
		"a key turned":          {[]*kgo.Record{record("a", 3), record("b", 2), record("a", 1)}, "1 behind a later one"},
		"lost behind a repeat":  {[]*kgo.Record{record("a", 1), record("b", 2), record("b", 2)}, "1 are lost, 1 repeated"},
		"one more than written": {[]*kgo.Record{record("a", 1), record("b", 2), record("a", 3), record("a", 4)}, "1 records are foreign"},
		"one without an id":     {[]*kgo.Record{record("a", 1), record("b", 2), record("a", 3), {}}, "1 records are foreign"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAudit(ledger{event(1): 1, event(2): 2, event(3): 3})
			for _, r := range c.records {
				a.record(r)
			}
			got := fmt.Sprint(a.verdict())
			if c.want == "" && got != "<nil>" || !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %q", got, c.want)
			}
		})
	}
}
