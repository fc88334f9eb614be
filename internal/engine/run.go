package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	// MinBackoff is the first pause between two terms. It doubles, and begins anew after a term that has lasted longer.
	MinBackoff = 100 * time.Millisecond
	// MaxBackoff is the longest pause between two terms.
	MaxBackoff = 5 * time.Second
	// attemptTimeout bounds one try at reaching the database or the brokers: what hangs counts as failed.
	attemptTimeout = 30 * time.Second
)

// Run is the life of a relay: it works in terms, and whatever interrupts one is waited out, once a first one has begun. All but its methods is touched by one goroutine at a time.
type Run struct {
	Log *slog.Logger
	Now func() time.Time
	// Jitter draws from zero to below its argument.
	Jitter func(time.Duration) time.Duration
	// StartTimeout is how long a start may take; not more than zero means for ever.
	StartTimeout time.Duration
	// Unmendable is the error that ends a run which has not begun: waiting does not mend it.
	Unmendable error

	// Opened tells that a term has begun in this run: from then on a failure is waited out.
	Opened bool
	// QuietUntil is until when events that were left behind with a destroyed client may still reach Kafka.
	QuietUntil time.Time

	started time.Time
	// reason is why the relay has not started yet.
	reason    error
	complaint Complaint
}

// Steps are what differs between engines.
type Steps struct {
	// Term works until something ends it; nil ends the run.
	Term func(context.Context) error
	// Left reports what a stop has to leave behind; nil when that is nothing.
	Left func() error
	// Interrupted is told why a term has ended, before the pause; Resume is called after it.
	Interrupted func(context.Context, error)
	Resume      func(context.Context)
}

// StopError ends the run with Err, which may be nil.
type StopError struct{ Err error }

func (e *StopError) Error() string { return fmt.Sprintf("stop: %v", e.Err) }

// Do makes terms until one ends the run, or ctx does.
func (r *Run) Do(ctx context.Context, s Steps) error {
	r.started = r.Now()
	wait := MinBackoff
	for {
		began := r.Now()
		err := s.Term(ctx)
		if done, err := r.finished(ctx, s, err); done {
			return err
		}
		if r.Now().Sub(began) > MaxBackoff {
			wait = MinBackoff
		}
		r.noteReason(err)
		pause := r.pauseAfter(wait)
		r.complaint.Say(r.Log, r.Now(), r.Opened, err, pause)
		s.Interrupted(ctx, err)
		select {
		case <-ctx.Done():
			return s.Left()
		case <-time.After(pause):
		}
		s.Resume(ctx)
		wait = min(2*wait, MaxBackoff)
	}
}

// Progressed tells that the term has got somewhere: when it ends, that is news.
func (r *Run) Progressed() {
	if r.Opened {
		r.complaint = Complaint{}
	}
}

// pauseAfter spreads the relays' attempts. After a client was destroyed with events outstanding it outlasts them: one of them, landing behind what the next
// client sends, would turn its key.
func (r *Run) pauseAfter(wait time.Duration) time.Duration {
	return r.withinStart(max(wait/2+r.Jitter(wait/2), r.QuietUntil.Sub(r.Now())))
}

// withinStart bounds a time by what is left of the start's.
func (r *Run) withinStart(d time.Duration) time.Duration {
	if r.Opened || r.StartTimeout <= 0 {
		return d
	}
	return max(0, min(d, r.started.Add(r.StartTimeout).Sub(r.Now())))
}

// noteReason remembers why the relay does not start. An attempt that was cut off by the start timeout says nothing of what is wrong.
func (r *Run) noteReason(err error) {
	if r.reason == nil || !errors.Is(err, context.DeadlineExceeded) {
		r.reason = err
	}
}

// finished decides whether the end of a term is the end of the run.
func (r *Run) finished(ctx context.Context, s Steps, err error) (bool, error) {
	var stop *StopError
	switch {
	case errors.As(err, &stop):
		return true, stop.Err
	case ctx.Err() != nil:
		return true, s.Left()
	case err == nil:
		return true, nil
	case !r.Opened && errors.Is(err, r.Unmendable):
		return true, err
	case !r.Opened && r.StartTimeout > 0 && r.Now().Sub(r.started) >= r.StartTimeout:
		r.noteReason(err)
		return true, fmt.Errorf("not started within %s: %w", r.StartTimeout, r.reason)
	}
	return false, nil
}

// Attempt is the time for one try at something that may hang; until the first term has begun, it ends with StartTimeout.
func (r *Run) Attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.withinStart(attemptTimeout))
}
