package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

// fake is an engine whose Run does what the test says.
type fake struct {
	run   func(ctx context.Context) error
	stats atomic.Pointer[relay.Stats]
}

func (f *fake) Run(ctx context.Context) error { return f.run(ctx) }

func (f *fake) Stats() relay.Stats {
	if s := f.stats.Load(); s != nil {
		return *s
	}
	return relay.Stats{}
}

// leads works until it is stopped.
func (f *fake) leads(ctx context.Context) error {
	f.stats.Store(&relay.Stats{Leading: true})
	<-ctx.Done()
	f.stats.Store(&relay.Stats{})
	return nil
}

// source makes the engines of one member, the last one again and again.
type source struct {
	mu   sync.Mutex
	runs []func(context.Context, *fake) error
	made int
}

func (s *source) make() (*fake, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.runs[min(s.made, len(s.runs)-1)]
	s.made++
	f := &fake{}
	f.run = func(ctx context.Context) error { return run(ctx, f) }
	return f, nil
}

func (s *source) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

func works(ctx context.Context, f *fake) error { return f.leads(ctx) }

func ends(context.Context, *fake) error { return nil }

func fails(err error) func(context.Context, *fake) error {
	return func(context.Context, *fake) error { return err }
}

// failsAfter tries for some time.
func failsAfter(d time.Duration, err error) func(context.Context, *fake) error {
	return func(ctx context.Context, _ *fake) error {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(d):
			return err
		}
	}
}

var (
	errConfig = fmt.Errorf("the table was never migrated: %w", relay.ErrConfiguration)
	errOutage = errors.New("nobody answers")
)

// fleetOf names the sources a, b, c.
func fleetOf(cfg Config, sources ...*source) *Fleet[*fake] {
	var members []Member[*fake]
	for i, s := range sources {
		members = append(members, Member[*fake]{Name: string(rune('a' + i)), Make: s.make})
	}
	return New(members, cfg)
}

// started runs the fleet on; stop ends it and returns what Run does.
func started(t *testing.T, f *Fleet[*fake]) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	return func() error { cancel(); return <-done }
}

// errs are the members' errors by name.
func errs(f *Fleet[*fake]) string {
	var all []string
	for _, s := range f.States() {
		if s.Err != nil {
			all = append(all, s.Name+": "+s.Err.Error())
		}
	}
	return strings.Join(all, "; ")
}

func TestASourceThatDoesNotComeUpTouchesNoOtherAndIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := &source{runs: []func(context.Context, *fake) error{fails(errConfig), fails(errConfig), works}}
		good := &source{runs: []func(context.Context, *fake) error{works}}
		f := fleetOf(Config{}, bad, good)
		stop := started(t, f)
		synctest.Wait()
		if got := errs(f); got != "a: the table was never migrated: configuration" {
			t.Errorf("at first: %q", got)
		}
		if s := f.States(); s[0].Again != firstPause || !s[1].Engine.Stats().Leading {
			t.Errorf("at first: %+v", s)
		}
		<-time.After(firstPause + 2*firstPause)
		synctest.Wait()
		if got := errs(f); got != "" || bad.attempts() != 3 || good.attempts() != 1 {
			t.Errorf("after two pauses: %q, %d and %d attempts", got, bad.attempts(), good.attempts())
		}
		if err := stop(); err != nil {
			t.Errorf("a source that came up in the end is no failure: %v", err)
		}
	})
}

func TestAFailureThatIsThereAtTheStopIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(Config{}, &source{runs: []func(context.Context, *fake) error{fails(errConfig), failsAfter(time.Hour, errOutage)}}, &source{runs: []func(context.Context, *fake) error{works}})
		stop := started(t, f)
		<-time.After(firstPause + time.Minute) // The second attempt is under way, and has not come up.
		err := stop()
		if err == nil || err.Error() != "a: "+errConfig.Error() || !errors.Is(err, relay.ErrConfiguration) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTheProcessEndsWhenNoSourceComesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runs   []func(context.Context, *fake) error
		config bool
		after  time.Duration
	}{
		"one source":        {[]func(context.Context, *fake) error{fails(errConfig)}, true, 0},
		"all misconfigured": {[]func(context.Context, *fake) error{fails(errConfig), fails(errConfig)}, true, 0},
		"one in an outage":  {[]func(context.Context, *fake) error{fails(errConfig), failsAfter(30*time.Second, errOutage)}, false, 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var sources []*source
			for _, run := range c.runs {
				sources = append(sources, &source{runs: []func(context.Context, *fake) error{run}})
			}
			began := time.Now()
			err := fleetOf(Config{}, sources...).Run(t.Context())
			var failed *Error
			if !errors.As(err, &failed) || len(failed.Failures) != len(c.runs) || errors.Is(err, relay.ErrConfiguration) != c.config {
				t.Errorf("%s: got %v", name, err)
			}
			if got := time.Since(began); got != c.after {
				t.Errorf("%s: ended after %s, want %s", name, got, c.after)
			}
		})
	}
}

func TestASourceThatCameUpLaterKeepsTheProcessAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := &source{runs: []func(context.Context, *fake) error{fails(errConfig), works}}
		slow := &source{runs: []func(context.Context, *fake) error{failsAfter(30*time.Second, errOutage)}}
		f := fleetOf(Config{}, late, slow)
		stop := started(t, f)
		<-time.After(time.Minute)
		synctest.Wait()
		if got := errs(f); got != "b: nobody answers" || slow.attempts() != 2 {
			t.Errorf("after a minute: %q, %d attempts", got, slow.attempts())
		}
		if err := stop(); err == nil || errors.Is(err, relay.ErrConfiguration) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTheOthersGoOnOnlyWhereOneDoes(t *testing.T) {
	t.Parallel()
	for want, other := range map[string]func(context.Context, *fake) error{
		`msg="source does not come up"`:                   failsAfter(30*time.Second, errOutage),
		`msg="source does not come up; the others go on"`: works,
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			bad := Member[*fake]{Name: "a", Make: (&source{runs: []func(context.Context, *fake) error{failsAfter(time.Second, errConfig)}}).make, Logger: slog.New(slog.NewTextHandler(&log, nil))}
			f := New([]Member[*fake]{bad, {Name: "b", Make: (&source{runs: []func(context.Context, *fake) error{other}}).make}}, Config{})
			stop := started(t, f)
			<-time.After(2 * time.Second)
			synctest.Wait()
			_ = stop()
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %s: %s", want, &log)
			}
		})
	}
}

func TestThePauseGrowsToItsLimit(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var pauses []time.Duration
	enough := make(chan struct{})
	cfg := Config{pause: func(ctx context.Context, d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if pauses = append(pauses, d); len(pauses) == 5 {
			close(enough)
		}
		if len(pauses) >= 5 {
			<-ctx.Done()
		}
	}}
	f := fleetOf(cfg, &source{runs: []func(context.Context, *fake) error{fails(errConfig)}}, &source{runs: []func(context.Context, *fake) error{works}})
	stop := started(t, f)
	<-enough
	if err := stop(); err == nil {
		t.Error("the failure is not reported")
	}
	s := time.Second
	if want := []time.Duration{5 * s, 10 * s, 20 * s, 30 * s, 30 * s}; !slices.Equal(pauses, want) {
		t.Errorf("got %v, want %v", pauses, want)
	}
}

func TestOnceTriesEachSourceOnce(t *testing.T) {
	t.Parallel()
	bad := &source{runs: []func(context.Context, *fake) error{fails(errConfig)}}
	slow := &source{runs: []func(context.Context, *fake) error{ends}}
	last := &source{runs: []func(context.Context, *fake) error{fails(errOutage)}}
	err := fleetOf(Config{Once: true}, bad, slow, last).Run(t.Context())
	if err == nil || err.Error() != "a: "+errConfig.Error()+"\nc: nobody answers" || errors.Is(err, relay.ErrConfiguration) {
		t.Errorf("got %v", err)
	}
	if bad.attempts() != 1 || slow.attempts() != 1 || last.attempts() != 1 {
		t.Errorf("attempts: %d, %d, %d", bad.attempts(), slow.attempts(), last.attempts())
	}
}

func TestAStopDrainsAllAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		drains := func(ctx context.Context, f *fake) error {
			_ = f.leads(ctx)
			<-time.After(10 * time.Second)
			return &relay.DrainError{Outstanding: 1}
		}
		f := fleetOf(Config{}, &source{runs: []func(context.Context, *fake) error{drains}}, &source{runs: []func(context.Context, *fake) error{drains}})
		stop := started(t, f)
		synctest.Wait()
		began := time.Now()
		err := stop()
		var failed *Error
		if !errors.As(err, &failed) || len(failed.Failures) != 2 || time.Since(began) != 10*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

func TestAnEngineThatCannotBeMadeFailsItsSourceOnly(t *testing.T) {
	t.Parallel()
	good := &source{runs: []func(context.Context, *fake) error{ends}}
	f := New([]Member[*fake]{
		{Name: "a", Make: func() (*fake, error) { return nil, errOutage }},
		{Name: "b", Make: good.make},
	}, Config{Once: true})
	if err := f.Run(t.Context()); err == nil || err.Error() != "a: make the relay: nobody answers" {
		t.Errorf("got %v", err)
	}
	if s := f.States(); s[0].Made || !s[1].Made {
		t.Errorf("got %+v", s)
	}
}

func TestASourceThatCameUpLaterIsNoFailureThoughNobodyLooked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := &source{runs: []func(context.Context, *fake) error{fails(errConfig), works}}
		stop := started(t, fleetOf(Config{}, late, &source{runs: []func(context.Context, *fake) error{works}}))
		<-time.After(time.Minute)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Errorf("got %v", err)
		}
	})
}
