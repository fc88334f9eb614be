package inbox

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// passedSQL relies on inbox_failure_pkey.
const passedSQL = `DELETE FROM outbox.inbox_failure WHERE consumer = $1 AND topic = $2 AND partition = $3 AND record_offset < $4`

// Passed forgets what [Processor.Failed] has written down of records in front of an offset, for each of the partitions: all of those are settled. A [Runner] does it
// once a minute. What failed in one process may be handled at the first attempt of the next, which does not know that there is anything to forget.
func (p *Processor[Tx]) Passed(ctx context.Context, next map[Partition]int64) error {
	err := inTx(ctx, p.store, statement{}, func(tx Tx, _ []string) error {
		for of, offset := range next {
			if _, err := p.store.Query(ctx, tx, passedSQL, p.consumer, of.Topic, of.Number, offset); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget failed records of consumer %s: %w", p.consumer, explain(err))
	}
	return nil
}

// passEvery is how often failures of settled records are forgotten.
const passEvery = time.Minute

// forgetPassed forgets them until ctx ends, if the handling can.
func (r *Runner) forgetPassed(ctx context.Context) {
	p, able := r.handling.(interface {
		Passed(ctx context.Context, next map[Partition]int64) error
	})
	tick := time.NewTicker(passEvery)
	defer tick.Stop()
	for told := map[Partition]int64{}; able; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		next := r.passed()
		moved := maps.Clone(next)
		maps.DeleteFunc(moved, func(of Partition, offset int64) bool { return told[of] == offset })
		if len(moved) == 0 {
			continue
		}
		within, cancel := context.WithTimeout(ctx, passEvery)
		err := p.Passed(within, moved)
		cancel()
		if err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("failures of settled records not forgotten: tried again in a minute", "error", err)
			continue
		}
		told = next
	}
}

// passed is up to where the partitions are settled.
func (r *Runner) passed() map[Partition]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[Partition]int64{}
	for name, p := range r.partitions {
		if p.settled {
			next[name] = p.next
		}
	}
	return next
}
