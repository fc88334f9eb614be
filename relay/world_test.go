package relay

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is a table, a Kafka, and relays between them, in virtual time.
type world struct {
	t     *testing.T
	table *fakeTable
	kafka *fakeKafka
}

// inWorld runs a test in a bubble of virtual time. A goroutine that a relay leaves behind fails the test.
func inWorld(t *testing.T, f func(w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(&world{t: t, table: newFakeTable(), kafka: newFakeKafka()}) })
}

// running is a relay at work.
type running struct {
	*Relay
	w         *world
	source    *fakeSource
	publisher *fakePublisher
	log       *logLines
	network   *network
	cancel    context.CancelFunc
	ran       chan error
	ended     chan struct{}
}

// relay makes a relay; the test may script its sides before it calls start.
func (w *world) relay(cfg Config) *running {
	w.t.Helper()
	r := &running{
		w: w, source: &fakeSource{table: w.table}, publisher: &fakePublisher{kafka: w.kafka, maxDelay: testDelay}, log: &logLines{}, ran: make(chan error, 1), ended: make(chan struct{}),
	}
	if cfg.Name == "" {
		cfg.Name = "relay"
	}
	cfg.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	var err error
	if r.Relay, err = New(r.source, r.publisher, cfg); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (r *running) start() *running {
	ctx, cancel := context.WithCancel(r.w.t.Context())
	r.cancel = cancel
	go func() {
		r.ran <- r.Run(ctx)
		close(r.ended)
	}()
	r.w.t.Cleanup(func() {
		cancel()
		<-r.ended
	})
	return r
}

// stop asks the relay to stop and returns what Run returned.
func (r *running) stop() error {
	r.cancel()
	return <-r.ran
}

func (r *running) wantStopped() {
	r.w.t.Helper()
	if err := r.stop(); err != nil {
		r.w.t.Errorf("run: %v, want a clean stop", err)
	}
}

// until waits in virtual time until something holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	step, deadline := time.Millisecond, time.Now().Add(time.Hour)
	for !holds() {
		if time.Now().After(deadline) {
			w.t.Fatalf("after an hour: not %s", what)
		}
		after(step)
		step += step / 64
	}
}

// untilPublished waits until everything committed is published and settled.
func (w *world) untilPublished() {
	w.t.Helper()
	w.until("everything published", func() bool { return w.table.open() == 0 })
}

// wantRecords compares the records of a key with what was written.
func (w *world) wantRecords(key Key, want ...int64) {
	w.t.Helper()
	if got := w.kafka.of(key); !slices.Equal(got, want) {
		w.t.Errorf("records of %v: events %v, want %v", key, got, want)
	}
}

// logLines collects what a relay logs.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logLines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), s)
}

// held is an answer that does not come before it is let go.
type held struct{ let chan struct{} }

func newHeld() *held { return &held{make(chan struct{})} }

func (h *held) letGo() { close(h.let) }

// of holds the answers of a key.
func (h *held) of(key Key) func(*Event) <-chan struct{} {
	return func(e *Event) <-chan struct{} {
		if e.Key() != key {
			return nil
		}
		return h.let
	}
}

func (h *held) all(*Event) <-chan struct{} { return h.let }
