package inbox

import "time"

// slowAfter is how long records are handled until those behind them no longer count as about to move.
const slowAfter = time.Second

// weigh counts how many of a queue's records move: none while it waits for a time or its partition is let go, and what one transaction can take behind a record that
// is being tried again, or for long. So one key that hangs leaves room for all others; MaxUncommitted bounds its partition. It is called with the lock held, after
// each change of the queue.
func (r *Runner) weigh(q *queue) {
	n := len(q.items)
	switch {
	case q.waits || !q.partition.open:
		n = 0
	case q.slow:
		n = min(n, r.cfg.Batch)
	}
	r.moving += n - q.weight
	if n < q.weight {
		r.room.Signal()
	}
	q.weight = n
}

// watch has the queues of a group weigh less when it is handled for long. The timer is stopped when it is done.
func (r *Runner) watch(g *group) {
	g.timer = time.AfterFunc(slowAfter, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if g.done {
			return
		}
		for _, q := range g.queues {
			q.slow = true
			r.weigh(q)
		}
	})
}

// hold counts the bytes of a record that is taken.
func (r *Runner) hold(it *item) {
	it.bytes = len(it.Key) + len(it.Value)
	for _, h := range it.Headers {
		it.bytes += len(h.Key) + len(h.Value)
	}
	r.bytes += it.bytes
}

// release counts those of a record that is settled, or whose partition is let go.
func (r *Runner) release(it *item) {
	r.bytes -= it.bytes
	it.bytes = 0
}

// full tells that no more may be taken of a partition. Its first record always may: what is held of other partitions, behind keys that are stuck, stops none.
func (r *Runner) full(p *partition) bool {
	return len(p.flight) >= r.cfg.MaxUncommitted || len(p.flight) > 0 && r.bytes >= r.cfg.MaxUncommittedBytes
}

// resume asks for more of partitions that were full and have room again.
func (r *Runner) resume() {
	if r.paused == 0 {
		return
	}
	var again []Partition
	for _, p := range r.partitions {
		if p.paused && (len(p.flight) == 0 || len(p.flight) <= r.cfg.MaxUncommitted/2 && r.bytes <= r.cfg.MaxUncommittedBytes/2) {
			p.paused = false
			r.paused--
			again = append(again, p.Partition)
		}
	}
	if len(again) > 0 {
		r.log.Resume(again)
	}
}
