//go:build integration

package pooler_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
)

const writers, keys = 8, 5

// writing has writers at work until stop, which returns how many events they have committed. Each takes the row lock of its key, and then
// writes one to three events; some roll back, some roll back to a savepoint, some stay open for a while with ids that nobody sees.
func writing(t *testing.T, pool *pgxpool.Pool) (committed *atomic.Int64, stop func()) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS shop_order (id text PRIMARY KEY, version int NOT NULL DEFAULT 0)")
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if _, err := pool.Exec(t.Context(), "INSERT INTO shop_order VALUES ($1) ON CONFLICT DO NOTHING", keyName(i)); err != nil {
			t.Fatal(err)
		}
	}
	committed = new(atomic.Int64)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for ctx.Err() == nil {
				n, err := write(context.WithoutCancel(ctx), pool, random)
				if err != nil && !errors.Is(err, errUndone) {
					t.Errorf("write: %v", err)
					return
				}
				committed.Add(n)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return committed, stop
}

var errUndone = errors.New("undone on purpose")

func write(ctx context.Context, pool *pgxpool.Pool, random *rand.Rand) (n int64, err error) {
	key := keyName(random.IntN(keys))
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE shop_order SET version = version + 1 WHERE id = $1", key); err != nil {
			return err
		}
		for range 1 + random.IntN(3) {
			if _, err := outbox.Write(ctx, tx, event(key)); err != nil {
				return err
			}
			n++
		}
		switch random.IntN(10) {
		case 0:
			return errUndone
		case 1:
			return undo(ctx, tx, key)
		case 2:
			// The id is drawn and others commit higher ones.
			<-time.After(time.Duration(random.IntN(100)) * time.Millisecond)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// undo writes an event into a savepoint that is rolled back.
func undo(ctx context.Context, tx pgx.Tx, key string) error {
	err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		if _, err := outbox.Write(ctx, savepoint, event(key)); err != nil {
			return err
		}
		return errUndone
	})
	if errors.Is(err, errUndone) {
		return nil
	}
	return err
}

func event(key string) outbox.Event {
	return outbox.Event{AggregateType: "Order", AggregateID: key, Type: "order.changed.v1", Topic: topic, PartitionKey: key, Payload: map[string]any{"key": key}}
}
