package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/engine"
)

// Relay takes a source's unpublished events to Kafka. Make one with [New].
type Relay struct {
	source    Source
	publisher Publisher
	// letterer is the publisher; nil when it sends no letters.
	letterer Letterer
	// aggregates is the source; nil when it knows of none.
	aggregates Aggregates
	cfg        Config
	owner      Owner
	silence    time.Duration
	settler    *settler
	life       engine.Run
	counters   counters
	// info is what the source said when the current term began; written and read by the goroutine of Run.
	info SourceInfo
	// warned are the source's warnings that were passed on.
	warned map[string]bool
	// lease is what the relay has; written by the goroutine that talks about leases, read when that has ended.
	lease Claim
	// registered tells that the database may count this relay among those that share the lanes, claimed that it has said so.
	registered, claimed bool
	// unknown is how many events the last term left behind with a destroyed client. Written by the goroutine of the outcomes, read when that has
	// ended.
	unknown int
	// resigned tells that the lanes are to be handed back when none of them can reach Kafka any more.
	resigned bool
	// vain is how many terms in a row were resigned in which nothing was acknowledged, holdBack until when no lanes are claimed therefore.
	vain     int
	holdBack time.Time
	// standing is what the relay has shown since it registered; written by the goroutine that talks about leases.
	standing Standing
	// proved is when Kafka last acknowledged something or the brokers answered; nil if never.
	proved atomic.Pointer[time.Time]
	// unanswered is since when questions to the brokers fail; nil when the last was answered.
	unanswered atomic.Pointer[time.Time]
	// topic is the one of the last acknowledged event; before the first, that of a parked key or of a failed event, nil without one.
	topic atomic.Pointer[string]
}

// New makes a relay that publishes the events of source through publisher. The error names every setting that is wrong.
func New(source Source, publisher Publisher, cfg Config) (*Relay, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(publisher.MaxDelay()); err != nil {
		return nil, fmt.Errorf("relay configuration: %w", err)
	}
	letterer, _ := publisher.(Letterer)
	if letterer == nil && slices.ContainsFunc(cfg.Policies, func(p Policy) bool { return p.DeadLetterTopic != "" }) {
		return nil, errors.New("relay configuration: a policy has a dead-letter topic, and the publisher is no Letterer")
	}
	aggregates, _ := source.(Aggregates)
	if cfg.parksAggregates() {
		if aggregates == nil {
			return nil, errors.New("relay configuration: a policy has the park-scope aggregate, and the source cannot read aggregates")
		}
		aggregates.ReadAggregates()
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("draw owner id: %w", err)
	}
	r := &Relay{
		source:     source,
		publisher:  publisher,
		letterer:   letterer,
		aggregates: aggregates,
		cfg:        cfg,
		owner:      Owner{ID: id, Name: cfg.Name, Version: cfg.Version},
		silence:    engine.Silence(cfg.LeaseTTL, publisher.MaxDelay()),
		settler:    newSettler(source, cfg.step),
		life:       engine.Run{Log: cfg.Logger, Now: cfg.now, Jitter: cfg.jitter, StartTimeout: cfg.StartTimeout, Unmendable: ErrConfiguration},
		warned:     map[string]bool{},
	}
	r.counters.init()
	r.settler.took, r.settler.now = r.counters.settle, cfg.now
	return r, nil
}

// DrainError says what a stop left behind: nothing is lost by it, but these events will be published again.
type DrainError struct {
	// Outstanding events were with Kafka and not acknowledged, Unsettled ones acknowledged and not written down.
	Outstanding, Unsettled int
}

func (e *DrainError) Error() string {
	return fmt.Sprintf("stopped with %d events not acknowledged and %d not settled; they will be published again", e.Outstanding, e.Unsettled)
}

// Run works until ctx ends, or, with Config.Once, until everything that could be published is. It then drains: what Kafka has is settled,
// the rest stays unpublished, and the lease is handed back. It returns nil after a clean drain, a *DrainError when something was left, and
// any other error only for what an operator must mend: what cannot be opened at first, a topic that must exist. Run may be called once.
func (r *Relay) Run(ctx context.Context) (err error) {
	defer func() { engine.Stopped(ctx, r.cfg.Logger, err, r.Stats().Published) }()
	defer r.source.Close()
	defer r.publisher.Destroy()
	defer r.leave(ctx)
	return r.life.Do(ctx, engine.Steps{
		Term: r.term,
		Left: r.left,
		Interrupted: func(ctx context.Context, err error) {
			r.counters.lastError.Store(&err)
			r.counters.connected.Store(false)
			r.showCutOff(ctx)
		},
		Resume: r.handOver,
	})
}

// left reports what a stop has to leave behind; nil when that is nothing.
func (r *Relay) left() error {
	if n := r.settler.waiting() + r.settler.stuckEvents(); r.unknown > 0 || n > 0 {
		return &DrainError{Outstanding: r.unknown, Unsettled: n}
	}
	return nil
}

// term opens both sides, takes the lease and works until something ends it.
func (r *Relay) term(ctx context.Context) error {
	r.counters.lastTurn.Store(r.cfg.now().UnixNano())
	info, err := r.openSource(ctx)
	if err != nil {
		return fmt.Errorf("open source: %w", err)
	}
	r.info = info
	r.counters.connected.Store(true)
	r.counters.sourceLanes.Store(int64(info.Lanes))
	engine.Warn(r.cfg.Logger, info.Name, info.Warnings, r.warned)
	if err := r.provePublisher(ctx); err != nil {
		return err
	}
	claim, sent, err := r.claim(ctx)
	if err != nil {
		return err
	}
	r.life.Progressed()
	r.cfg.Logger.Info("lanes taken", "table", info.Name, "which", ranges(claim.Lanes), "gained", len(claim.Lanes), "lanes", len(claim.Lanes), "of", info.Lanes)
	return r.lead(ctx, claim, sent)
}

func (r *Relay) openSource(ctx context.Context) (SourceInfo, error) {
	attempt, cancel := r.life.Attempt(ctx)
	defer cancel()
	return r.source.Open(attempt)
}

// provePublisher opens the publisher before lanes are claimed: a relay that cannot publish must not take lanes from one that can.
func (r *Relay) provePublisher(ctx context.Context) error {
	attempt, cancel := r.life.Attempt(ctx)
	defer cancel()
	asked := r.cfg.now()
	if err := r.publisher.Open(attempt); err != nil {
		r.countError(ClassOf(err))
		r.noteUnanswered(asked)
		return fmt.Errorf("open publisher: %w", err)
	}
	r.noteProof()
	return nil
}

// claim waits for lanes; a relay that waits shows that it is there and could publish. sent is when the request that got them was sent.
func (r *Relay) claim(ctx context.Context) (claim Claim, sent time.Time, err error) {
	defer r.counters.waiting.Store(nil)
	if err := r.standBack(ctx); err != nil {
		return claim, sent, err
	}
	for {
		r.counters.lastTurn.Store(r.cfg.now().UnixNano())
		sent = r.cfg.now()
		claim, err = r.tryClaim(ctx)
		if err != nil {
			return claim, sent, fmt.Errorf("claim lease: %w", err)
		}
		if len(claim.Lanes) > 0 {
			return claim, sent, nil
		}
		if err := r.await(ctx, sent.Add(r.reportEvery())); err != nil {
			return claim, sent, err
		}
	}
}

// await returns when there are lanes for this relay, or when it is time to prove the publisher and say again that it is alive: who waits for so long is
// as good as tried.
func (r *Relay) await(ctx context.Context, until time.Time) error {
	for first := true; r.cfg.now().Before(until); first = false {
		r.counters.lastTurn.Store(r.cfg.now().UnixNano())
		if !first && r.standing < StandingTried {
			if err := r.tryReport(ctx, StandingAlive); err != nil {
				return fmt.Errorf("claim lease: %w", err)
			}
		}
		v, err := r.tryLook(ctx)
		if err != nil {
			return fmt.Errorf("claim lease: %w", err)
		}
		if v.Free > 0 && !first {
			return nil
		}
		r.noteWaiting(ctx, v)
		select {
		case <-ctx.Done():
			return &engine.StopError{Err: r.left()}
		case <-time.After(r.cfg.LookInterval):
		}
	}
	if err := r.provePublisher(ctx); err != nil {
		r.leave(ctx)
		return err
	}
	if err := r.tryReport(ctx, StandingTried); err != nil {
		return fmt.Errorf("claim lease: %w", err)
	}
	return nil
}

func (r *Relay) noteWaiting(ctx context.Context, v View) {
	holder := v.Holder.Name
	if w := r.counters.waiting.Load(); w != nil && *w == holder {
		return
	}
	r.life.Opened = true
	r.life.Progressed()
	r.counters.waiting.Store(&holder)
	r.cfg.Logger.Log(ctx, r.waitingLevel(), "waiting for lanes", "held_by", holder, "ends_in", v.Expires.Round(100*time.Millisecond).String(), "relays", v.Relays,
		"note", "a relay that works or stops hands over at once; after a crash its leases run out")
}

// waitingLevel is higher with Once: somebody stands by who expects an end, and the other relay may never stop.
func (r *Relay) waitingLevel() slog.Level {
	if r.cfg.Once {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func (r *Relay) tryClaim(ctx context.Context) (Claim, error) {
	attempt, cancel := r.life.Attempt(ctx)
	defer cancel()
	r.registered, r.lease = true, Claim{Owner: r.owner}
	claim, err := r.source.Claim(attempt, r.owner, r.cfg.LeaseTTL, Claim{Owner: r.owner})
	r.claimed = r.claimed || err == nil
	r.counters.taken.Add(int64(len(claim.Lanes)))
	return claim, err
}

func (r *Relay) tryLook(ctx context.Context) (View, error) {
	attempt, cancel := r.life.Attempt(ctx)
	defer cancel()
	return r.source.Look(attempt, r.owner)
}

// leave hands back what the relay has and ends its registration, if that is still to be done. After a claim whose answer never came it tries to, and
// says nothing when it cannot: most likely there is nothing to hand back.
func (r *Relay) leave(ctx context.Context) {
	if !r.registered {
		return
	}
	r.registered, r.standing = false, StandingNew
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	err := r.source.Leave(ctx, r.lease)
	if err == nil {
		r.counters.returned.Add(int64(len(r.lease.Lanes)))
	} else if r.claimed {
		r.cfg.Logger.Warn("lease not handed back: the other relays wait until it has run out", "error", err)
	}
}

// noteLanes remembers what leave has to give back.
func (r *Relay) noteLanes(c Claim) {
	r.lease = c
	r.counters.lanes.Store(int64(len(c.Lanes)))
}
