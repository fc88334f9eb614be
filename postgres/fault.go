package postgres

import "context"

// fault is a way to be wrong. Only tests set one: a stress test that does not notice it proves nothing.
type fault int

const (
	// faultCloseAtOnce takes every hole for an id that nobody will fill.
	faultCloseAtOnce fault = iota + 1
	// faultEarlierLook looks at the holes in an earlier snapshot than at the head.
	faultEarlierLook
	// faultNoLookAfterChange leaves groups out that no read has looked at since their holders changed.
	faultNoLookAfterChange
)

// put puts the question; unless the reader is wrong on purpose, in one statement.
func (r *reader) put(ctx context.Context, q *question) (*answer, error) {
	r.count.reads++
	if r.fault != faultEarlierLook {
		return r.fetch(ctx, q)
	}
	early, err := r.fetch(ctx, &question{limit: q.limit, look: q.look, noHead: true})
	if err != nil {
		return nil, err
	}
	if r.betweenLooks != nil {
		r.betweenLooks()
	}
	late := *q
	late.look = nil
	a, err := r.fetch(ctx, &late)
	if err != nil {
		return nil, err
	}
	a.finds, a.snapshot = early.finds, early.snapshot
	return a, nil
}

// applyFault follows every change of holders.
func (r *reader) applyFault() {
	if r.fault != faultNoLookAfterChange {
		return
	}
	for _, g := range r.holes.groups {
		g.looked = true
	}
}
