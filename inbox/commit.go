package inbox

import (
	"context"
	"time"
)

// last is what is to be committed of partitions that are let go.
func (r *Runner) last(going []*partition) map[Partition]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[Partition]int64{}
	for _, p := range going {
		if p.settled && !p.lost && p.next != p.committed {
			next[p.Partition] = p.next
		}
	}
	return next
}

func (r *Runner) commit(ctx context.Context) {
	r.committing.Lock()
	defer r.committing.Unlock()
	r.mu.Lock()
	next := map[Partition]int64{}
	for _, p := range r.partitions {
		if offset, any := p.uncommitted(); any {
			next[p.Partition] = offset
		}
	}
	r.mu.Unlock()
	if !r.commitOf(ctx, next) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, offset := range next {
		if p := r.partitions[name]; p != nil {
			p.committed = offset
		}
	}
}

// commitTimeout bounds one commit; what it does not reach is committed with the next one, or handled again as a repeat.
const commitTimeout = 10 * time.Second

func (r *Runner) commitOf(ctx context.Context, next map[Partition]int64) bool {
	if len(next) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := r.log.Commit(ctx, next); err != nil {
		r.cfg.Logger.Warn("offsets not committed", "partitions", len(next), "error", err)
		return false
	}
	return true
}
