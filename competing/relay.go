package competing

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/engine"
	"github.com/outbox-relay/outbox/relay"
)

// Relay takes a source's unpublished events to Kafka, beside others that lock rows. Make one with [New].
type Relay struct {
	source    Source
	publisher relay.Publisher
	cfg       Config
	owner     relay.Owner
	held      *held
	counters  counters
	life      engine.Run
	// warned are the source's warnings that were passed on.
	warned map[string]bool
	// unknown is how many events the last term left behind with a destroyed client.
	unknown int
	// shown tells that the relay is registered to be seen alone: it waits for Kafka.
	shown bool
	// topic is the one of the last acknowledged event, asked when Kafka was asked for it last.
	topic string
	asked time.Time
}

// New makes a relay that publishes the events of source through publisher. The error names every setting that is wrong.
func New(source Source, publisher relay.Publisher, cfg Config) (*Relay, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(publisher.MaxDelay()); err != nil {
		return nil, fmt.Errorf("relay configuration: %w", err)
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("draw owner id: %w", err)
	}
	r := &Relay{
		source:    source,
		publisher: publisher,
		cfg:       cfg,
		owner:     relay.Owner{ID: id, Name: cfg.Name, Version: cfg.Version},
		held:      newHeld(cfg),
		life:      engine.Run{Log: cfg.Logger, Now: cfg.now, Jitter: cfg.jitter, StartTimeout: cfg.StartTimeout, Unmendable: relay.ErrConfiguration},
		warned:    map[string]bool{},
	}
	r.counters.publish, r.counters.passed = engine.NewDurations(), engine.NewSizes()
	return r, nil
}

// Run works until ctx ends, or, with Config.Once, until a pass finds nothing to take. It then settles what Kafka has acknowledged and withdraws.
// It returns nil after that, a *relay.DrainError when events were left with Kafka whose outcome nobody knows, and any other error only for what an
// operator must mend: what cannot be opened at first, lanes that are leased, a topic that must exist. Run may be called once.
func (r *Relay) Run(ctx context.Context) (err error) {
	defer func() { engine.Stopped(ctx, r.cfg.Logger, err, r.Stats().Published) }()
	defer r.source.Close()
	defer r.publisher.Destroy()
	defer r.hide(ctx)
	return r.life.Do(ctx, engine.Steps{
		Term: r.term,
		Left: r.left,
		Interrupted: func(_ context.Context, err error) {
			r.counters.lastError.Store(&err)
			r.counters.connected.Store(false)
		},
		Resume: func(context.Context) {},
	})
}

// left reports what a stop has to leave behind; nil when that is nothing.
func (r *Relay) left() error {
	if r.unknown > 0 {
		return &relay.DrainError{Outstanding: r.unknown}
	}
	return nil
}

// term opens both sides, registers and works until something ends it.
func (r *Relay) term(ctx context.Context) error {
	r.counters.turned(r.cfg.now())
	info, err := r.open(ctx)
	if err != nil {
		return err
	}
	if err := r.checkTopics(ctx); err != nil {
		return err
	}
	g := &registration{
		source: r.source, owner: r.owner, ttl: r.cfg.LeaseTTL, silence: engine.Silence(r.cfg.LeaseTTL, r.publisher.MaxDelay()),
		now: r.cfg.now, publisher: r.publisher, silent: r.silent, reported: true,
	}
	if err := r.try(ctx, g.register); err != nil {
		return err
	}
	r.shown = false
	r.cfg.Logger.Warn("competing: events of one key can overtake each other; for order, stop all competing relays and use mode leased",
		"table", info.Name, "batch_size", r.cfg.BatchSize)
	r.life.Opened, r.unknown = true, 0
	r.life.Progressed()
	return r.work(ctx, g)
}

func (r *Relay) open(ctx context.Context) (info relay.SourceInfo, err error) {
	err = r.try(ctx, func(ctx context.Context) error {
		info, err = r.source.Open(ctx)
		return err
	})
	if err != nil {
		return info, fmt.Errorf("open source: %w", err)
	}
	r.counters.connected.Store(true)
	engine.Warn(r.cfg.Logger, info.Name, info.Warnings, r.warned)
	asked := r.cfg.now()
	if err := r.try(ctx, r.publisher.Open); err != nil {
		r.counters.failed(relay.ClassOf(err))
		r.counters.noteUnanswered(asked)
		r.showCutOff(ctx)
		return info, fmt.Errorf("open publisher: %w", err)
	}
	r.counters.noteAnswer()
	return info, nil
}

// try does something that may hang; until the first term has begun, it ends with Config.StartTimeout.
func (r *Relay) try(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := r.life.Attempt(ctx)
	defer cancel()
	return do(ctx)
}

// checkTopics looks for the topics that must exist, while a person stands by.
func (r *Relay) checkTopics(ctx context.Context) error {
	if r.life.Opened || len(r.cfg.Topics) == 0 {
		return nil
	}
	var missing error
	err := r.try(ctx, func(ctx context.Context) (err error) {
		missing, err = engine.MissingTopics(ctx, r.cfg.Topics, r.publisher.CheckTopics)
		return err
	})
	if err != nil {
		return fmt.Errorf("check topics: %w", err)
	}
	if missing != nil {
		return &engine.StopError{Err: fmt.Errorf("%w: topics that must exist: %w", relay.ErrConfiguration, missing)}
	}
	return nil
}
