package inboxprom_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/inbox/inboxprom"
	"github.com/outbox-relay/outbox/kafka"
)

// What the documentation of NewCollector says of a consumer's method.
var _ = func(c *kafka.Consumer) prometheus.Collector { return inboxprom.NewCollector("billing", c.Stats) }

func TestAConsumersFiguresAreShown(t *testing.T) {
	t.Parallel()
	now := inbox.Stats{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(inboxprom.NewCollector("billing", func() inbox.Stats { return now }), inboxprom.NewCollector("idle", func() inbox.Stats { return inbox.Stats{} }))
	if got := series(t, registry, "idle"); len(got) != 10 || got["failures_total"] != 0 || got["records_total skipped"] != 0 || got["database_available"] != 1 {
		t.Errorf("before anything has happened: %v", got)
	}
	now = inbox.Stats{Handled: 1, Repeats: 2, Ignored: 3, Failures: 4, Retried: 5, DeadLettered: 6, Skipped: 7, InFlight: 8, Waiting: 9, Unavailable: true}
	want := map[string]float64{
		"records_total handled": 1, "records_total repeated": 2, "records_total ignored": 3, "failures_total": 4, "records_total retried": 5,
		"records_total dead_lettered": 6, "records_total skipped": 7, "in_flight_records": 8, "waiting_keys": 9, "database_available": 0,
	}
	got := series(t, registry, "billing")
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
}

// series returns the values of one consumer, by name and outcome.
func series(t *testing.T, registry *prometheus.Registry, consumer string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "outbox_consumer_")
			ours := false
			for _, l := range m.GetLabel() {
				ours = ours || l.GetName() == "consumer" && l.GetValue() == consumer
				if l.GetName() == "outcome" {
					name += " " + l.GetValue()
				}
			}
			if ours {
				values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return values
}

// testdata/metrics.txt is what the dashboard and the rules are checked against.
func TestTheListOfMetricsIsTrue(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(inboxprom.NewCollector("billing", func() inbox.Stats { return inbox.Stats{} }))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		fmt.Fprintln(&b, f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ","))
		if !strings.Contains(string(docs), "| `"+f.GetName()+"` |") {
			t.Errorf("docs/operating.md does not tell of %s", f.GetName())
		}
	}
	list, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(list) {
		t.Errorf("testdata/metrics.txt is to be:\n%s", b.String())
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
