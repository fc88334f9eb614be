// Package patience does within a limit what may never come to an end: reading a file of a mount that hangs, or a pipe that nobody writes to.
package patience

import (
	"context"
	"fmt"
	"time"
)

// SilentError tells that something has not come to its end within the limit.
type SilentError struct{ Limit time.Duration }

// Error says how long was waited.
func (e *SilentError) Error() string { return fmt.Sprintf("no answer within %s", e.Limit) }

// Call returns what f returns. It gives f up after the limit, with a [*SilentError], or at the end of ctx, with its error: f goes on in a goroutine of its own, and what it
// returns then is dropped.
func Call[T any](ctx context.Context, limit time.Duration, f func() (T, error)) (T, error) {
	a := begin(limit, f)
	return a.wait(ctx)
}

// attempt is one call that is under way, or has ended.
type attempt[T any] struct {
	limit time.Duration
	// late ends with the limit; release ends it before, when nobody needs it any more.
	late    context.Context //nolint:containedctx // it is a timer that several can wait for, and nothing is done by it
	release context.CancelFunc
	// ended is closed when value and err are what they will be.
	ended chan struct{}
	value T
	err   error
}

func begin[T any](limit time.Duration, f func() (T, error)) *attempt[T] {
	a := &attempt[T]{limit: limit, ended: make(chan struct{})}
	a.late, a.release = context.WithTimeout(context.Background(), limit)
	go func() {
		a.value, a.err = f()
		close(a.ended)
		a.release()
	}()
	return a
}

func (a *attempt[T]) wait(ctx context.Context) (value T, err error) {
	select {
	case <-a.ended:
		return a.value, a.err
	case <-ctx.Done():
		return value, ctx.Err()
	case <-a.late.Done():
	}
	// An end releases late, too.
	select {
	case <-a.ended:
		return a.value, a.err
	default:
		return value, &SilentError{a.limit}
	}
}
