package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/internal/notify"
)

// supervisor tells the service manager how the relays of this process are.
type supervisor struct {
	manager notify.Manager
	states  func() []sourceState
	log     *slog.Logger

	ready bool
	// status is what was said last.
	status string
	// failed tells that the manager did not take what was said last.
	failed bool
}

// lookEvery is how often the relays are looked at. A watchdog that wants to hear more often does.
const lookEvery = 500 * time.Millisecond

// supervised tells the service manager, if there is one, what becomes of the relays until the returned function is called. From the end of ctx on they stop.
func (a *app) supervised(ctx context.Context, relays *relayFleet, log *slog.Logger) (end func(), err error) {
	manager, err := notify.New(func(name string) string { return a.env[name] }, os.Getpid())
	if err != nil {
		return nil, &configError{err}
	}
	if !manager.Present() {
		return func() {}, nil
	}
	s := &supervisor{manager: manager, states: relays.States, log: log}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { s.watch(own, ctx.Done()) })
	return func() {
		cancel()
		wg.Wait()
	}, nil
}

// stoppingLines are what a stop says.
func stoppingLines() []string {
	return []string{notify.Stopping, notify.Status("stopping: waiting for what Kafka has not acknowledged")}
}

func (s *supervisor) watch(ctx context.Context, stop <-chan struct{}) {
	every := lookEvery
	if w := s.manager.Watchdog(); w > 0 {
		every = min(every, w/3)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			// A stop may be over before it was heard here.
			select {
			case <-stop:
				s.tell(context.WithoutCancel(ctx), stoppingLines()...)
			default:
			}
			return
		case <-stop:
			stop = nil
			// The stop may be over while it is told.
			s.tell(context.WithoutCancel(ctx), stoppingLines()...)
		case <-ticker.C:
			s.tell(ctx, s.look(time.Now(), stop == nil)...)
		}
	}
}

// look returns what there is to say now. One source that is ready is enough for Ready: the others come up beside it, and a start that fails is the end of a process without any.
// The watchdog hears nothing while /livez would refuse. A service that stops keeps the status that says so.
func (s *supervisor) look(now time.Time, stopping bool) (lines []string) {
	states := s.states()
	if _, ok := report(states, false, func(state sourceState) error { return sourceLive(state, now) }); ok && s.manager.Watchdog() > 0 {
		lines = append(lines, notify.Watchdog)
	}
	if stopping {
		return lines
	}
	// What is said and whether it is ready come from one look at each source, which may become ready meanwhile.
	ready := false
	text, _ := report(states, len(states) > 1, func(state sourceState) error {
		err := saidOf(state)
		ready = ready || err == nil
		return err
	})
	if ready && !s.ready {
		s.ready = true
		lines = append(lines, notify.Ready)
	}
	if text = strings.TrimSpace(text); text != s.status {
		s.status = text
		lines = append(lines, notify.Status(text))
	}
	return lines
}

// saidOf is sourceReady without what changes from second to second: the service manager would be told of each.
func saidOf(s sourceState) error {
	if s.Err == nil && s.Made && s.Engine.Stats().Stalled {
		return errors.New("Kafka acknowledges nothing; events are outstanding")
	}
	return sourceReady(s)
}

// tell complains once of a manager that does not listen: the relay goes on without. What it has missed, it is told again: a start that it does not hear of would be ended.
func (s *supervisor) tell(ctx context.Context, lines ...string) {
	if len(lines) == 0 {
		return
	}
	err := s.manager.Tell(ctx, lines...)
	if err != nil && !s.failed && ctx.Err() == nil {
		s.log.Warn("the service manager does not listen", "error", err)
	}
	if s.failed = err != nil; s.failed {
		s.ready, s.status = false, ""
	}
}
