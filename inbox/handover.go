package inbox

import (
	"context"
	"slices"
)

// Revoke lets partitions go: handlers that are at work end, for DrainTimeout, then what is settled is committed. Those that another call is letting go, such as the
// end of [Runner.Run], are waited for: a commit that comes after this one has returned would take back what the next owner has committed.
func (r *Runner) Revoke(ctx context.Context, partitions []Partition) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.DrainTimeout)
	defer cancel()
	others := r.left(partitions)
	going := r.close(partitions)
	defer func() {
		r.gone(going)
		for _, p := range others {
			<-p.gone
		}
	}()
	for _, p := range going {
		select {
		case <-p.idle:
		case <-ctx.Done():
			r.cfg.Logger.Warn("handlers did not end in time: their transactions are rolled back, and the records are handled again",
				"partition", p.String(), "within", r.cfg.DrainTimeout.String())
		}
		p.cancel()
	}
	r.committing.Lock()
	defer r.committing.Unlock()
	r.commitOf(context.WithoutCancel(ctx), r.last(going))
}

// left are those of the partitions that another call is letting go.
func (r *Runner) left(partitions []Partition) (others []*partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.leaving {
		if slices.Contains(partitions, p.Partition) {
			others = append(others, p)
		}
	}
	return others
}

// gone takes that partitions are let go, for whoever waits for it.
func (r *Runner) gone(partitions []*partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		delete(r.leaving, p)
		close(p.gone)
	}
}

// Lose drops partitions that another member may have already.
func (r *Runner) Lose(partitions []Partition) {
	others := r.left(partitions)
	going := r.close(partitions)
	defer r.gone(going)
	r.mu.Lock()
	for _, p := range append(others, going...) {
		p.lost = true
		p.cancel()
	}
	r.mu.Unlock()
	// A commit that is under way may have them in it.
	r.committing.Lock()
	defer r.committing.Unlock()
}

// close keeps workers from beginning anything more of the partitions.
func (r *Runner) close(partitions []Partition) (closed []*partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range partitions {
		p := r.partitions[name]
		if p == nil {
			continue
		}
		delete(r.partitions, name)
		r.leaving[p] = struct{}{}
		p.open = false
		if p.paused {
			r.paused--
		}
		r.forgetQueues(p)
		r.forgetFlight(p)
		if p.busy == 0 {
			close(p.idle)
		}
		closed = append(closed, p)
	}
	r.resume()
	return closed
}

// forgetFlight takes the records of a partition that is let go out of those that move and are held.
func (r *Runner) forgetFlight(p *partition) {
	for _, it := range p.flight {
		r.release(it)
		r.weigh(it.queue)
	}
	r.room.Broadcast()
}

// forgetQueues ends what the queues of a partition that is let go wait for: a delay may be hours, for which a timer would hold their records.
func (r *Runner) forgetQueues(p *partition) {
	for _, it := range p.flight {
		// One that does not stop is about to look at what has become of the partition by itself.
		if q := it.queue; q.waits && q.timer.Stop() {
			q.waits = false
			r.stats.Waiting--
		}
	}
	r.ready = slices.DeleteFunc(r.ready, func(q *queue) bool { return q.partition == p })
}
