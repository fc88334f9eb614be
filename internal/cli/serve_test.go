package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/fleet"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

func TestMetricsTellWhatWaitsEvenWhenNothingMoves(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "shop.order"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	fleet := fleetOf(t, config.Source{DatabaseURL: db.URL, Brokers: cluster.ListenAddrs()})
	insert := func(topic string) {
		db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at)
VALUES (gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', $1, '1', now() - interval '1 hour')`, topic)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- fleet.Run(ctx) }()
	defer func() { cancel(); <-done }()

	server := httptest.NewServer(served{relays: fleet}.handler())
	defer server.Close()
	insert("shop.order")
	await.Until(t, "the relay is ready and the event published", func() bool {
		code, _ := get(t, server.URL+"/readyz")
		_, body := get(t, server.URL+"/metrics")
		return code == http.StatusOK && strings.Contains(body, "\noutbox_published_total{source=\"public.outbox_event\"} 1\n")
	})
	if _, body := get(t, server.URL+"/metrics"); !strings.Contains(body, "\noutbox_lanes{source=\"public.outbox_event\"} 8\n") || !strings.Contains(body, "\noutbox_held_topics{source=\"public.outbox_event\"} 0\n") ||
		!strings.Contains(body, "\ngo_goroutines ") || !strings.Contains(body, "\nprocess_cpu_seconds_total ") {
		t.Errorf("a metric is missing: %s", body)
	}
	insert("shop.missing")
	await.Until(t, "the metrics show what waits", func() bool {
		_, body := get(t, server.URL+"/metrics")
		return strings.Contains(body, "\noutbox_pending{source=\"public.outbox_event\"} 1\n") && strings.Contains(body, "\noutbox_oldest_pending_age_seconds{source=\"public.outbox_event\"} 36") &&
			strings.Contains(body, "\noutbox_parked_keys{source=\"public.outbox_event\"} 0\n") && strings.Contains(body, `outbox_publish_errors_total{class="topic",source="public.outbox_event"} 1`) &&
			strings.Contains(body, `outbox_publish_errors_total{class="event",source="public.outbox_event"} 0`) &&
			strings.Contains(body, "\noutbox_unsettled_total{source=\"public.outbox_event\"} 0\n") &&
			strings.Contains(body, "\noutbox_held_topics{source=\"public.outbox_event\"} 1\n") && strings.Contains(body, "\noutbox_in_flight{source=\"public.outbox_event\"} 0\n")
	})
	db.Exec(t, `INSERT INTO outbox.pause (source, scope, topic, paused_by) SELECT id, 'topic', 'shop.missing', 'ann' FROM outbox.source`)
	await.Until(t, "the pause is told", func() bool {
		code, body := get(t, server.URL+"/readyz")
		return code == http.StatusOK && body == "ok; paused: 1 topic; see outbox pause list\n"
	})
	// A scrape lacks what the database does not answer in time.
	var metrics string
	await.Until(t, "a scrape has the backlog", func() bool {
		_, metrics = get(t, server.URL+"/metrics")
		return strings.Contains(metrics, "\noutbox_pending{")
	})
	for scope, n := range map[string]int{"source": 0, "topic": 1, "key": 0} {
		if line := fmt.Sprintf("\noutbox_paused{scope=%q,source=\"public.outbox_event\"} %d\n", scope, n); !strings.Contains(metrics, line) {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	if code, _ := get(t, server.URL+"/livez"); code != http.StatusOK {
		t.Errorf("/livez is %d", code)
	}
	if code, body := get(t, server.URL+"/"); code != http.StatusOK || !strings.Contains(body, "/livez") || !strings.Contains(body, "/readyz") || !strings.Contains(body, "/metrics") {
		t.Errorf("/ is %d: %s", code, body)
	}
	if code, _ := get(t, server.URL+"/elsewhere"); code != http.StatusNotFound {
		t.Errorf("/elsewhere is %d", code)
	}
}

// What was pruned or published a moment ago counts at the next scrape: nobody can tell an old number from a new one.
func TestTheAgeOfWhatStaysIsThatOfTheScrape(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	fleet := fleetOf(t, config.Source{DatabaseURL: db.URL, Brokers: cluster.ListenAddrs()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- fleet.Run(ctx) }()
	defer func() { cancel(); <-done }()
	server := httptest.NewServer(served{relays: fleet}.handler())
	defer server.Close()
	// A scrape lacks what the database does not answer in time, and what of a relay that is not made yet.
	scraped := func() (value string) {
		await.Until(t, "a scrape has the age", func() bool {
			_, body := get(t, server.URL+"/metrics")
			_, rest, _ := strings.Cut(body, "\noutbox_oldest_settled_age_seconds{source=\"public.outbox_event\"} ")
			value, _, _ = strings.Cut(rest, "\n")
			return value != ""
		})
		return value
	}
	for _, c := range []struct{ sql, digits string }{
		{`SELECT`, "0"},
		{`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, published_at)
VALUES (gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 'shop.order', '1', now() - interval '10000 s')`, "100"},
		{`UPDATE outbox_event SET published_at = now() - interval '20000 s'`, "200"},
		{`DELETE FROM outbox_event`, "0"},
	} {
		db.Exec(t, c.sql)
		if got := scraped(); !strings.HasPrefix(got, c.digits) {
			t.Errorf("after %s the age is %s, want %s…", c.sql, got, c.digits)
		}
	}
}

// fleetOf returns the relays of sources that say where their databases and brokers are.
func fleetOf(t *testing.T, sources ...config.Source) *relayFleet {
	t.Helper()
	for i := range sources {
		s := &sources[i]
		s.Table = cmp.Or(s.Table, "public.outbox_event")
	}
	a := &app{}
	parts, err := a.parts(t.Context(), &config.Config{Sources: sources}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePools(parts) })
	return fleet.New(members(parts), fleet.Config{FirstPause: 100 * time.Millisecond})
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(b)
}

func TestReadinessHasAReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stats relay.Stats
		want  string
	}{
		"working":     {relay.Stats{Leading: true}, ""},
		"waiting":     {relay.Stats{Waiting: "other:1"}, ""},
		"starting":    {relay.Stats{}, "starting"},
		"stalled":     {relay.Stats{Leading: true, Stalled: true, Silent: 17 * time.Second, Outstanding: 7}, "Kafka acknowledges nothing for 17s: 7 events are outstanding"},
		"interrupted": {relay.Stats{LastError: errors.New("no route")}, "interrupted: no route"},
	} {
		got := ""
		if err := ready(c.stats); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestOnlyALoopThatDoesNotTurnIsDead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	if err := live(relay.Stats{}, now); err != nil {
		t.Errorf("before the first turn: %v", err)
	}
	if err := live(relay.Stats{LastTurn: now.Add(-turnLimit), LastError: errors.New("database away")}, now); err != nil {
		t.Errorf("in an outage: %v", err)
	}
	if err := live(relay.Stats{LastTurn: now.Add(-turnLimit - time.Second)}, now); err == nil {
		t.Error("a loop that does not turn is alive")
	}
}

func TestHealthAndMetricsTellTheSourcesApart(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t, "shop.order")
	good, late := table{pgtest.New(t), "outbox_event"}, table{pgtest.New(t, pgtest.Empty), "outbox_event"}
	fleet := fleetOf(t,
		config.Source{Name: "late", DatabaseURL: late.db.URL, Brokers: cluster.ListenAddrs()},
		config.Source{Name: "good", DatabaseURL: good.db.URL, Brokers: cluster.ListenAddrs()})
	server := httptest.NewServer(served{relays: fleet}.handler())
	defer server.Close()
	if code, body := get(t, server.URL+"/readyz"); code != http.StatusServiceUnavailable || body != "late: starting\ngood: starting\n" {
		t.Errorf("before the start: %d %q", code, body)
	}
	if _, body := get(t, server.URL+"/metrics"); !strings.Contains(body, "\noutbox_source_ready{source=\"late\"} 0\n") {
		t.Errorf("before the start: %s", body)
	}
	atWork(t, fleet)
	await.Until(t, "the good source is ready", isReady(fleet, 1))
	await.Until(t, "the late one has failed", func() bool { return fleet.States()[0].Err != nil })

	code, body := get(t, server.URL+"/readyz")
	if code != http.StatusServiceUnavailable || !strings.HasPrefix(body, "late: does not come up: ") || !strings.Contains(body, "outbox migrate up") ||
		!strings.HasSuffix(body, "\ngood: ok\n") || strings.Count(body, "\n") != 2 {
		t.Errorf("/readyz is %d: %q", code, body)
	}
	for path, want := range map[string]int{"/readyz?source=good": 200, "/readyz?source=late": 503, "/readyz?source=x": 404, "/livez": 200, "/livez?source=late": 200} {
		if code, body := get(t, server.URL+path); code != want {
			t.Errorf("%s is %d, want %d: %s", path, code, want, body)
		}
	}
	// A scrape lacks what the database does not answer in time.
	await.Until(t, "a scrape has the backlog", func() bool {
		_, body = get(t, server.URL+"/metrics")
		return strings.Contains(body, `outbox_pending{source="good"}`)
	})
	for _, line := range []string{
		`outbox_source_ready{source="late"} 0`, `outbox_source_ready{source="good"} 1`, `outbox_pending{source="good"} 0`,
		`outbox_lanes{source="good"} 8`, `outbox_lanes{source="late"} 0`, `outbox_publish_errors_total{class="topic",source="good"} 0`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	if strings.Contains(body, `outbox_pending{source="late"}`) {
		t.Error("/metrics counts the rows of a source that it cannot ask")
	}
}

func TestAPortThatIsTakenIsNoFaultOfTheConfiguration(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]int{taken.Addr().String(): exitFailed, "127.0.0.1": exitConfig, "127.0.0.1:http-or-so": exitConfig} {
		_, err := (&app{}).serve("OUTBOX_LISTEN", address, served{}, discard())
		if err == nil || exitCode(err) != want || !strings.Contains(err.Error(), "OUTBOX_LISTEN "+address) {
			t.Errorf("%s: got %v, want an error of exit code %d", address, err, want)
		}
	}
}

// idle is an engine of which only the figures count.
type idle struct{ stats relay.Stats }

func (i idle) Run(context.Context) error { return nil }
func (i idle) Stats() relay.Stats        { return i.stats }

func TestASourceThatWaitsForItsNextAttemptIsNotDead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	stuck := &sourceRelay{Engine: idle{relay.Stats{LastTurn: now.Add(-time.Hour)}}}
	for name, c := range map[string]struct {
		state sourceState
		alive bool
	}{
		"never made":           {sourceState{}, true},
		"stuck":                {sourceState{Made: true, Engine: stuck}, false},
		"between two attempts": {sourceState{Made: true, Engine: stuck, Err: errors.New("no table"), Again: time.Second}, true},
	} {
		if err := sourceLive(c.state, now); (err == nil) != c.alive {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
