package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// Source is one outbox table with the relay's state beside it: it implements [relay.Source] by statements.
//
// It works over connections of its own, made with the pool's configuration: two for reading, and one each for settling, for the
// lease, for failures, and for watching. None of its calls waits for the pool, holds a transaction between calls, or leaves anything
// in a session, so it works behind a pooler too.
type Source struct {
	cfg     Config
	table   pg.Table
	connect func(context.Context) (*pgx.Conn, error)

	// Calls of different sessions never wait for each other: a settle that takes long must not keep a lease from being renewed.
	read, locks, settle, lease, state, watch *session

	// scope tells whether events are read with their aggregates; set before the first Open.
	scope relay.ParkScope

	// open is what the last Open found; nil before, and after Close.
	open   atomic.Pointer[opened]
	closed atomic.Bool
	// unindexed is what the last look at the index found.
	unindexed atomic.Bool
}

// opened is what a term works with.
type opened struct {
	row      pg.Source
	reader   *reader
	settler  *settler
	leases   *leases
	failures *failures
	ghosts   *ghosts
	requests *requests
}

var (
	_ relay.Source     = (*Source)(nil)
	_ relay.Aggregates = (*Source)(nil)
)

// New returns a source for one table. It connects to nothing yet: [Source.Open] does. The pool gives its configuration only.
func New(pool *pgxpool.Pool, cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	err := cfg.validate()
	if pool == nil {
		err = errors.Join(errors.New("the pool is nil"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("configure the source: %w", err)
	}
	table, err := pg.ParseTable(cfg.Table)
	if err != nil {
		return nil, fmt.Errorf("configure the source: %w", err)
	}
	return &Source{
		cfg:     cfg,
		table:   table,
		connect: pg.Connector{Pool: pool, ApplicationName: cfg.ApplicationName}.Connect,
		read:    newSession("reader"),
		locks:   newSession("reader's look at locks"),
		settle:  newSession("settler"),
		lease:   newSession("lease").withGrace(leaveGrace),
		state:   newSession("failures"),
		watch:   newSession("watch"),
	}, nil
}

// Open implements [relay.Source]. What it finds wrong with the table or the rights comes with the statement or command that mends it, and is
// relay.ErrConfiguration, as are refused credentials.
func (s *Source) Open(ctx context.Context) (relay.SourceInfo, error) {
	if s.closed.Load() {
		return relay.SourceInfo{}, fmt.Errorf("%s: it was closed", s.table)
	}
	ctx, cancel := context.WithTimeout(ctx, pg.CallTimeout)
	defer cancel()
	o, warnings, err := s.begin(ctx)
	if err != nil {
		return relay.SourceInfo{}, fmt.Errorf("%s: %w", s.table, pg.Mark(err))
	}
	s.open.Store(o)
	if s.closed.Load() {
		// Close came while connections were made: nobody else would end those.
		s.Close()
		return relay.SourceInfo{}, fmt.Errorf("%s: it was closed", s.table)
	}
	return relay.SourceInfo{
		Name:           s.table.String(),
		ID:             o.row.ID,
		Lanes:          o.row.Lanes,
		FirstPublished: o.row.FirstPublished,
		Warnings:       warnings,
	}, nil
}

func (s *Source) begin(ctx context.Context) (*opened, []string, error) {
	if err := s.repair(ctx); err != nil {
		return nil, nil, err
	}
	var found probe
	err := s.lease.Run(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		found, err = inspect(ctx, conn, s.table, s.cfg.Settle, s.scope)
		if err == nil && s.cfg.Moves && !found.canDelete {
			found.warnings = append(found.warnings, movesInVain(s.table, pg.RoleOf(conn)))
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	s.unindexed.Store(!found.indexed)
	var own []int32
	if !found.pooled {
		own = s.pids()
		if err := s.read.Run(ctx, plan); err != nil {
			return nil, nil, err
		}
	} else if err := shareable(ctx, s.term()); err != nil {
		return nil, nil, err
	}
	return &opened{
		row:      found.row,
		reader:   newReader(s.read, s.locks, found.row, own),
		settler:  newSettler(s.settle, found.row, s.cfg.Settle),
		leases:   &leases{db: s.lease, row: found.row},
		failures: newFailures(s.state, found.row),
		ghosts:   newGhosts(watcher{s}, found.row),
		requests: newRequests(s.state, found.row),
	}, found.warnings, nil
}

// repair makes the connections that are missing, all at once: each may have to wait for a dead one first.
func (s *Source) repair(ctx context.Context) error {
	sessions := s.term()
	errs := make([]error, len(sessions))
	var wg sync.WaitGroup
	for i, session := range sessions {
		wg.Go(func() { errs[i] = session.repair(ctx, s.connect) })
	}
	wg.Wait()
	// They fail for one reason, mostly: the server is away.
	return firstError(errs...)
}

// term returns the sessions that a term works with. The watch is not one of them: a scrape that is given up must not end a term.
func (s *Source) term() []*session {
	return []*session{s.read, s.locks, s.settle, s.lease, s.state}
}

// pids returns the backends of the source itself, which hold no events back.
func (s *Source) pids() []int32 {
	var pids []int32
	for _, session := range s.term() {
		pids = append(pids, session.pid())
	}
	return pids
}

// Close implements [relay.Source]. Calls that are under way end first, each within its time limit.
func (s *Source) Close() {
	s.closed.Store(true)
	s.open.Store(nil)
	for _, session := range append(s.term(), s.watch) {
		session.close()
	}
}

// Start implements [relay.Reader].
func (s *Source) Start(ctx context.Context, held relay.Held, lanes []int32) error {
	o, err := s.now("start reading")
	if err != nil {
		return err
	}
	return o.reader.Start(ctx, held, lanes)
}

// Read implements [relay.Reader].
func (s *Source) Read(ctx context.Context, limit int) (relay.Batch, error) {
	o, err := s.now("read")
	if err != nil {
		return relay.Batch{}, err
	}
	return o.reader.Read(ctx, limit)
}

// Reread implements [relay.Reader].
func (s *Source) Reread(keys []relay.Key, topics []string, lanes []int32) {
	if o := s.open.Load(); o != nil {
		o.reader.Reread(keys, topics, lanes)
	}
}

// Forget implements [relay.Reader].
func (s *Source) Forget(lanes []int32) {
	if o := s.open.Load(); o != nil {
		o.reader.Forget(lanes)
	}
}

// Sweep implements [relay.Reader].
func (s *Source) Sweep(ctx context.Context, budget time.Duration, known func(relay.Ref) bool, held relay.Held) (int, error) {
	o, err := s.now("sweep")
	if err != nil {
		return 0, err
	}
	return o.reader.Sweep(ctx, budget, known, held)
}

// Settle implements [relay.Settler].
func (s *Source) Settle(ctx context.Context, refs []relay.Ref) (int, error) {
	o, err := s.now("settle")
	if err != nil {
		return 0, err
	}
	return o.settler.Settle(ctx, refs)
}

// Claim implements [relay.Leases].
func (s *Source) Claim(ctx context.Context, owner relay.Owner, ttl time.Duration, held relay.Claim) (relay.Claim, error) {
	o, err := s.now("claim")
	if err != nil {
		return relay.Claim{}, err
	}
	return o.leases.Claim(ctx, owner, ttl, held)
}

// Report implements [relay.Leases].
func (s *Source) Report(ctx context.Context, owner relay.Owner, r relay.Report) error {
	o, err := s.now("report to the relays of")
	if err != nil {
		return err
	}
	return o.leases.Report(ctx, owner, r)
}

// StandBy implements [relay.Leases].
func (s *Source) StandBy(ctx context.Context, owner relay.Owner, ttl time.Duration, r relay.Report) error {
	o, err := s.now("stand by at")
	if err != nil {
		return err
	}
	return o.leases.StandBy(ctx, owner, ttl, r)
}

// Look implements [relay.Leases].
func (s *Source) Look(ctx context.Context, owner relay.Owner) (relay.View, error) {
	o, err := s.now("look at the lanes of")
	if err != nil {
		return relay.View{}, err
	}
	return o.leases.Look(ctx, owner)
}

// Renew implements [relay.Leases].
func (s *Source) Renew(ctx context.Context, claim relay.Claim, ttl time.Duration) error {
	o, err := s.now("renew")
	if err != nil {
		return err
	}
	return o.leases.Renew(ctx, claim, ttl)
}

// Release implements [relay.Leases].
func (s *Source) Release(ctx context.Context, claim relay.Claim) error {
	o, err := s.now("release")
	if err != nil {
		return err
	}
	return o.leases.Release(ctx, claim)
}

// Leave implements [relay.Leases].
func (s *Source) Leave(ctx context.Context, claim relay.Claim) error {
	o, err := s.now("leave")
	if err != nil {
		return err
	}
	err = o.leases.Leave(ctx, claim)
	if len(claim.Lanes) == 0 && errors.Is(err, errNotOpen) && s.lease.repair(ctx, s.connect) == nil {
		// A start that was given up ends the connection with the statement that was under way, and the relay would count as alive. Lanes, which a term hands back,
		// run out by themselves: when the server is away the next term must not wait for it here.
		err = o.leases.Leave(ctx, claim)
	}
	return err
}

// ParkedKeys implements [relay.Failures].
func (s *Source) ParkedKeys(ctx context.Context, lanes []int32) ([]relay.ParkedKey, error) {
	o, err := s.now("read parked keys")
	if err != nil {
		return nil, err
	}
	return o.failures.ParkedKeys(ctx, lanes)
}

// Park implements [relay.Failures].
func (s *Source) Park(ctx context.Context, claim relay.Claim, keys []relay.ParkedKey) (gone []relay.Key, err error) {
	o, err := s.now("park keys of")
	if err != nil {
		return nil, err
	}
	return o.failures.Park(ctx, claim, keys)
}

// ReadAggregates implements [relay.Aggregates].
func (s *Source) ReadAggregates() { s.scope = relay.ScopeAggregate }

// StoppedAggregates implements [relay.Aggregates]. It works over the connection of the lease, by which a relay learns of the others' lanes too.
func (s *Source) StoppedAggregates(ctx context.Context, known string) (relay.StoppedAggregates, error) {
	o, err := s.now("read stopped aggregates of")
	if err != nil {
		return relay.StoppedAggregates{}, err
	}
	return stoppedAggregates(ctx, s.lease, o.row, known)
}

// FreeFollowers implements [relay.Aggregates].
func (s *Source) FreeFollowers(ctx context.Context, claim relay.Claim, keys []relay.Key) (freed []relay.Key, err error) {
	o, err := s.now("free keys of")
	if err != nil {
		return nil, err
	}
	return o.failures.FreeFollowers(ctx, claim, keys)
}

// Failing implements [relay.Attempts].
func (s *Source) Failing(ctx context.Context, lanes []int32) ([]relay.Failing, error) {
	o, err := s.now("read what has failed of")
	if err != nil {
		return nil, err
	}
	return o.failures.Failing(ctx, lanes)
}

// Retry implements [relay.Attempts].
func (s *Source) Retry(ctx context.Context, claim relay.Claim, failed []relay.RetriedEvent) ([]relay.Key, error) {
	o, err := s.now("write down failed events of")
	if err != nil {
		return nil, err
	}
	return o.failures.Retry(ctx, claim, failed)
}

// Due implements [relay.Attempts].
func (s *Source) Due(ctx context.Context, claim relay.Claim) ([]relay.Failing, error) {
	o, err := s.now("look for events to be tried again of")
	if err != nil {
		return nil, err
	}
	return o.failures.Due(ctx, claim)
}

// Bury implements [relay.Attempts].
func (s *Source) Bury(ctx context.Context, claim relay.Claim, dead []relay.DeadEvent) (became []relay.Burial, err error) {
	o, err := s.now("bury events of")
	if err != nil {
		return nil, err
	}
	return o.failures.Bury(ctx, claim, dead)
}

// Begin implements [relay.Attempts].
func (s *Source) Begin(ctx context.Context, claim relay.Claim, events []*relay.Event) error {
	o, err := s.now("begin to publish events of")
	if err != nil {
		return err
	}
	return o.failures.Begin(ctx, claim, events)
}

// Clear implements [relay.Attempts].
func (s *Source) Clear(ctx context.Context, published, survived []relay.Ref) error {
	o, err := s.now("forget attempts with events of")
	if err != nil {
		return err
	}
	return o.failures.Clear(ctx, published, survived)
}

// HoldTopics implements [relay.Failures].
func (s *Source) HoldTopics(ctx context.Context, owner relay.Owner, change relay.HeldChange) error {
	o, err := s.now("write down held topics")
	if err != nil {
		return err
	}
	return o.failures.HoldTopics(ctx, owner, change)
}

// Requests implements [relay.Failures].
func (s *Source) Requests(ctx context.Context, claim relay.Claim, ready func([]relay.Key) []relay.Key) (relay.Carried, error) {
	o, err := s.now("carry out requests")
	if err != nil {
		return relay.Carried{}, err
	}
	return o.requests.Requests(ctx, claim, ready)
}

// Pauses implements [relay.Failures].
func (s *Source) Pauses(ctx context.Context) (relay.Pauses, error) {
	o, err := s.now("read what is paused")
	if err != nil {
		return relay.Pauses{}, err
	}
	return o.failures.Pauses(ctx)
}

// now returns what the running term works with.
func (s *Source) now(verb string) (*opened, error) {
	if o := s.open.Load(); o != nil {
		return o, nil
	}
	return nil, fmt.Errorf("%s %s: %w", verb, s.table, errNotOpen)
}
