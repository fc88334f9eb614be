package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/outbox-relay/outbox/operate"
)

// eager is how long a list goes on from window to window when they hold nothing.
const eager = 100 * time.Millisecond

// Events implements [operate.Lookups]. Every stream gives its first events behind the cursor; the page is the first of all of them.
func (s *Store) Events(ctx context.Context, limit time.Duration, q operate.EventQuery) (operate.EventPage, error) {
	return see(ctx, s, limit, "list events", func(ctx context.Context, l survey) (operate.EventPage, error) {
		began := s.now()
		p, err := l.events(ctx, q)
		for err == nil && len(p.Events) == 0 && p.Next != "" && s.now().Sub(began) < eager {
			q.After = p.Next
			looks := p.Looks
			p, err = l.events(ctx, q)
			if p.Looks = joined(looks, p.Looks); p.Next == "" {
				// Nothing was left out in the end.
				p.Looks = nil
			}
		}
		if err == nil {
			err = l.addKept(ctx, p.Events)
		}
		return p, err
	})
}

// joined are the looks of pages that follow each other.
func joined(before, now []operate.Look) []operate.Look {
	for _, n := range now {
		i := slices.IndexFunc(before, func(b operate.Look) bool { return b.What == n.What })
		if i < 0 {
			before = append(before, n)
			continue
		}
		before[i].Events, before[i].To = before[i].Events+n.Events, n.To
	}
	return before
}

func (l survey) events(ctx context.Context, q operate.EventQuery) (operate.EventPage, error) {
	streams := streamsOf(q.EventFilter)
	c, err := parseCursor(q.After, fingerprint("events", q.EventFilter, q.Order), names(streams))
	if err != nil {
		return operate.EventPage{}, err
	}
	pages := map[string]page{}
	estimated := ""
	for _, st := range streams {
		from, begun := c.Streams[st.name]
		if begun && from == nil {
			continue
		}
		narrow := q
		if st.name == settledStream {
			if narrow, estimated, err = l.narrowed(ctx, q); err != nil {
				return operate.EventPage{}, err
			}
		}
		if pages[st.name], err = l.read(ctx, st, narrow, from); err != nil {
			return operate.EventPage{}, err
		}
	}
	p := merge(streams, pages, c, q)
	p.Estimated = estimated
	return p, nil
}

func positionOf(e operate.Event) position { return position{e.ID, e.EventID} }

// merge makes one page of those of the streams. Where the window of a stream ended before the page did, the stream goes on there.
func merge(streams []stream, pages map[string]page, c cursor, q operate.EventQuery) operate.EventPage {
	result := operate.EventPage{Events: []operate.Event{}}
	for _, p := range pages {
		result.Events = append(result.Events, p.events...)
	}
	slices.SortStableFunc(result.Events, func(a, b operate.Event) int {
		switch {
		case positionOf(b).behind(positionOf(a), q.Order):
			return -1
		case positionOf(a).behind(positionOf(b), q.Order):
			return 1
		}
		return 0
	})
	var last *position
	if len(result.Events) > q.Limit {
		result.Events = result.Events[:q.Limit]
		p := positionOf(result.Events[q.Limit-1])
		last = &p
	}
	next := cursor{Query: c.Query, Streams: map[string]*position{}}
	for _, st := range streams {
		p, read := pages[st.name]
		next.Streams[st.name] = nil
		if !read {
			continue
		}
		next.Streams[st.name] = p.goesOn(last, q.Order)
		if p.look != nil && (last == nil || last.behind(*p.end, q.Order)) {
			result.Looks = append(result.Looks, *p.look)
		}
	}
	if !next.over(names(streams)) {
		result.Next = next.String()
	}
	return result
}

// goesOn is where the stream goes on after a page that ended at last, or was not full; nil when it has ended.
func (p page) goesOn(last *position, order operate.Order) *position {
	switch {
	case last == nil:
		return p.end
	case p.end != nil && last.behind(*p.end, order):
		return p.end
	case p.end != nil, len(p.events) > 0 && positionOf(p.events[len(p.events)-1]).behind(*last, order):
		return last
	}
	return nil
}
