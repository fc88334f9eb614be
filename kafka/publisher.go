package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

// Publisher implements [relay.Publisher]. It owns one client at a time and makes another when one is destroyed or given up.
//
// done must not call Publish, Open or Destroy: they may wait for it to return.
type Publisher struct {
	cfg Config

	// opening lets one Open run at a time. Destroy does not wait for it.
	opening sync.Mutex

	mu      sync.Mutex
	current *session

	// silent is from when on nothing may be sent; nil: no limit.
	silent atomic.Pointer[time.Time]

	// telling is held while done is called, by the session of the time or without one.
	telling sync.Mutex
}

// NewPublisher checks the configuration and returns a Publisher that is not open yet. The error names every problem.
func NewPublisher(c Config) (*Publisher, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Publisher{cfg: c}, nil
}

// Open implements [relay.Publisher]. Its errors are *relay.PublishError of ClassOutage and name the brokers, the reason and, for a
// known one, what to do.
func (p *Publisher) Open(ctx context.Context) error {
	p.opening.Lock()
	defer p.opening.Unlock()
	if s := p.session(); s != nil {
		if s.alive() && s.idle() && s.prove(ctx) == nil {
			return nil
		}
		p.Destroy()
	}
	s, err := newSession(p.cfg, &p.telling, p.late)
	if err != nil {
		return p.cfg.outageError("make a client for", p.cfg.brokerList(), err)
	}
	p.mu.Lock()
	p.current = s
	p.mu.Unlock()
	if err := s.prove(ctx); err != nil {
		p.discard(s)
		return err
	}
	return nil
}

func (p *Publisher) session() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// Publish implements [relay.Publisher]. Without an open client everything is done with ClassUnknown.
func (p *Publisher) Publish(events []*relay.Event, done func(*relay.Event, error)) {
	if len(events) == 0 {
		return
	}
	if s := p.session(); s == nil || !s.publish(newCall(events, done)) {
		go p.refuse(events, done)
	}
}

// refuse runs on its own goroutine, so that a caller that holds a lock which done needs does not wait for itself.
func (p *Publisher) refuse(events []*relay.Event, done func(*relay.Event, error)) {
	p.telling.Lock()
	defer p.telling.Unlock()
	for _, e := range events {
		done(e, &relay.PublishError{
			Class: relay.ClassUnknown, Code: codeNotOpen, Topic: e.Topic, Err: errors.New("there is no client: open the publisher"),
		})
	}
}

// CheckTopics implements [relay.Publisher]. Missing topics are made first if the configuration says so. What it finds, a raised limit for
// instance, holds for the events that are published from now on.
func (p *Publisher) CheckTopics(ctx context.Context, topics []string) (map[string]error, error) {
	found, err := p.Topics(ctx, topics)
	if err != nil {
		return nil, err
	}
	if s := p.session(); s != nil {
		s.take(found)
	}
	out := make(map[string]error, len(topics))
	for _, name := range topics {
		out[name] = found[name].Err
	}
	return out, nil
}

// Topics returns what Kafka says of the named topics. The error, a *relay.PublishError of ClassOutage, is for an outage; what is wrong
// with a single topic is in its Err.
func (p *Publisher) Topics(ctx context.Context, names []string) (map[string]Topic, error) {
	s := p.session()
	if s == nil || !s.alive() {
		return nil, &relay.PublishError{
			Class: relay.ClassOutage, Code: codeNotOpen, Err: fmt.Errorf("look at topics: there is no client for %s: open the publisher", p.cfg.brokerList()),
		}
	}
	found, err := s.lookAt(ctx, names)
	if err != nil {
		return nil, p.cfg.outageError("look at topics of", p.cfg.brokerList(), err)
	}
	return found, nil
}

// MaxDelay implements [relay.Publisher]: a third of the lease's TTL.
func (p *Publisher) MaxDelay() time.Duration { return p.cfg.produceTimeout() + p.cfg.requestOverhead() }

// SilentFrom implements [relay.Publisher]: it is looked at before each write to a broker, by this process's monotonic clock, and by the wall clock too: the
// monotonic one stands still while the machine is suspended.
func (p *Publisher) SilentFrom(t time.Time) {
	if t.IsZero() {
		p.silent.Store(nil)
		return
	}
	p.silent.Store(&t)
}

func (p *Publisher) late() bool {
	t := p.silent.Load()
	if t == nil {
		return false
	}
	now := p.cfg.now()
	return !now.Before(*t) || !now.Round(0).Before(t.Round(0))
}

// Destroy implements [relay.Publisher].
func (p *Publisher) Destroy() {
	if s := p.session(); s != nil {
		p.discard(s)
	}
}

// discard ends a session and returns when it is over. The session stays current until then, so that two callers both wait.
func (p *Publisher) discard(s *session) {
	s.kill(errDestroyed)
	<-s.over
	p.mu.Lock()
	if p.current == s {
		p.current = nil
	}
	p.mu.Unlock()
}
