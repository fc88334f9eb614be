package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// served is what the paths tell of.
type served struct {
	relays *relayFleet
	// pprof tells that Go's profiles are served.
	pprof bool
}

// serve answers /livez, /readyz and /metrics at the address until the server is closed. setting is by what the address was made.
func (a *app) serve(setting, address string, what served, log *slog.Logger) (*http.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, listenError(setting, address, err)
	}
	server := &http.Server{
		Handler: what.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		MaxHeaderBytes: mostHeaderBytes, ConnState: (&crowd{}).note,
	}
	if what.pprof {
		// A profile takes as long as it is asked for; package pprof refuses one that is longer than this.
		server.WriteTimeout = 5 * time.Minute
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serve metrics", "error", err)
		}
	}()
	log.Info("serving /livez, /readyz and /metrics", "address", listener.Addr().String())
	return server, nil
}

// listenError tells a port that another process has, and may give up, from an address that cannot be had. At a deploy the old process and the new one overlap.
func listenError(setting, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s %s: %w: another process has the port; start again when it has ended, or choose another port", setting, address, syscall.EADDRINUSE)
	}
	return &configError{fmt.Errorf("%s %s: %w", setting, address, err)}
}

func (s served) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.Handle("GET /metrics", promhttp.HandlerFor(newRegistry(s.relays), promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", answer(s.relays, func(state sourceState) error { return sourceLive(state, time.Now()) }))
	mux.HandleFunc("GET /readyz", answer(s.relays, sourceReady))
	if s.pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// newRegistry has all that /metrics tells.
func newRegistry(relays *relayFleet) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(relays), buildInfo(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// index lists the paths for a person who came by the address alone.
func (s served) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, "outbox relay\n\n/livez    the process works\n/readyz   events of every source flow, or would if this relay had lanes; /readyz?source=NAME asks for one\n/metrics  for Prometheus\n")
	if s.pprof {
		fmt.Fprint(w, "/debug/pprof/  Go's profiles\n")
	}
}
