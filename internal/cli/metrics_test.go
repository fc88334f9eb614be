package cli

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/fleet"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// family is a metric with its labels: all that queries can name.
type family struct {
	kind   string
	labels []string
}

// workingRelay returns the relay of a table whose one event is published, and which deletes what is old.
func workingRelay(t *testing.T) *relayFleet {
	t.Helper()
	db := pgtest.New(t)
	cluster := newCluster(t, "shop.order")
	parts, err := (&app{}).parts(t.Context(), &config.Config{Sources: []config.Source{{DatabaseURL: db.URL, Table: "public.outbox_event", Brokers: cluster.ListenAddrs(), Retain: time.Hour}}},
		nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePools(parts) })
	relays := fleet.New(members(parts), fleet.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	stop, done := retainAll(ctx, parts), make(chan error, 1)
	go func() { done <- relays.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		stop()
		<-done
	})
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 'shop.order', '1')`)
	return relays
}

// families returns what /metrics has of ours, by name, once all of it is there.
func families(t *testing.T, relays *relayFleet, want int) (found map[string]family, lint []promlint.Problem) {
	t.Helper()
	registry := newRegistry(relays)
	await.Until(t, "every series is there", func() bool {
		gathered, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		gathered = slices.DeleteFunc(gathered, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "outbox_") })
		found = map[string]family{}
		for _, f := range gathered {
			labels := map[string]bool{}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = true
				}
			}
			found[f.GetName()] = family{strings.ToLower(f.GetType().String()), slices.Sorted(maps.Keys(labels))}
		}
		lint, err = promlint.NewWithMetricFamilies(gathered).Lint()
		if err != nil {
			t.Fatal(err)
		}
		return len(found) >= want
	})
	return found, lint
}

// testdata/metrics.txt is what the dashboard and the rules are checked against.
func TestTheListOfMetricsIsThatOfARunningRelay(t *testing.T) {
	t.Parallel()
	const path = "testdata/metrics.txt"
	list, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found, lint := families(t, workingRelay(t), strings.Count(string(list), "\n"))
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintln(&b, name, found[name].kind, strings.Join(found[name].labels, ","))
	}
	if b.String() != string(list) {
		t.Errorf("%s is to be:\n%s", path, b.String())
	}
	for _, problem := range lint {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	docs, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(docs), "\n## What to watch\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for name := range found {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/operating.md does not tell of %s in its section What to watch", name)
		}
	}
	for _, word := range strings.FieldsFunc(section, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		if _, known := found[word]; strings.HasPrefix(word, "outbox_") && !strings.HasPrefix(word, "outbox_consumer_") && !known {
			t.Errorf("docs/operating.md tells of %s, which no relay has", word)
		}
	}
}

// A series that appears with its first failure has no rate then: the failure is not seen.
func TestSeriesOfFixedLabelsAreThereFromTheStart(t *testing.T) {
	t.Parallel()
	fleet := fleetOf(t, config.Source{Name: "a", DatabaseURL: pgtest.New(t).URL, Brokers: newCluster(t).ListenAddrs()})
	server := httptest.NewServer(served{relays: fleet}.handler())
	defer server.Close()
	atWork(t, fleet)
	await.Until(t, "the source is ready", isReady(fleet, 0))
	_, body := get(t, server.URL+"/metrics")
	for _, series := range []string{
		`publish_errors_total{class="outage",source="a"}`, `publish_errors_total{class="topic",source="a"}`, `publish_errors_total{class="event",source="a"}`,
		`publish_errors_total{class="held",source="a"}`, `publish_errors_total{class="unknown",source="a"}`,
		`lane_changes_total{kind="lost",source="a"}`, `pruned_total{source="a",what="dead"}`, `letters_total{source="a"}`, `sweep_finds_total{source="a"}`,
		`foreign_settles_total{source="a"}`, `delivery_lag_seconds_count{source="a"}`, `delivery_lag_seconds_bucket{source="a",le="+Inf"}`,
		`publish_duration_seconds_bucket{source="a",le="0.005"}`, `last_ack_timestamp_seconds{source="a"}`, `holes{source="a"}`, `dead_events_total{source="a"}`,
	} {
		if !strings.Contains(body, "\noutbox_"+series+" 0\n") {
			t.Errorf("/metrics lacks outbox_%s 0", series)
		}
	}
	for _, line := range []string{`outbox_source_connected{source="a"} 1`, `outbox_source_lanes{source="a"} 8`, `outbox_lane_changes_total{kind="taken",source="a"} 8`} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	if !strings.Contains(body, "\noutbox_build_info{goversion=\"go") {
		t.Error("/metrics lacks outbox_build_info")
	}
}
