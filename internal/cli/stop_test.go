package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/internal/await"
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
		ended <- Run(ctx, []string{"relay", "--on-failure", "*.audit=skip,park attempts=3"}, strings.NewReader(""), &bytes.Buffer{}, log,
			[]string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + strings.Join(cluster.ListenAddrs(), ","), "OUTBOX_RELAY_NAME=shop-relay-1"})
	}()
	defer stop()
	conn := db.Conn(t)
	await.Until(t, "the events are published", func() bool { return countUnpublished(t, conn) == 0 })
	var name string
	if err := conn.QueryRow(t.Context(), "SELECT name FROM outbox.relay").Scan(&name); err != nil || name != "shop-relay-1" {
		t.Errorf("the relay is registered as %q: %v", name, err)
	}
	for _, what := range []string{`"msg":"relay starts","relay":"shop-relay-1","version":"`, `"mode":"leased","table":"public.outbox_event","database":"`, "/" + databaseOf(db.URL) + `","brokers":"` + cluster.ListenAddrs()[0] +
		`","settle":"mark","on_failure":"*.audit=skip, park attempts=3","park_scope":"key"}`} {
		if !strings.Contains(log.String(), what) {
			t.Errorf("the log does not begin with %s: %s", what, log)
		}
	}
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

// process is the command with a file of settings, at work.
func process(t *testing.T, file string, cluster *kfake.Cluster) (log *transcript, stop func() (code int)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "outbox.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	log = &transcript{}
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"relay", "--config", path}, strings.NewReader(""), &bytes.Buffer{}, log,
			[]string{"KAFKA_BROKERS=" + strings.Join(cluster.ListenAddrs(), ",")})
	}()
	return log, func() int {
		cancel()
		return <-ended
	}
}

func TestAStopHasALineForEachSource(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t, "shop.order")
	one, two := table{pgtest.New(t), "outbox_event"}, table{pgtest.New(t), "outbox_event"}
	one.write(t, "shop.order", 3)
	two.write(t, "shop.order", 5)
	log, stop := process(t, "sources:\n- name: one\n  database-url: "+one.db.URL+"\n- name: two\n  database-url: "+two.db.URL+"\n", cluster)
	await.Until(t, "one is published", one.allPublished(t))
	await.Until(t, "two is published", two.allPublished(t))
	if code := stop(); code != exitOK {
		t.Errorf("ended with %d: %s", code, log)
	}
	for _, line := range []string{
		`"msg":"relaying several sources","sources":"one, two","most_bytes_in_flight":67108864}`,
		`"msg":"stopped","source":"one","published":3}`, `"msg":"stopped","source":"two","published":5}`,
	} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log lacks %s: %s", line, log)
		}
	}
}

func TestASourceThatNeverCameUpIsNamedAtTheEnd(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t, "shop.order")
	good, late := table{pgtest.New(t), "outbox_event"}, pgtest.New(t, pgtest.Empty)
	good.write(t, "shop.order", 3)
	log, stop := process(t, "sources:\n- name: late\n  database-url: "+late.URL+"\n- name: good\n  database-url: "+good.db.URL+"\n", cluster)
	await.Until(t, "the good source is published", good.allPublished(t))
	await.Until(t, "the other one is complained of", func() bool { return strings.Contains(log.String(), "source does not come up; the others go on") })
	if code := stop(); code != exitConfig {
		t.Errorf("ended with %d: %s", code, log)
	}
	if text := log.String(); !strings.Contains(text, `"msg":"stopped","source":"good","published":3}`) || !strings.Contains(text, `"msg":"relay failed","error":"source late: `) ||
		strings.Contains(text, "source good: ") {
		t.Errorf("the end does not name it: %s", text)
	}
}

func TestTheProcessEndsWhenEverySourceIsMisconfigured(t *testing.T) {
	t.Parallel()
	one, two := pgtest.New(t, pgtest.Empty), pgtest.New(t, pgtest.Empty)
	var stderr bytes.Buffer
	path := filepath.Join(t.TempDir(), "outbox.yaml")
	if err := os.WriteFile(path, []byte("sources:\n- name: one\n  database-url: "+one.URL+"\n- name: two\n  database-url: "+two.URL+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code := Run(t.Context(), []string{"relay"}, strings.NewReader(""), &bytes.Buffer{}, &stderr,
		[]string{"OUTBOX_CONFIG=" + path, "KAFKA_BROKERS=" + newCluster(t).ListenAddrs()[0]})
	if text := stderr.String(); code != exitConfig || !strings.Contains(text, `"error":"source one: `) || !strings.Contains(text, "; source two: ") {
		t.Errorf("ended with %d: %s", code, text)
	}
}
