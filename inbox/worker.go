package inbox

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// What becomes of a record:
//
//	taken ──▶ handled, a repeat, ignored ──────────────────────────────▶ settled
//	   ▲          │ failed                                                  ▲
//	   │          ▼                                                         │
//	   └── wait ◀── an attempt left? ──no──▶ retry topic, dead-letter topic, │
//	        (the key waits)                  skipped, once acknowledged ─────┘

// enqueue makes a queue ready, or has it wait for its first record's time. It is called with the lock held.
func (r *Runner) enqueue(q *queue) {
	if wait := r.notBefore(q.items[0]).Sub(r.cfg.now()); wait > 0 && q.items[0].failed == 0 {
		r.waitFor(q, wait)
		return
	}
	r.ready = append(r.ready, q)
	r.work.Signal()
}

// waitFor makes the queue ready after a while.
func (r *Runner) waitFor(q *queue, d time.Duration) {
	r.stats.Waiting++
	q.waits = true
	r.weigh(q)
	q.timer = time.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stats.Waiting--
		q.waits = false
		r.weigh(q)
		r.ready = append(r.ready, q)
		r.work.Signal()
	})
}

// worker handles one group after the other until the runner stops.
func (r *Runner) worker() {
	for {
		group := r.next()
		if group == nil {
			return
		}
		r.handle(group)
	}
}

// group is what one transaction is to handle: the first records of some queues.
type group struct {
	queues []*queue
	items  []*item
	// timer tells when it is handled for long; done that it is over.
	timer *time.Timer
	done  bool
}

// next waits for records; it returns nil when the runner stops.
func (r *Runner) next() *group {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		switch {
		case r.stopping:
			return nil
		case r.cfg.now().Before(r.away):
			// Whoever declared the database away has set a timer.
		default:
			if g := r.pick(); g != nil {
				return g
			}
		}
		r.work.Wait()
	}
}

func (r *Runner) pick() *group {
	g := &group{}
	for len(r.ready) > 0 && len(g.items) < r.cfg.Batch {
		q := r.ready[0]
		r.ready[0] = nil
		r.ready = r.ready[1:]
		if !q.partition.open {
			continue
		}
		if len(g.queues) > 0 && q.partition != g.queues[0].partition {
			// One context ends the handling of one partition.
			r.ready = slices.Insert(r.ready, 0, q)
			break
		}
		n := r.dueOf(q, min(len(q.items), r.cfg.Batch-len(g.items)))
		g.queues = append(g.queues, q)
		g.items = append(g.items, q.items[:n]...)
		q.partition.busy += n
	}
	if len(g.items) == 0 {
		return nil
	}
	r.watch(g)
	return g
}

// dueOf is how many of the queue's first records need not wait for a time; the first one need not.
func (r *Runner) dueOf(q *queue, n int) int {
	for i := 1; i < n; i++ {
		if r.notBefore(q.items[i]).After(r.cfg.now()) {
			return i
		}
	}
	return n
}

// verdict is what became of a group: which of its items are settled, and how long the keys of others are to wait.
type verdict struct {
	settled []bool
	stuck   map[*queue]time.Duration
	// away is why nothing can be handled at the moment.
	away error
}

func (r *Runner) handle(g *group) {
	ctx := g.queues[0].partition.ctx
	records := make([]*Record, len(g.items))
	for i, it := range g.items {
		records[i] = it.Record
	}
	v := verdict{settled: make([]bool, len(g.items)), stuck: map[*queue]time.Duration{}}
	for n, o := range r.outcomes(ctx, records) {
		it := g.items[n]
		if _, stuck := v.stuck[it.queue]; !stuck {
			r.judge(ctx, &v, n, it, o)
		}
	}
	r.done(g, v)
}

// judge decides on one record; one that is not settled holds up those of its key.
func (r *Runner) judge(ctx context.Context, v *verdict, n int, it *item, o Outcome) {
	var wait time.Duration
	var err error
	switch {
	case o.Err == nil:
		v.settled[n] = true
		r.succeeded(ctx, it, o.Result)
		return
	case errors.Is(o.Err, ErrUnavailable):
		err = o.Err
	case ctx.Err() != nil || errors.Is(o.Err, errHeld):
	case errors.Is(o.Err, errBusy), errors.Is(o.Err, errConflict) && !r.losesForLong(it):
		wait = r.cfg.Retry.wait(1, r.cfg.random)
		r.lines.say(slog.LevelWarn, "record waits for other transactions, and its key with it", "record", it.Place().String(), "error", o.Err, "again_in", wait.Round(time.Millisecond).String())
	default:
		v.settled[n], wait, err = r.failed(ctx, it, o.Err)
	}
	if err != nil && ctx.Err() == nil {
		v.away = err
	}
	if !v.settled[n] {
		v.stuck[it.queue] = wait
	}
}

// conflictPatience is for how long a record may lose against other transactions before that spends attempts. A lock that a deployment holds is gone by then; a handler
// that conflicts with what stays there is not helped by waiting.
const conflictPatience = time.Minute

// losesForLong takes that the record has lost, and tells whether it has for so long that this counts as any other failure.
func (r *Runner) losesForLong(it *item) bool {
	now := r.cfg.now()
	if it.lost.IsZero() {
		it.lost = now
	}
	return now.Sub(it.lost) >= conflictPatience
}

// succeeded counts a record that needs nothing more.
func (r *Runner) succeeded(ctx context.Context, it *item, result Result) {
	if it.failed > 0 {
		r.forget(ctx, it)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch result {
	case Handled:
		r.stats.Handled++
	case Repeat:
		r.stats.Repeats++
	case Ignored:
		r.stats.Ignored++
	}
	r.pause = 0
}

// done takes what became of the group's records.
func (r *Runner) done(g *group, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.done = true
	g.timer.Stop()
	for i, it := range g.items {
		p := it.partition
		p.busy--
		if v.settled[i] {
			r.release(it)
			p.settle(it)
		}
		if p.busy == 0 && !p.open {
			close(p.idle)
		}
	}
	if v.away != nil {
		r.goAway(v.away)
	}
	for _, q := range g.queues {
		q.shift()
		q.slow = len(q.items) > 0 && q.items[0].failed > 0
		r.weigh(q)
		switch wait := v.stuck[q]; {
		case !q.partition.open:
		case len(q.items) == 0:
			q.drop()
		case wait > 0:
			r.waitFor(q, wait)
		default:
			r.enqueue(q)
		}
	}
	r.resume()
	r.room.Signal()
}

const (
	minAway = 100 * time.Millisecond
	maxAway = 5 * time.Second
)

// goAway has all workers wait for the database.
func (r *Runner) goAway(err error) {
	now := r.cfg.now()
	if now.Before(r.away) {
		return
	}
	r.pause = min(max(2*r.pause, minAway), maxAway)
	r.away = now.Add(r.pause)
	r.cfg.Logger.Warn("nothing can be handled: tried again", "error", err, "again_in", r.pause.String())
	time.AfterFunc(r.pause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.work.Broadcast()
	})
}
