package fleet

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

// Engine is a relay of one source. *relay.Relay is one.
type Engine interface {
	// Run works until ctx ends, and drains. It is called once.
	Run(ctx context.Context) error
	// Stats may be called at any time.
	Stats() relay.Stats
}

// Member is one source of the fleet.
type Member[E Engine] struct {
	// Name tells it from the others.
	Name string
	// Make makes the engine of an attempt. It connects to nothing.
	Make func() (E, error)
	// Logger is told of attempts that failed.
	Logger *slog.Logger
}

// Config says how the fleet runs. The zero value works.
type Config struct {
	// Once ends each member for good at the end of its first attempt.
	Once bool
	// FirstPause is how long a member that did not come up waits for its second attempt; every further pause is twice as long, up to 30 s. Default 5 s.
	FirstPause time.Duration

	// pause waits between two attempts, or until ctx ends.
	pause func(context.Context, time.Duration)
}

// The pause between two attempts doubles from the one to the other.
const (
	firstPause = 5 * time.Second
	maxPause   = 30 * time.Second
)

// Fleet runs relays side by side. Make one with [New].
type Fleet[E Engine] struct {
	cfg     Config
	members []*member[E]

	mu sync.Mutex
}

// member is a source with what has become of it. All but its Member is guarded by the fleet's mutex.
type member[E Engine] struct {
	Member[E]
	// engine is that of the last attempt; valid when made.
	engine E
	made   bool
	// failures counts attempts that failed; err is the last one's, nil after a success.
	failures int
	err      error
	again    time.Duration
	running  bool
}

// State is what has become of one source.
type State[E Engine] struct {
	Name string
	// Engine is that of the last attempt; Made tells that there is one.
	Engine E
	Made   bool
	// Err is why the source has not come up; nil when it has, or when nothing is known yet.
	Err error
	// Again is how long the fleet waits between that failure and the next attempt; zero when there is none.
	Again time.Duration
}

// New returns a fleet of members with different names. It starts nothing.
func New[E Engine](members []Member[E], cfg Config) *Fleet[E] {
	cfg.FirstPause = cmp.Or(cfg.FirstPause, firstPause)
	if cfg.pause == nil {
		cfg.pause = pause
	}
	f := &Fleet[E]{cfg: cfg}
	for _, m := range members {
		if m.Logger == nil {
			m.Logger = slog.New(slog.DiscardHandler)
		}
		f.members = append(f.members, &member[E]{Member: m})
	}
	return f
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Run works until ctx ends and everything is drained, until every member is done (Config.Once), or until it is certain that no member comes up. It
// returns what became of the members that failed, in an *Error; nil when there is none. Run may be called once.
func (f *Fleet[E]) Run(ctx context.Context) error {
	// The engines are told of a stop after it is noted who has come up: afterwards their state does not tell any more.
	engines, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		f.note()
		stop()
	})()
	var wg sync.WaitGroup
	for _, m := range f.members {
		wg.Go(func() { f.keep(engines, stop, m) })
	}
	wg.Wait()
	return f.outcome()
}

// keep runs one member, again and again if need be.
func (f *Fleet[E]) keep(ctx context.Context, stop func(), m *member[E]) {
	wait := f.cfg.FirstPause
	for ctx.Err() == nil {
		err := f.attempt(ctx, m)
		if err == nil {
			return
		}
		hopeless := f.failed(m, err, wait)
		if ctx.Err() != nil || f.cfg.Once {
			return
		}
		if hopeless {
			stop()
			return
		}
		text := "source does not come up"
		if f.anyUp() {
			text += "; the others go on"
		}
		m.Logger.Error(text, "error", err, "again_in", wait.String())
		f.cfg.pause(ctx, wait)
		wait = min(2*wait, maxPause)
	}
}

func (f *Fleet[E]) attempt(ctx context.Context, m *member[E]) error {
	engine, err := m.Make()
	if err != nil {
		return fmt.Errorf("make the relay: %w", err)
	}
	f.mu.Lock()
	m.engine, m.made, m.running, m.again = engine, true, true, 0
	f.mu.Unlock()
	err = engine.Run(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	m.running = false
	return err
}

// failed writes down a failure and tells whether none has come up and all have tried.
func (f *Fleet[E]) failed(m *member[E], err error, again time.Duration) (hopeless bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.failures++
	m.err, m.again = err, again
	for _, other := range f.members {
		other.look()
		if other.failures == 0 || other.err == nil {
			return false
		}
	}
	return true
}

// anyUp tells that another source works, as far as is known.
func (f *Fleet[E]) anyUp() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if m.look(); m.running && m.err == nil && up(m.engine.Stats()) {
			return true
		}
	}
	return false
}

// look forgets the failure of a member that has come up since.
func (m *member[E]) look() {
	if m.running && m.err != nil && up(m.engine.Stats()) {
		m.err = nil
	}
}

// up tells that the engine works, has worked, or waits for its turn.
func up(s relay.Stats) bool { return s.Leading || s.Waiting != "" || s.Published > 0 }

func (f *Fleet[E]) note() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		m.look()
	}
}

// States tells of every member, in the order that was given to New. It may be called at any time.
func (f *Fleet[E]) States() []State[E] {
	f.mu.Lock()
	defer f.mu.Unlock()
	var states []State[E]
	for _, m := range f.members {
		m.look()
		states = append(states, State[E]{Name: m.Name, Engine: m.engine, Made: m.made, Err: m.err, Again: m.again})
	}
	return states
}

func (f *Fleet[E]) outcome() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var failed []Failure
	for _, m := range f.members {
		if m.err != nil {
			failed = append(failed, Failure{m.Name, m.err})
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &Error{failed}
}
