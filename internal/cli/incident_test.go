package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// incidentKeys is how many keys an incident stops.
const incidentKeys = 2_000

// Events that are larger than their topic allows stop their keys while a relay lives; an operator gives some up, has the topic's limit raised, lets the others go on, and
// takes back what was given up. In the end everything is in Kafka, once, in the order of its key.
func TestAnIncidentIsClearedWhileTheRelayLives(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	brokers := cluster.ListenAddrs()
	admin := kadm.NewClient(kafkaClient(t, brokers))
	limit := "1500"
	if _, err := admin.CreateTopic(t.Context(), 4, 1, map[string]*string{"max.message.bytes": &limit}, "shop.order"); err != nil {
		t.Fatal(err)
	}
	env := []string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + strings.Join(brokers, ",")}
	ctx, stop := context.WithCancel(t.Context())
	log, ended := &transcript{}, make(chan int, 1)
	go func() { ended <- Run(ctx, []string{"relay"}, strings.NewReader(""), &bytes.Buffer{}, log, env) }()
	defer func() {
		stop()
		if code := <-ended; code != exitOK {
			t.Errorf("the relay ended with %d: %s", code, log)
		}
	}()
	// Each key has one that is too large, and one behind it.
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', i::text, 'order.placed.v1', jsonb_build_object('n', n, 'pad', CASE n WHEN 1 THEN repeat('x', 1500) ELSE '' END), 'shop.order', i::text
FROM generate_series(1, 2) n, generate_series(1, $1::int) i`, incidentKeys)
	conn := db.Conn(t)
	count := func(sql string) (n int) {
		if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	await.Until(t, "all keys are parked", func() bool { return count(`SELECT count(*) FROM outbox.parked_key`) == incidentKeys })
	operator := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Run(t.Context(), args, strings.NewReader(""), &out, &errs, env); code != exitOK {
			t.Fatalf("outbox %s: exit code %d: %s %s", strings.Join(args, " "), code, &out, &errs)
		}
		return out.String()
	}
	if got, want := operator("events", "skip", "--key", "7", "--error", "message_too_large", "--reason", "by hand", "--yes"), "skip: 1 of 1 done"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	raised := "1000000"
	if _, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &raised}}, "shop.order"); err != nil {
		t.Fatal(err)
	}
	if got, want := operator("events", "retry", "--topic", "shop.order", "--yes"), fmt.Sprintf("retry: %[1]d of %[1]d done", incidentKeys-1); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	await.Until(t, "all is published", func() bool { return count(`SELECT count(*) FROM outbox_event WHERE published_at IS NULL`) == 0 })
	if got, want := operator("events", "restore", "--all", "--yes"), "restore: 1 of 1 done"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	await.Until(t, "what came back is published", func() bool {
		return count(`SELECT count(*) FROM outbox_event WHERE published_at IS NOT NULL`) == 2*incidentKeys
	})
	if n := count(`SELECT count(*) FROM outbox.audit WHERE ended_at IS NULL OR affected IS NULL`) + count(`SELECT count(*) FROM outbox.request WHERE done_at IS NULL`); n != 0 {
		t.Errorf("%d rows of the audit or requests never ended", n)
	}
	wantOrder(t, brokers)
}

// wantOrder wants each key's events once and in order, but for the one that was given up and came back.
func wantOrder(t *testing.T, brokers []string) {
	t.Helper()
	consumer := kafkaClient(t, brokers, kgo.ConsumeTopics("shop.order"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	byKey := map[string][]string{}
	for n := 0; n < 2*incidentKeys; {
		fetches := consumer.PollFetches(t.Context())
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			var first string
			if _, err := fmt.Sscanf(string(r.Value), `{"n":%1s`, &first); err != nil {
				t.Errorf("a value begins with %.20q", r.Value)
			}
			byKey[string(r.Key)] = append(byKey[string(r.Key)], first)
		})
	}
	for key, got := range byKey {
		want := []string{"1", "2"}
		if key == "7" {
			want = []string{"2", "1"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("key %s has %v, want %v", key, got, want)
		}
	}
}

func kafkaClient(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
