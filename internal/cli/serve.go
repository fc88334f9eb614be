package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serve answers /livez, /readyz and /metrics at the address until the server is closed.
func (a *app) serve(address string, relays *relayFleet, log *slog.Logger) (*http.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, listenError(address, err)
	}
	server := &http.Server{Handler: handler(relays), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serve metrics", "error", err)
		}
	}()
	log.Info("serving /livez, /readyz and /metrics", "address", listener.Addr().String())
	return server, nil
}

// listenError tells a port that another process has, and may give up, from an address that cannot be had. At a deploy the old process and the new one overlap.
func listenError(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--listen %s: %w: another process has the port; start again when it has ended, or choose another port", address, syscall.EADDRINUSE)
	}
	return &configError{fmt.Errorf("--listen %s: %w", address, err)}
}

func handler(relays *relayFleet) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(relays), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", index)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", answer(relays, func(s sourceState) error { return sourceLive(s, time.Now()) }))
	mux.HandleFunc("GET /readyz", answer(relays, sourceReady))
	return mux
}

// index lists the paths for a person who came by the address alone.
func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, "outbox relay\n\n/livez    the process works\n/readyz   events of every source flow, or would if this relay had lanes; /readyz?source=NAME asks for one\n/metrics  for Prometheus\n")
}
