package relay

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// settler writes down what Kafka has acknowledged, in a goroutine and on a connection of its own. What it could not write
// survives the term: an acked event is in Kafka whoever holds the lease, and the pair (id, event id) never names another row.
type settler struct {
	source Settler
	step   func(string)

	mu      sync.Mutex
	pending []Ref
	// doubtful is how many of the first pending events were in a statement whose outcome is unknown: it may have settled them.
	doubtful int
	more     signal
}

// maxSettle bounds one statement: larger ones are no faster and hold their row locks longer.
const maxSettle = 10_000

func newSettler(source Settler, step func(string)) *settler {
	return &settler{source: source, step: step, more: newSignal()}
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

// run settles until stop ends, then what is still pending. Statements run under work. settled is told of each one that has committed: its events, and
// how many of them were found unpublished.
func (s *settler) run(stop, work context.Context, settled func(refs []Ref, n int)) error {
	for {
		if err := s.flush(work, settled); err != nil {
			return err
		}
		select {
		case <-stop.Done():
			return s.flush(work, settled)
		case <-s.more:
		}
	}
}

// flush settles all that is pending. What fails stays pending.
func (s *settler) flush(ctx context.Context, settled func([]Ref, int)) error {
	for {
		s.mu.Lock()
		batch := s.pending[:min(len(s.pending), maxSettle)]
		s.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		s.step("settle")
		n, err := s.settle(ctx, batch)
		if err != nil {
			s.doubtful = max(s.doubtful, len(batch))
			return fmt.Errorf("settle %d events: %w", len(batch), err)
		}
		s.step("settled")
		settled(batch, min(len(batch), n+s.doubtful))
		s.doubtful = max(0, s.doubtful-len(batch))
		s.forget(len(batch))
	}
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
	return s.source.Settle(ctx, refs)
}
