//go:build integration && unix

package outboxtest_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/outboxtest"
)

// realKafka returns the brokers at KAFKA_BROKERS, or starts one.
func realKafka(t *testing.T) []string {
	t.Helper()
	if given := os.Getenv("KAFKA_BROKERS"); given != "" {
		return strings.Split(given, ",")
	}
	cluster, err := devkafka.Start(context.WithoutCancel(t.Context()), devkafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	return cluster.Brokers()
}

func TestARealKafkaIsDrainedToAndConsumedFrom(t *testing.T) {
	t.Parallel()
	db, brokers := pgtest.New(t), realKafka(t)
	p, pool, topic := processor(t, db), db.Pool(t), "outboxtest."+uuid.NewString()
	for n, key := range []string{"a", "b", "bad", "a"} {
		e := event("seen.v1", key)
		e.Topic = topic
		commit(t, db, e)
		outboxtest.Drain(t, pool, brokers)
		got := outboxtest.Consume(t, p, brokers, topic)
		if all := got.Handled + got.Repeats + len(got.Failed); all != n+1 {
			t.Errorf("after %d events %+v", n+1, got)
		}
	}
	if n := seen(t, db); n != 3 {
		t.Errorf("%d effects, want 3", n)
	}
}
