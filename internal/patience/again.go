package patience

import (
	"context"
	"sync"
	"time"
)

// Again reads the same thing time and again. It never has two reads of it under way: where one hangs, no goroutines pile up behind it. It may be used from any goroutine.
type Again[T any] struct {
	limit time.Duration
	read  func() (T, error)

	mu sync.Mutex
	// last is what was read last without an error.
	last T
	// under is the read that is under way; nil when there is none.
	under *attempt[T]
}

// NewAgain returns what reads by the function, waiting for it as long as the limit. first is what was read before.
func NewAgain[T any](first T, limit time.Duration, read func() (T, error)) *Again[T] {
	return &Again[T]{last: first, limit: limit, read: read}
}

// Try returns what there is now. A read that has hung for longer than the limit is not waited for again: the error is a [*SilentError].
func (a *Again[T]) Try(ctx context.Context) (T, error) { return a.attempt().wait(ctx) }

// Read returns what there is now, or else, where that cannot be read, what was read last.
func (a *Again[T]) Read(ctx context.Context) T {
	// The error says why there is nothing new.
	_, _ = a.Try(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

func (a *Again[T]) attempt() *attempt[T] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.under == nil {
		a.under = begin(a.limit, a.keep)
	}
	return a.under
}

// keep reads, and keeps what it has read.
func (a *Again[T]) keep() (T, error) {
	value, err := a.read()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.last = value
	}
	a.under = nil
	return value, err
}
