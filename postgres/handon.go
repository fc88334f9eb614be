package postgres

import (
	"slices"

	"github.com/outbox-relay/outbox/relay"
)

// takeIn moves the reader on by an answer, and returns what is to be handed on: what was found in holes comes first, then the walk's page,
// then the head. Each part is in the order of ids and no key has a newer event in an earlier part, so no key is turned.
func (r *reader) takeIn(q *question, a *answer) relay.Batch {
	walkFull := r.walk != nil && a.full(kindPage, q)
	events := r.older(a)
	events = r.newer(events, a.head, walkFull)
	events = r.newer(events, a.beyond, walkFull)
	more := walkFull || r.next != nil

	r.count.finds += len(a.finds)
	r.holes.strike(visible(a))
	r.holes.lookedAt(q.look, a.snapshot)
	more = r.moveHead(q, a) || more
	more = q.beyond && r.moveBeyond(q, a) || more
	r.moveWalk(a.page, walkFull)
	return relay.Batch{Events: events, More: more, Walking: r.walking(), OpenWriters: r.holes.writers(), Holes: r.holes.ranges(), Now: a.now}
}

// older returns what is to be handed on of the finds and the page. A find that the walk has yet to come to is left to it: this page or a
// later one has it, together with what is older of its key. So what is left of the finds is, key by key, older than the page.
func (r *reader) older(a *answer) []*relay.Event {
	events := make([]*relay.Event, 0, len(a.finds)+len(a.page)+len(a.head))
	for _, f := range a.finds {
		if f.event != nil && !r.walk.awaits(f.event) && !r.next.awaits(f.event) {
			events = append(events, f.event)
		}
	}
	for _, p := range a.page {
		if p.event != nil && !r.next.awaits(p.event) {
			events = append(events, p.event)
		}
	}
	return events
}

// newer appends what is to be handed on of rows above the position. When the walk's page came back short, it has shown all that is older
// of its keys in this same snapshot, so nothing needs to be left to it any more.
func (r *reader) newer(events []*relay.Event, rows []row, walkFull bool) []*relay.Event {
	for _, n := range rows {
		if n.event != nil && !r.next.awaits(n.event) && !(walkFull && r.walk.awaits(n.event)) {
			events = append(events, n.event)
		}
	}
	return events
}

// visible returns the ids that are no holes any more, sorted. A row of a page that does not match was not handed on, so it stays in its
// hole, to be found by a look.
func visible(a *answer) []int64 {
	ids := make([]int64, 0, len(a.finds)+len(a.page))
	for _, f := range a.finds {
		ids = append(ids, f.id)
	}
	for _, p := range a.page {
		if p.event != nil {
			ids = append(ids, p.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// full tells that a part was cut: it has as many rows as it was to pass, or left some out.
func (a *answer) full(kind int32, q *question) bool {
	return len(*a.rows(kind)) >= q.rows(int(kind)) || a.cut[kind]
}

// moveWalk moves the walk to the end of its page; a page that is not full ends it, and the next one begins.
func (r *reader) moveWalk(page []row, full bool) {
	switch {
	case r.walk == nil:
	case full:
		r.walk.pos = page[len(page)-1].id
		r.walk.density.learn(len(page), wanted(page))
		r.walk.sieve.learn(len(page), wanted(page), r.walk.lanes.density())
	default:
		r.walk, r.next = r.next, nil
		// The walk has not seen what lies above the sequence.
		r.beyondDue, r.beyond = true, beginning
	}
}

// moveHead moves the position, and tells whether there may be more above it.
func (r *reader) moveHead(q *question, a *answer) (more bool) {
	head, full := a.head, a.full(kindHead, q)
	if full {
		r.density.learn(len(head), wanted(head))
	}
	if r.walking() {
		if full {
			r.sieve.learn(len(head), wanted(head), r.lanes.density())
			r.pos = head[len(head)-1].id
			return true
		}
		r.pos = r.cursor
		return true
	}
	if len(head) == 0 {
		return false
	}
	if r.fault != faultCloseAtOnce {
		r.holes.add(gaps(r.cursor, head))
	}
	r.cursor = head[len(head)-1].id
	r.pos = r.cursor
	return full
}

// gaps returns the ids above cursor that the head has passed.
func gaps(cursor int64, head []row) []span {
	var spans []span
	for _, h := range head {
		spans = appendSpan(spans, cursor+1, h.id-1)
		cursor = h.id
	}
	return spans
}

// moveBeyond moves the position above the sequence, and tells whether there may be more.
func (r *reader) moveBeyond(q *question, a *answer) (more bool) {
	rows := a.beyond
	if a.full(kindBeyond, q) {
		r.beyond = rows[len(rows)-1].id
		return true
	}
	r.beyondDue = false
	return false
}
