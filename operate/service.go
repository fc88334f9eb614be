package operate

import (
	"context"
	"errors"
	"time"
)

// Config bounds what a service does. The zero value works.
type Config struct {
	// LookTimeout ends a look at the database on the server: a look that takes longer is refused with [CodeTooSlow]. Default: 5 s.
	LookTimeout time.Duration
}

// DefaultLookTimeout is how long a look may take.
const DefaultLookTimeout = 5 * time.Second

func (c Config) withDefaults() Config {
	if c.LookTimeout == 0 {
		c.LookTimeout = DefaultLookTimeout
	}
	return c
}

func (c Config) validate() error {
	if c.LookTimeout < 0 {
		return errors.New("the time of a look is negative")
	}
	return nil
}

// Service is what an operator can see and do of one source. It may be used by many at the same time; it keeps nothing between calls.
type Service struct {
	store   Store
	cluster Cluster
	cfg     Config
	now     func() time.Time
}

// New returns the service over a store. cluster may be nil: then what needs Kafka is left out of what is seen, and refused with
// [CodeUnavailable] where it has to be done.
func New(store Store, cluster Cluster, cfg Config) (*Service, error) {
	cfg = cfg.withDefaults()
	err := cfg.validate()
	if store == nil {
		err = errors.Join(errors.New("the store is nil"), err)
	}
	if err != nil {
		return nil, &Error{Code: CodeInvalid, Text: "configure the service", Err: err}
	}
	return &Service{store: store, cluster: cluster, cfg: cfg, now: time.Now}, nil
}

// look checks that the actor may look, and gives the context of one look.
func (s *Service) look(ctx context.Context, a Actor) (context.Context, context.CancelFunc, error) {
	if err := a.may(VerbLook); err != nil {
		return nil, nil, err
	}
	// The server ends the statement first and says so; the context is for a server that says nothing any more.
	ctx, cancel := context.WithTimeout(ctx, 2*s.cfg.LookTimeout)
	return ctx, cancel, nil
}

// see runs one look.
func see[T any](ctx context.Context, s *Service, a Actor, fn func(context.Context, time.Duration) (T, error)) (T, error) {
	var none T
	ctx, cancel, err := s.look(ctx, a)
	if err != nil {
		return none, err
	}
	defer cancel()
	found, err := fn(ctx, s.cfg.LookTimeout)
	if err != nil {
		return none, err
	}
	return found, nil
}

// Events lists events.
func (s *Service) Events(ctx context.Context, a Actor, q EventQuery) (EventPage, error) {
	q, err := q.normalized()
	if err != nil {
		return EventPage{}, err
	}
	return see(ctx, s, a, func(ctx context.Context, limit time.Duration) (EventPage, error) {
		return s.store.Events(ctx, limit, q)
	})
}

// Event shows one event, wherever it is, and why it does not move. Payload and headers are shown to an operator; a viewer gets
// the rest, with [EventDetail.Withheld] set.
func (s *Service) Event(ctx context.Context, a Actor, ref Ref) (EventDetail, error) {
	if err := ref.validate(); err != nil {
		return EventDetail{}, err
	}
	found, err := see(ctx, s, a, func(ctx context.Context, limit time.Duration) (EventDetail, error) {
		return s.store.Event(ctx, limit, ref)
	})
	if err != nil {
		return EventDetail{}, err
	}
	found.render(s.cluster)
	if err := a.may(VerbReveal); err != nil {
		found.withhold()
	}
	return found, nil
}

// Keys lists the parked keys, and beside the first page the paused ones and those that wait for their next attempt.
func (s *Service) Keys(ctx context.Context, a Actor, q KeyQuery) (KeyPage, error) {
	q, err := q.normalized()
	if err != nil {
		return KeyPage{}, err
	}
	return see(ctx, s, a, func(ctx context.Context, limit time.Duration) (KeyPage, error) { return s.store.Keys(ctx, limit, q) })
}

// Topics lists the topics that have something to say: unpublished events, parked keys, a hold or a pause.
func (s *Service) Topics(ctx context.Context, a Actor) (TopicList, error) {
	return see(ctx, s, a, s.store.Topics)
}

// Lanes lists the lanes with their owners.
func (s *Service) Lanes(ctx context.Context, a Actor) ([]Lane, error) {
	return see(ctx, s, a, s.store.Lanes)
}

// Relays lists the relays that were seen.
func (s *Service) Relays(ctx context.Context, a Actor) ([]Relay, error) {
	return see(ctx, s, a, s.store.Relays)
}

// Audit lists what was changed by whom, the newest first.
func (s *Service) Audit(ctx context.Context, a Actor, q AuditQuery) (AuditPage, error) {
	q, err := q.normalized()
	if err != nil {
		return AuditPage{}, err
	}
	return see(ctx, s, a, func(ctx context.Context, limit time.Duration) (AuditPage, error) { return s.store.Audit(ctx, limit, q) })
}

// Jobs lists the changes of many things, the newest first.
func (s *Service) Jobs(ctx context.Context, a Actor, q JobQuery) (JobPage, error) {
	q, err := q.normalized()
	if err != nil {
		return JobPage{}, err
	}
	return see(ctx, s, a, func(ctx context.Context, limit time.Duration) (JobPage, error) { return s.store.Jobs(ctx, limit, q) })
}

// Pauses lists what is paused, the oldest first.
func (s *Service) Pauses(ctx context.Context, a Actor) ([]Pause, error) {
	return see(ctx, s, a, s.store.Pauses)
}
