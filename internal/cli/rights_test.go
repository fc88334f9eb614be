package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

// What migrate grants prints for an operator is enough for each command, with no relay alive, when it may delete; restoring inserts.
func TestTheGrantsOfAnOperatorSuffice(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role := "operator_" + strings.ToLower(rand.Text()[:12])
	db.Exec(t, "CREATE ROLE "+role+" LOGIN PASSWORD 'of-a-test'")
	conn := db.Conn(t)
	t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	run := func(env []string, args ...string) (out, errs string, code int) {
		var stdout, stderr bytes.Buffer
		code = Run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, env)
		return stdout.String(), stderr.String(), code
	}
	grants, _, _ := run([]string{"DATABASE_URL=" + db.URL}, "migrate", "grants", "--role", role, "--operator", "--delete")
	db.Exec(t, grants)
	db.Exec(t, "GRANT INSERT ON outbox_event TO "+role)
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 'shop.order', i::text FROM generate_series(1, 6) i`)
	db.Exec(t, `INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
SELECT s.id, e.topic, sha256(convert_to(e.topic, 'UTF8') || '\x00'::bytea || convert_to(e.partition_key, 'UTF8')), e.partition_key, 0, e.id, e.event_id, e.event_type, 'X', 'x'
FROM outbox_event e, outbox.source s`)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "shop.order", "shop.order-dlt"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	brokers := cluster.ListenAddrs()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	letter := &kgo.Record{Topic: "shop.order-dlt", Headers: []kgo.RecordHeader{{Key: "x-inbox-original-topic", Value: []byte("shop.order")}, {Key: "x-inbox-error", Value: []byte("timeout")}}}
	if err := client.ProduceSync(t.Context(), letter).FirstErr(); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "of-a-test")
	env := []string{"DATABASE_URL=" + u.String(), "KAFKA_BROKERS=" + brokers[0]}
	for _, c := range []struct{ args, want string }{
		{"events skip 1 --reason x", "skipped"},
		{"events skip 2 3 --reason x --yes", "skip: 2 of 2 done"},
		{"events dead --state pending --max-id 4 --reason x --yes", "dead: 1 of 1 done"},
		{"events restore 1", "restored"},
		{"events restore --all --yes", "restore: 3 of 3 done"},
		{"keys unpark --topic shop.order --key 5", "unparked"},
		{"keys unpark --all --yes", "unpark: 1 of 1 done"},
		{"pause topic shop.order", "paused"},
		{"resume topic shop.order", "resumed"},
		{"replay --all --reason x --dry-run", "no event matches"},
		{"dlt list shop.order", "timeout"},
		{"dlt redrive shop.order --all --yes", "redrive: 1 of 1 done"},
		{"dlt redrive shop.order --all --again --consumer billing --dry-run", "the inbox of billing has handled 0"},
		{"dlt purge shop.order --all --yes", "deleted 1 letter"},
		{"events list", "shop.order"},
		{"keys list", "no "},
		{"jobs list", "restore"},
		{"audit", "resume"},
	} {
		if out, errs, code := run(env, strings.Fields(c.args)...); code != exitOK || !strings.Contains(out, c.want) {
			t.Errorf("outbox %s: %d %q %s, want %q", c.args, code, out, errs, c.want)
		}
	}
	if _, errs, code := run(env, "jobs", "cancel", "1"); code != exitFailed || !strings.Contains(errs, "done already") {
		t.Errorf("jobs cancel: %d %s", code, errs)
	}
}
