package competing

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// unheard is for how long Kafka has answered nothing, neither events that are outstanding nor questions; 0 when it answers.
func (c *counters) unheard(now time.Time) time.Duration {
	silent := c.waiting(now)
	if since := c.unanswered.Load(); since != 0 {
		silent = max(silent, now.Sub(unixNano(since)))
	}
	return silent
}

// waiting is for how long events have been outstanding without an acknowledgement.
func (c *counters) waiting(now time.Time) time.Duration {
	if c.outstanding.Load() == 0 {
		return 0
	}
	return now.Sub(unixNano(max(c.since.Load(), c.lastAck.Load())))
}

// noteUnanswered remembers that Kafka did not answer what was asked, or sent, at the time.
func (c *counters) noteUnanswered(since time.Time) { c.unanswered.CompareAndSwap(0, since.UnixNano()) }

// noteAnswer remembers that Kafka answers.
func (c *counters) noteAnswer() { c.unanswered.Store(0) }

// silent is what is reported: an acknowledgement may take a while.
func (r *Relay) silent() time.Duration {
	if silent := r.counters.unheard(r.cfg.now()); silent >= engine.WorthReporting {
		return silent
	}
	return 0
}

// showCutOff registers a relay whose brokers do not answer: else nobody would see that it is there, and why it does nothing. It may be refused, and what it shows
// is worth no failure.
func (r *Relay) showCutOff(ctx context.Context) {
	err := r.try(ctx, func(ctx context.Context) error {
		if err := r.source.Register(ctx, r.owner, r.cfg.LeaseTTL); err != nil {
			return err
		}
		r.shown = true
		return r.source.Report(ctx, r.owner, r.counters.unheard(r.cfg.now()))
	})
	if err != nil {
		r.cfg.Logger.Debug("show that the relay waits for Kafka", "error", err)
	}
}

// hide ends a registration that was only for show: nothing of it is on the way to Kafka.
func (r *Relay) hide(ctx context.Context) {
	if r.shown {
		r.shown = false
		r.withdraw(ctx)
	}
}

// ask asks Kafka for a topic that this relay has published to, while nothing is outstanding whose acknowledgement would show that it answers.
func (t *term) ask() {
	now := t.cfg.now()
	every := engine.ReportEvery(t.cfg.LeaseTTL)
	if t.topic == "" || now.Sub(t.asked) < every || now.Sub(unixNano(t.counters.lastAck.Load())) < every {
		return
	}
	t.asked = now
	ctx, cancel := context.WithTimeout(t.stop, t.cfg.LeaseTTL/3)
	defer cancel()
	switch _, err := t.publisher.CheckTopics(ctx, []string{t.topic}); {
	case err == nil:
		t.counters.noteAnswer()
	case t.stop.Err() == nil:
		t.counters.noteUnanswered(now)
	}
}
