package operate

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTwoRedrivesOfATopicDoNotSendItTwice(t *testing.T) {
	t.Parallel()
	under := func(id int64, s LetterSelection) JobEntry {
		filter, err := json.Marshal(Redrive{LetterSelection: s})
		if err != nil {
			t.Fatal(err)
		}
		return JobEntry{ID: id, Filter: filter, Actor: "bob"}
	}
	for name, c := range map[string]struct {
		job     JobEntry
		refused bool
	}{
		"by its topic":         {under(6, LetterSelection{Topics: []string{"shop.order"}}), true},
		"by its letters":       {under(6, LetterSelection{Refs: []LetterRef{{"shop.order-dlt", 0, 3}}}), true},
		"another topic":        {under(6, LetterSelection{Topics: []string{"shop.order.eu"}}), false},
		"a later one":          {under(8, LetterSelection{Topics: []string{"shop.order"}}), false},
		"this one":             {under(7, LetterSelection{Topics: []string{"shop.order"}}), false},
		"a filter of any kind": {JobEntry{ID: 6, Filter: []byte("7")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, s := newOffice(t, 10, 1)
			o.running = []JobEntry{c.job}
			_, err := s.Redrive(t.Context(), boss, all(), RedriveConfirmed{Any: true}, o, nil)
			if refused := CodeOf(err) == CodeConflict; refused != c.refused || refused != (len(o.sent) == 0) {
				t.Fatalf("sent %d, error %v", len(o.sent), err)
			}
			if c.refused && (!strings.Contains(err.Error(), "outbox jobs cancel 6") || !strings.Contains(err.Error(), "bob")) {
				t.Errorf("it does not name the other: %v", err)
			}
		})
	}
}
