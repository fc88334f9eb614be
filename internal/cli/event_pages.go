package cli

import (
	"context"

	"github.com/outbox-relay/outbox/operate"
)

// eventPages lists one page, or with all goes on through as many as it takes until the page is full.
func eventPages(ctx context.Context, s *operate.Service, q operate.EventQuery, all bool) (operate.EventPage, error) {
	page, err := s.Events(ctx, me(), q)
	limit := q.Limit
	for err == nil && all && page.Next != "" && len(page.Events) < limit {
		var more operate.EventPage
		q.After, q.Limit = page.Next, limit-len(page.Events)
		if more, err = s.Events(ctx, me(), q); err != nil {
			break
		}
		page.Events = append(page.Events, more.Events...)
		page.Looks = joined(page.Looks, more.Looks)
		page.Next = more.Next
		if page.Estimated == "" {
			page.Estimated = more.Estimated
		}
	}
	return page, err
}

// joined adds what a page has looked at to what those before it have: windows of a kind follow each other.
func joined(looks, more []operate.Look) []operate.Look {
	for _, m := range more {
		known := false
		for i := range looks {
			if l := &looks[i]; l.What == m.What {
				l.Events, l.To, l.Ended, known = l.Events+m.Events, m.To, m.Ended, true
			}
		}
		if !known {
			looks = append(looks, m)
		}
	}
	return looks
}
