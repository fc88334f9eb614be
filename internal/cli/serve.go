package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// serve answers /livez, /readyz and /metrics at the address until the server is closed.
func (a *app) serve(address string, engine *relay.Relay, source *postgres.Source, log *slog.Logger) (*http.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &configError{fmt.Errorf("--listen %s: %w", address, err)}
	}
	server := &http.Server{Handler: a.handler(engine, source), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serve metrics", "error", err)
		}
	}()
	log.Info("serving /livez, /readyz and /metrics", "address", listener.Addr().String())
	return server, nil
}

func (a *app) handler(engine *relay.Relay, source *postgres.Source) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(engine, source))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", answer(func() error { return live(engine.Stats(), time.Now()) }))
	mux.HandleFunc("GET /readyz", answer(func() error { return ready(engine.Stats()) }))
	return mux
}

func answer(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// turnLimit is longer than any statement of the loop may take.
const turnLimit = 90 * time.Second

// live tells whether the loop turns. Outages of database and brokers do not count: a restart would not mend them.
func live(s relay.Stats, now time.Time) error {
	if !s.LastTurn.IsZero() && now.Sub(s.LastTurn) > turnLimit {
		return fmt.Errorf("the loop has not turned for %s", now.Sub(s.LastTurn).Round(time.Second))
	}
	return nil
}

// ready tells whether events flow, or would if this relay had the lease.
func ready(s relay.Stats) error {
	switch {
	case s.Stalled:
		return fmt.Errorf("Kafka acknowledges nothing: %d events are outstanding", s.Outstanding)
	case s.LastError != nil:
		return fmt.Errorf("interrupted: %w", s.LastError)
	case !s.Leading && s.Waiting == "":
		return errors.New("starting")
	}
	return nil
}

// collector asks the relay and the database when it is scraped, so that an age grows although nothing happens.
type collector struct {
	engine *relay.Relay
	source *postgres.Source

	pending, oldest, published, errors, parked *prometheus.Desc
}

func newCollector(engine *relay.Relay, source *postgres.Source) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("outbox_"+name, help, labels, nil)
	}
	return &collector{
		engine:    engine,
		source:    source,
		pending:   desc("pending", "Unpublished events, counted to 100,000."),
		oldest:    desc("oldest_pending_age_seconds", "Age of the oldest unpublished event by the database's clock; 0 when there is none."),
		published: desc("published_total", "Events that Kafka has acknowledged to this relay."),
		errors:    desc("publish_errors_total", "Failures to publish by class.", "class"),
		parked:    desc("parked_keys", "Keys that wait for an operator."),
	}
}

// Describe is of prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.pending, c.oldest, c.published, c.errors, c.parked} {
		ch <- d
	}
}

const scrapeTimeout = 5 * time.Second

// Collect is of prometheus.Collector. While the database cannot be asked, the series that come from it are absent rather than wrong.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	stats := c.engine.Stats()
	ch <- prometheus.MustNewConstMetric(c.published, prometheus.CounterValue, float64(stats.Published))
	for class, n := range stats.Errors {
		ch <- prometheus.MustNewConstMetric(c.errors, prometheus.CounterValue, float64(n), class.String())
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	backlog, err := c.source.Backlog(ctx)
	if err != nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(c.pending, prometheus.GaugeValue, float64(backlog.Pending))
	ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, backlog.OldestAge.Seconds())
	ch <- prometheus.MustNewConstMetric(c.parked, prometheus.GaugeValue, float64(backlog.ParkedKeys))
}
