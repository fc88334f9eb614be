package inbox

import (
	"context"
	"fmt"
)

// pruneAtOnce is how many events one transaction forgets.
const pruneAtOnce = 2000

// Prune forgets what the consumer has handled longer ago than [Config.Retain], by the database's clock, in small transactions, and returns how many events that were.
// A [Runner] does it once an hour. Several at the same time share the work.
func (p *Processor[Tx]) Prune(ctx context.Context) (events int64, err error) {
	if p.cfg.Retain < 0 {
		return 0, nil
	}
	for {
		n := 0
		old := statement{pruneSQL, []any{p.consumer, p.cfg.Retain.Seconds(), pruneAtOnce}}
		err := inTx(ctx, p.store, old, func(tx Tx, gone []string) (err error) {
			if n = len(gone); n < pruneAtOnce {
				_, err = p.store.Query(ctx, tx, pruneFailuresSQL, p.consumer, p.cfg.Retain.Seconds())
			}
			return err
		})
		if err != nil {
			return events, fmt.Errorf("forget old events of consumer %s: %w", p.consumer, explain(err))
		}
		if events += int64(n); n < pruneAtOnce {
			return events, nil
		}
	}
}
