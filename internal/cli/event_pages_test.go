package cli

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/operate"
)

// shelves are pages, of which only some have events.
type shelves struct {
	operate.Lookups
	operate.Changes
	pages [][]int64
}

func (s shelves) Events(_ context.Context, _ time.Duration, q operate.EventQuery) (operate.EventPage, error) {
	at, _ := strconv.Atoi(q.After)
	p := operate.EventPage{Looks: []operate.Look{{What: "settled events", Events: 10, From: int64(10 * at), To: int64(10*at + 9), Ended: at == len(s.pages)-1}}}
	for _, id := range s.pages[at] {
		p.Events = append(p.Events, operate.Event{ID: id})
	}
	if at++; at < len(s.pages) {
		p.Next = strconv.Itoa(at)
	}
	return p, nil
}

func TestAllPagesGoOnUntilTheyAreFull(t *testing.T) {
	t.Parallel()
	s, err := operate.New(shelves{pages: [][]int64{{1, 2}, {}, {}, {3}, {4}}}, nil, operate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		all    bool
		limit  int
		events int
		next   string
		to     int64
	}{
		"one page":   {false, 50, 2, "1", 9},
		"full":       {true, 3, 3, "4", 39},
		"to the end": {true, 50, 4, "", 49},
	} {
		p, err := eventPages(t.Context(), s, operate.EventQuery{Limit: c.limit}, c.all)
		if err != nil || len(p.Events) != c.events || p.Next != c.next || len(p.Looks) != 1 || p.Looks[0].From != 0 || p.Looks[0].To != c.to || p.Looks[0].Events != c.to+1 {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}
