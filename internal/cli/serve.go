package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
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
	registry.MustRegister(newCollector(engine, source), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", index)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", answer(func() error { return live(engine.Stats(), time.Now()) }))
	mux.HandleFunc("GET /readyz", answer(func() error { return ready(engine.Stats()) }))
	return mux
}

// index lists the paths for a person who came by the address alone.
func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, "outbox relay\n\n/livez    the process works\n/readyz   events flow, or would if this relay had the lease\n/metrics  for Prometheus\n")
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
