package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// settler writes down what Kafka has acknowledged, in a goroutine and on a connection of its own. What it could not write
// survives the term: an acked event is in Kafka whoever holds the lease, and the pair (id, event id) never names another row.
type settler struct {
	source Settler
	step   func(string)
	// took counts how long statements took, by the clock now; nil counts nothing.
	took *engine.Histogram
	now  func() time.Time

	mu      sync.Mutex
	pending []Ref
	// doubtful is how many of the first pending events were in a statement whose outcome is unknown: it may have settled them.
	doubtful int
	// stuck are in Kafka, and their rows cannot be settled: no later term may publish them again.
	stuck []Ref
	more  signal
}

// maxSettle bounds one statement: larger ones are no faster and hold their row locks longer.
const maxSettle = 10_000

func newSettler(source Settler, step func(string)) *settler {
	return &settler{source: source, step: step, now: time.Now, more: newSignal()}
}

func (s *settler) add(refs []Ref) {
	if len(refs) == 0 {
		return
	}
	s.mu.Lock()
	s.pending = append(s.pending, refs...)
	s.mu.Unlock()
	s.more.set()
}

func (s *settler) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}

// settlement is what a statement that has committed has done.
type settlement struct {
	// refs are published now, found of them by this statement.
	refs  []Ref
	found int
	// unsettled are the rows that it could not settle; nil when there are none.
	unsettled *UnsettledError
}

// run settles until stop ends, then what is still pending. Statements run under work. report is told of each one that has committed.
func (s *settler) run(stop, work context.Context, report func(settlement)) error {
	for {
		if err := s.flush(work, report); err != nil {
			return err
		}
		select {
		case <-stop.Done():
			return s.flush(work, report)
		case <-s.more:
		}
	}
}

// flush settles all that is pending. What fails stays pending; rows that cannot be settled do not: they would stop all others, now and in every later term.
func (s *settler) flush(ctx context.Context, report func(settlement)) error {
	for {
		s.mu.Lock()
		batch := s.pending[:min(len(s.pending), maxSettle)]
		s.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		s.step("settle")
		n, err := s.settle(ctx, batch)
		var unsettled *UnsettledError
		if err != nil && !errors.As(err, &unsettled) {
			s.doubtful = max(s.doubtful, len(batch))
			return fmt.Errorf("settle %d events: %w", len(batch), err)
		}
		s.step("settled")
		refs := s.setAside(batch, unsettled)
		report(settlement{refs, min(len(refs), n+s.doubtful), unsettled})
		s.doubtful = max(0, s.doubtful-len(batch))
		s.forget(len(batch))
	}
}

// setAside remembers the rows that cannot be settled and returns the others of the batch.
func (s *settler) setAside(batch []Ref, u *UnsettledError) []Ref {
	if u == nil {
		return batch
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stuck = append(s.stuck, u.Refs...)
	stuck := make(map[Ref]bool, len(u.Refs))
	for _, ref := range u.Refs {
		stuck[ref] = true
	}
	return slices.DeleteFunc(slices.Clone(batch), func(ref Ref) bool { return stuck[ref] })
}

// stuckRefs are the rows that could not be settled so far.
func (s *settler) stuckRefs() []Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stuck)
}

func (s *settler) stuckEvents() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.stuck)
}

func (s *settler) forget(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = s.pending[n:]
	if len(s.pending) == 0 {
		s.pending = nil
	}
}

// settleTimeout bounds one statement; a server that takes longer is treated as gone.
const settleTimeout = 30 * time.Second

func (s *settler) settle(ctx context.Context, refs []Ref) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	began := s.now()
	n, err := s.source.Settle(ctx, refs)
	s.took.AddDuration(s.now().Sub(began))
	return n, err
}
