package cli

import "sync"

// shared lets all who ask at the same time have one answer: a hundred who scrape at once read the database once, and each gets what was read.
type shared[T any] struct {
	mu sync.Mutex
	// running is the question on its way; nil when there is none.
	running *question[T]
}

type question[T any] struct {
	answered chan struct{}
	answer   T
}

// get returns the answer of ask, or of the one that is on its way. Nothing is kept: whoever comes after it asks anew.
func (s *shared[T]) get(ask func() T) T {
	s.mu.Lock()
	if q := s.running; q != nil {
		s.mu.Unlock()
		<-q.answered
		return q.answer
	}
	q := &question[T]{answered: make(chan struct{})}
	s.running = q
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running = nil
		s.mu.Unlock()
		close(q.answered)
	}()
	q.answer = ask()
	return q.answer
}
