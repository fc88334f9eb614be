package cli

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

// transcript may be read while it is written.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

func TestACleanStopSaysThatItWasHeardAndHowItEnded(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "shop.order"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 'shop.order', i::text FROM generate_series(1, 3) i`)
	ctx, stop := context.WithCancel(t.Context())
	log := &transcript{}
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"relay"}, strings.NewReader(""), &bytes.Buffer{}, log,
			[]string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + strings.Join(cluster.ListenAddrs(), ",")})
	}()
	defer stop()
	conn := db.Conn(t)
	await(t, "the events are published", func() bool { return countUnpublished(t, conn) == 0 })
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("ended with %d: %s", code, log)
	}
	heard, after, _ := strings.Cut(log.String(), `"msg":"stopping: waiting for what Kafka has not acknowledged"`)
	if strings.Contains(heard, `"stopped"`) || !strings.Contains(after, `"msg":"stopped","published":3}`) {
		t.Errorf("the log does not tell of the stop: %s", log)
	}
}

func countUnpublished(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox_event WHERE published_at IS NULL").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
