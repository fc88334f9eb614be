package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An event may end the relay that publishes it: by the memory that it takes, by a fault in a library. The relays would die of it one after the other. A lane whose owner
// has not given it back is therefore published with care: before anything is made of some events, it is written down that they were tried, and taken back when the relay
// has outlived it. Events of which that was never taken back go alone, and after too many of those deaths the event's key is parked.
//
// Care ends when what was unpublished when the lane was taken is done with, or after as many events as the owner before can have had in flight. A relay that takes
// lanes which were given back pays nothing.

const (
	// carefulWindow is how many events are tried together.
	carefulWindow = 50
	// maxCrashes is how many relays an event may end.
	maxCrashes = 5
	// survival is how long the relay has to outlive events of which Kafka does not say anything; leastSurvival what it comes down to, by halves, while that happens again and
	// again: brokers that are away must not make the lanes wait for them.
	survival      = 10 * time.Second
	leastSurvival = 50 * time.Millisecond
)

// careful holds back what is to be published with care.
type careful struct {
	// active is read for each publish; false costs nothing.
	active atomic.Bool
	// more is set when there is something in the queue.
	more signal

	mu sync.Mutex
	// lanes are those that need care, version rises when there are more.
	lanes   laneSet
	version int
	// left is how many events there are to come before care ends in any case.
	left, limit int
	closed      bool
	queue       []*Event
	// trying counts the events of a key that were sent and have no outcome. failed are keys of which one has failed: what is queued of them is not sent.
	trying map[Key]int
	failed map[Key]struct{}
	// crashes are the deaths that are written down.
	crashes map[Ref]int
}

func newCareful(lanes, limit int) *careful {
	return &careful{more: newSignal(), lanes: newLaneSet(lanes, nil), limit: limit, trying: map[Key]int{}, failed: map[Key]struct{}{}, crashes: map[Ref]int{}}
}

// add takes lanes that need care. It comes before the reader takes them.
func (c *careful) add(lanes []int32) {
	if len(lanes) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lanes.add(lanes)
	c.left = c.limit
	c.version++
	c.active.Store(true)
}

// suspect notes an event that may have ended relays before.
func (c *careful) suspect(f Failing) {
	c.mu.Lock()
	c.crashes[f.Event] = f.Crashes
	lane := c.lanes.of(f.Key)
	c.mu.Unlock()
	c.add([]int32{lane})
}

// take keeps the events of lanes that need care, and returns the others.
func (c *careful) take(events []*Event) (others []*Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.lanes.n == 0 {
		return events
	}
	for _, e := range events {
		if c.lanes.has(e.Key()) {
			c.queue = append(c.queue, e)
		} else {
			others = append(others, e)
		}
	}
	if len(c.queue) > 0 {
		c.more.set()
	}
	return others
}

// at is the lanes' version, for end.
func (c *careful) at() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// end ends the care for the lanes of that version: all that was unpublished when they were taken is done with. What is queued is still tried with care.
func (c *careful) end(version int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == version {
		c.left = 0
		c.rest()
	}
}

// rest takes no more when no more events are to come.
func (c *careful) rest() {
	if c.left > 0 {
		return
	}
	c.lanes = newLaneSet(len(c.lanes.held), nil)
	if len(c.queue) == 0 {
		c.active.Store(false)
	}
}

// leave gives back what is queued of the lanes: another relay will publish it.
func (c *careful) leave(lanes []int32) (dropped []*Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lanes.remove(lanes)
	return c.drop(func(e *Event) bool { return slices.Contains(lanes, c.lanes.of(e.Key())) })
}

// close gives back all that is queued.
func (c *careful) close() (dropped []*Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.drop(func(*Event) bool { return true })
}

func (c *careful) drop(which func(*Event) bool) (dropped []*Event) {
	c.queue = slices.DeleteFunc(c.queue, func(e *Event) bool {
		gone := which(e)
		if gone {
			dropped = append(dropped, e)
		}
		return gone
	})
	return dropped
}

// window is what is to be done next: events to be tried together, those that are not to be tried because an earlier one of their key has failed, and one
// that has ended too many relays.
type window struct {
	try, behind []*Event
	culprit     *Event
	crashes     int
}

func (w window) empty() bool { return len(w.try)+len(w.behind) == 0 && w.culprit == nil }

// next takes a window from the queue. Of keys that have events without an outcome nothing is taken.
func (c *careful) next() (w window) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failed) > 0 {
		w.behind = c.drop(func(e *Event) bool {
			_, failed := c.failed[e.Key()]
			return failed
		})
		clear(c.failed)
	}
	waiting := map[Key]struct{}{}
	end := false
	c.queue = slices.DeleteFunc(c.queue, func(e *Event) (taken bool) {
		key := e.Key()
		if end {
			return false
		}
		if _, waits := waiting[key]; waits || c.trying[key] > 0 && !w.has(key) {
			waiting[key] = struct{}{}
			return false
		}
		taken, end = c.put(&w, e)
		if !taken {
			waiting[key] = struct{}{}
		}
		return taken
	})
	c.left -= len(w.try) + len(w.behind)
	return w
}

// put puts an event into the window if there is room for it; end tells that there is for no other.
func (c *careful) put(w *window, e *Event) (taken, end bool) {
	crashes := c.crashes[e.Ref()]
	switch {
	case crashes > 0 && len(w.try) > 0:
		return false, true
	case crashes >= maxCrashes:
		w.culprit, w.crashes = e, crashes
		c.failed[e.Key()] = struct{}{}
		return true, true
	}
	w.try = append(w.try, e)
	c.trying[e.Key()]++
	return true, crashes > 0 || len(w.try) == carefulWindow
}

// has tells whether the window has an event of the key.
func (w *window) has(key Key) bool {
	return slices.ContainsFunc(w.try, func(e *Event) bool { return e.Key() == key })
}

// answered takes the outcome of an event that was tried.
func (c *careful) answered(e *Event, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := e.Key()
	if c.trying[key]--; c.trying[key] == 0 {
		delete(c.trying, key)
	}
	if slices.ContainsFunc(c.queue, func(q *Event) bool { return q.Key() == key }) {
		if err != nil {
			c.failed[key] = struct{}{}
		}
		c.more.set()
	}
}

// survived takes that the relay has outlived events.
func (c *careful) survived(events []*Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		delete(c.crashes, e.Ref())
	}
	c.rest()
}

var errBehind = &PublishError{Class: ClassHeld, Code: "HELD_BEHIND_ANOTHER", Err: errors.New("not sent: an earlier event of its key failed, or its lane is given back")}

// giveBack ends events that were not tried.
func (t *term) giveBack(events []*Event) {
	for _, e := range events {
		t.done(e, errBehind)
	}
}

// care is what the reader knows of the lanes that need care.
type care struct {
	version int
	// walked tells that all that was unpublished when the lanes were taken was read, left what of it is in flight.
	walked bool
	left   []Ref
}

// endCare ends the care when what was unpublished in the lanes is done with, all that this relay had when the turn began.
func (r *reader) endCare(batch Batch, version int) {
	if !r.careful.active.Load() {
		return
	}
	if version != r.care.version {
		r.care = care{version: version}
	}
	if !r.care.walked {
		released, _, _ := r.gate.rest()
		if batch.Walking || released || r.gaining() {
			return
		}
		r.care.walked, r.care.left = true, r.gate.refs()
	}
	if r.care.left = slices.DeleteFunc(r.care.left, func(ref Ref) bool { return !r.gate.flies(ref) }); len(r.care.left) == 0 {
		r.careful.end(version)
	}
}

// giveBackUntried ends events of lanes that are given back.
func (t *term) giveBackUntried(lanes []int32) { t.giveBack(t.careful.leave(lanes)) }

// publishCarefully tries what is queued, window by window, until stop ends. The queue is closed before that.
func (t *term) publishCarefully(stop, work context.Context) error {
	patience := survival
	for {
		select {
		case <-stop.Done():
			return nil
		case <-t.careful.more:
		}
		for w := t.careful.next(); !w.empty(); w = t.careful.next() {
			t.giveBack(w.behind)
			if w.culprit != nil {
				t.done(w.culprit, crashLoop(w.culprit, w.crashes))
			}
			if len(w.try) == 0 {
				continue
			}
			silent, err := t.tryWindow(work, w.try, patience)
			if err != nil {
				return err
			}
			if patience = max(patience/2, leastSurvival); !silent {
				patience = survival
			}
		}
	}
}

func crashLoop(e *Event, crashes int) error {
	return &PublishError{Class: ClassEvent, Code: CodeCrashLoop, Topic: e.Topic, Err: fmt.Errorf(
		"%d relays have ended while they were publishing this event: look at their last log lines, at the memory they had and at the event's size; skip it, or let it go on when that is mended", crashes)}
}

// tryWindow publishes events with care. It returns when all have their outcome, or, silent, when the relay has outlived them for long enough.
func (t *term) tryWindow(ctx context.Context, events []*Event, patience time.Duration) (silent bool, err error) {
	if err := t.source.Begin(ctx, t.keeper.current(), events); err != nil {
		for _, e := range events {
			t.careful.answered(e, errBehind)
		}
		t.giveBack(events)
		return false, fmt.Errorf("write down what is tried: %w", err)
	}
	t.cfg.step("begun")
	r := newTrial(len(events))
	t.publisher.Publish(events, func(e *Event, err error) {
		t.careful.answered(e, err)
		r.note(e, err)
		t.done(e, err)
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.over:
	case <-timer.C:
		silent = true
	case <-ctx.Done():
	}
	published := r.result()
	t.careful.survived(events)
	var survived []Ref
	for _, e := range events {
		if ref := e.Ref(); !slices.Contains(published, ref) {
			survived = append(survived, ref)
		}
	}
	if err := t.source.Clear(ctx, published, survived); err != nil {
		return silent, fmt.Errorf("take back what was tried: %w", err)
	}
	return silent, nil
}

// trial collects the outcomes of a window.
type trial struct {
	// over is closed when all are there.
	over chan struct{}

	mu        sync.Mutex
	left      int
	published []Ref
}

func newTrial(events int) *trial { return &trial{over: make(chan struct{}), left: events} }

func (r *trial) note(e *Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.published = append(r.published, e.Ref())
	}
	if r.left--; r.left == 0 {
		close(r.over)
	}
}

func (r *trial) result() (published []Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.published)
}
