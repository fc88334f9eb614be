package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// aggregateKeys is how many keys have events of one aggregate.
const aggregateKeys = 2_000

// scopeRelay is a relay of the command line, with aggregates parked.
type scopeRelay struct {
	log  *transcript
	stop func()
}

func startScoped(t *testing.T, env []string, name string) *scopeRelay {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r, ended, over := &scopeRelay{log: &transcript{}}, make(chan int, 1), false
	go func() {
		ended <- Run(ctx, []string{"relay", "--relay-name", name, "--park-scope", "aggregate"}, strings.NewReader(""), &bytes.Buffer{}, r.log, env)
	}()
	r.stop = func() {
		if over {
			return
		}
		over = true
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("%s ended with %d: %s", name, code, r.log)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// One event that is too large stops its aggregate in the lanes of two relays; it stays so while relays go and come, and all goes on when the event is given up.
func TestAggregateIsStoppedInTheLanesOfAllRelays(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "shop.stock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	brokers := cluster.ListenAddrs()
	limit := "1500"
	if _, err := kadm.NewClient(kafkaClient(t, brokers)).CreateTopic(t.Context(), 4, 1, map[string]*string{"max.message.bytes": &limit}, "shop.order"); err != nil {
		t.Fatal(err)
	}
	env := []string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + strings.Join(brokers, ",")}
	conn := db.Conn(t)
	count := func(sql string) (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	owners := func() int {
		return count(`SELECT count(DISTINCT owner) FROM outbox.lane WHERE expires_at > clock_timestamp()`)
	}
	followers := func() int { return count(`SELECT count(*) FROM outbox.parked_key WHERE code = 'AGGREGATE_PARKED'`) }
	write := func(aggregate string, keys int) {
		db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', $1, 'order.stock.v1', '{}', 'shop.stock', i::text FROM generate_series(1, $2::int) i`, aggregate, keys)
	}
	one := startScoped(t, env, "one")
	two := startScoped(t, env, "two")
	await.Until(t, "two relays have lanes", func() bool { return owners() == 2 })
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', '17', 'order.placed.v1', jsonb_build_object('pad', repeat('x', 1500)), 'shop.order', '17')`)
	await.Until(t, "the root is parked", func() bool { return count(`SELECT count(*) FROM outbox.parked_key`) == 1 })
	// Both have learned of it when both have parked a key behind it; what had gone out before is settled.
	lanes := func() int {
		return count(`SELECT count(DISTINCT l.owner) FROM outbox.parked_key k JOIN outbox.lane l USING (source, lane) WHERE k.code = 'AGGREGATE_PARKED'`)
	}
	await.Until(t, "both relays know", func() bool { write("17", 50); return lanes() == 2 })
	write("17", aggregateKeys)
	await.Until(t, "every key waits", func() bool { return followers() == aggregateKeys })
	write("18", 1) // behind an event that waits
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', '18', 'order.stock.v1', '{}', 'shop.stock', 'elsewhere')`)
	elsewhere := func() bool {
		return count(`SELECT count(*) FROM outbox_event WHERE partition_key = 'elsewhere' AND published_at IS NULL`) == 0
	}
	await.Until(t, "another aggregate goes on elsewhere", elsewhere)
	left := count(`SELECT count(*) FROM outbox_event WHERE published_at IS NULL`)

	one.stop()
	await.Until(t, "one relay has all lanes", func() bool {
		return owners() == 1 && count(`SELECT count(*) FROM outbox.lane WHERE owner IS NULL`) == 0
	})
	one = startScoped(t, env, "one again")
	await.Until(t, "two relays have lanes again", func() bool { return owners() == 2 })
	two.stop()
	two = startScoped(t, env, "two again")
	await.Until(t, "two relays have lanes once more", func() bool { return owners() == 2 })
	// Whoever had a lane and lost it publishes nothing of what is stopped.
	db.Exec(t, `UPDATE outbox.lane SET owner = gen_random_uuid(), epoch = epoch + 1, expires_at = clock_timestamp() + interval '1 second'`)
	await.Until(t, "the relays have the lanes back", func() bool {
		return count(`SELECT count(*) FROM outbox.lane l JOIN outbox.relay r USING (source, owner) WHERE l.expires_at > clock_timestamp()`) == count(`SELECT count(*) FROM outbox.lane`)
	})
	write("17", 1)
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', '17', 'order.stock.v1', '{}', 'shop.stock', 'new')`)
	await.Until(t, "a new key of it waits", func() bool { return followers() == aggregateKeys+1 })
	if n := count(`SELECT count(*) FROM outbox_event WHERE published_at IS NULL`); n != left+2 {
		t.Errorf("%d events are unpublished, want %d: what is stopped has gone out", n, left+2)
	}

	var out, errs bytes.Buffer
	args := []string{"keys", "skip", "--all", "--reason", "too large", "--yes"}
	if code := Run(t.Context(), args, strings.NewReader(""), &out, &errs, env); code != exitOK || !strings.Contains(out.String(), "skip: 1 of 1 done") {
		t.Fatalf("skip: %d %s %s", code, &out, &errs)
	}
	await.Until(t, "all is published", func() bool { return count(`SELECT count(*) FROM outbox_event WHERE published_at IS NULL`) == 0 })
	if n := count(`SELECT count(*) FROM outbox.parked_key`); n != 0 {
		t.Errorf("%d keys are parked, want none", n)
	}
	if n := count(`SELECT count(*) FROM outbox.failure`); n != 0 {
		t.Errorf("%d events have failed attempts on record, want none", n)
	}
	one.stop()
	two.stop()
}
