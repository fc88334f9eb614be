package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
)

// keysBeside are the paused and the waiting keys that the filter of a list of keys finds.
func (l survey) keysBeside(ctx context.Context, f operate.KeyFilter) (k operate.KeysBeside, err error) {
	if f.Type != nil || f.Code != nil {
		return k, nil
	}
	if f.Error == "" {
		if k.Paused, err = l.pausedKeys(ctx, f); err != nil {
			return k, fmt.Errorf("look for paused keys: %w", err)
		}
		if k.MorePaused = len(k.Paused) > operate.MaxBeside; k.MorePaused {
			k.Paused = k.Paused[:operate.MaxBeside]
		}
	}
	if err := l.addWaitingKeys(ctx, f, &k); err != nil {
		return k, fmt.Errorf("look for waiting keys: %w", err)
	}
	return k, nil
}

func (q *query) ofKey(f operate.KeyFilter) []string {
	return append(q.equal("x.topic", f.Topic), q.equal("x.partition_key", f.PartitionKey)...)
}

func (l survey) pausedKeys(ctx context.Context, f operate.KeyFilter) ([]operate.Pause, error) {
	var q query
	list := append([]string{"x.source = " + q.param(l.row.ID, "uuid"), "x.scope = 'key'"}, q.ofKey(f)...)
	list = append(list, q.ages("x.paused_at", f.MinAge, f.MaxAge)...)
	rows, err := l.tx.Query(ctx, fmt.Sprintf(`
SELECT x.scope, x.topic, x.partition_key, x.paused_by, x.reason, x.paused_at FROM outbox.pause x WHERE %s ORDER BY x.paused_at, x.topic, x.key_hash LIMIT %d`,
		and(list...), operate.MaxBeside+1), q.args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanPause)
}

// addWaitingKeys looks through a window of the failures, by the primary key. Of a key that is parked none waits for an attempt.
func (l survey) addWaitingKeys(ctx context.Context, f operate.KeyFilter, k *operate.KeysBeside) error {
	var q query
	window := fmt.Sprintf("SELECT * FROM outbox.failure f WHERE f.source = %s ORDER BY f.id, f.event_id LIMIT %d", q.param(l.row.ID, "uuid"), l.windows.waiting)
	list := append([]string{"x.next_attempt_at > now()"}, q.ofKey(f)...)
	if f.Error != "" {
		list = append(list, q.holds(f.Error, "x.first_error", "x.last_error"))
	}
	list = append(list, q.ages("x.first_at", f.MinAge, f.MaxAge)...)
	rows, err := l.tx.Query(ctx, fmt.Sprintf(`
WITH x AS MATERIALIZED (%s)
SELECT x.topic, x.partition_key, x.id, x.attempts, coalesce(x.last_error, ''), x.last_at, x.next_attempt_at, (SELECT count(*) FROM x)
FROM x WHERE %s ORDER BY x.id, x.event_id LIMIT %d`, window, and(list...), operate.MaxBeside+1), q.args...)
	if err != nil {
		return err
	}
	var looked int
	k.Waiting, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (w operate.WaitingKey, err error) {
		err = row.Scan(&w.Topic, &w.PartitionKey, &w.ID, &w.Attempts, &w.Error, &w.LastAt, &w.NextAttemptAt, &looked)
		w.LastAt, w.NextAttemptAt = w.LastAt.UTC(), w.NextAttemptAt.UTC()
		return w, err
	})
	if len(k.Waiting) > operate.MaxBeside {
		k.Waiting, k.MoreWaiting = k.Waiting[:operate.MaxBeside], true
	}
	k.MoreWaiting = k.MoreWaiting || looked >= l.windows.waiting
	return err
}
