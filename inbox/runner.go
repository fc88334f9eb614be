package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"
)

// Handling is what a [Runner] has done with records; [Processor] is one.
type Handling interface {
	// Consumer is the name under which events are remembered.
	Consumer() string
	// Handle handles records in their order, and returns what became of each.
	Handle(ctx context.Context, records []*Record) []Outcome
	// Failed writes down a failure, and returns how often the record has failed. With [ErrUnavailable] in its error everything waits, with another error the record's key.
	// Settled forgets it.
	Failed(ctx context.Context, r *Record, cause error) (attempts int, err error)
	Settled(ctx context.Context, r *Record) error
}

// Log is Kafka as a [Runner] needs it.
type Log interface {
	// Pause asks for no more records of the partitions, until Resume. Neither waits.
	Pause(partitions []Partition)
	Resume(partitions []Partition)
	// Commit commits, for the consumer's group, from where to go on.
	Commit(ctx context.Context, next map[Partition]int64) error
	// Send sends the record's key and value with the headers to a topic, and returns when all replicas have it.
	Send(ctx context.Context, topic string, r *Record, headers []Header) error
}

// RunnerConfig is how a [Runner] works. The zero value is ready for use.
type RunnerConfig struct {
	// Workers is how many transactions are made at the same time. Default 8.
	Workers int
	// Batch is how many records one transaction handles at most. Default 1. With more, one that fails has all of its transaction handled again, each in its own.
	Batch int
	// MaxUncommitted is how many records of a partition are taken beyond the first that is not settled: then the partition is paused until it is half of that.
	// Default 1,000, or four times what all workers handle at once if that is more; at least 2.
	MaxUncommitted int
	// MaxUncommittedBytes bounds what is taken and not settled of all partitions together, in bytes of keys, values and headers: beyond it, partitions that have such
	// records are paused until it is half of that. What one answer of Kafka brings comes on top. Default 64 MiB.
	MaxUncommittedBytes int
	// CommitInterval is how often offsets are committed. Default 1 s.
	CommitInterval time.Duration
	// DrainTimeout is how long a stop, or the loss of a partition to another member, waits for handlers. Default 20 s.
	DrainTimeout time.Duration
	Retry        Retry
	Logger       *slog.Logger

	now    func() time.Time
	random func(n int64) int64
}

// Defaults of [RunnerConfig].
const (
	DefaultWorkers             = 8
	DefaultMaxUncommitted      = 1000
	DefaultMaxUncommittedBytes = 64 << 20
	DefaultCommitInterval      = time.Second
	DefaultDrainTimeout        = 20 * time.Second
)

func (c RunnerConfig) withDefaults() RunnerConfig {
	c.Workers = cmp.Or(c.Workers, DefaultWorkers)
	c.Batch = cmp.Or(c.Batch, 1)
	c.MaxUncommitted = cmp.Or(c.MaxUncommitted, max(DefaultMaxUncommitted, 4*c.Workers*c.Batch))
	c.MaxUncommittedBytes = cmp.Or(c.MaxUncommittedBytes, DefaultMaxUncommittedBytes)
	c.CommitInterval = cmp.Or(c.CommitInterval, DefaultCommitInterval)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, DefaultDrainTimeout)
	c.Retry = c.Retry.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.random == nil {
		c.random = randomOf
	}
	return c
}

func (c RunnerConfig) validate() error {
	errs := c.Retry.validate()
	for _, n := range []struct {
		name               string
		value, least, most int
	}{{"Workers", c.Workers, 1, 1000}, {"Batch", c.Batch, 1, 1000}, {"MaxUncommitted", c.MaxUncommitted, 2, 4_000_000}, {"MaxUncommittedBytes", c.MaxUncommittedBytes, 1, math.MaxInt}} {
		if n.value < n.least || n.value > n.most {
			errs = append(errs, fmt.Errorf("%s %d: use %d to %d", n.name, n.value, n.least, n.most))
		}
	}
	if c.CommitInterval <= 0 || c.DrainTimeout <= 0 {
		errs = append(errs, fmt.Errorf("CommitInterval %s and DrainTimeout %s: both must be positive", c.CommitInterval, c.DrainTimeout))
	}
	if len(errs) > 0 {
		return fmt.Errorf("consumer configuration: %w", errors.Join(errs...))
	}
	return nil
}

// Runner takes records through their handlers: those of one key of a partition in their order, others side by side. It commits an offset when all up to it is
// settled: handled, or sent on and acknowledged. Make one with [NewRunner]; a client of Kafka drives it.
type Runner struct {
	handling Handling
	log      Log
	cfg      RunnerConfig
	lines    *lines

	mu         sync.Mutex
	work       *sync.Cond
	partitions map[Partition]*partition
	ready      []*queue
	// leaving are partitions that are being let go: their handlers end, and what is settled is committed.
	leaving map[*partition]struct{}
	// moving is how many records are about to be handled, bytes what is held of those that are not settled, and paused how many partitions are.
	moving, bytes, paused int
	room                  *sync.Cond
	stopping              bool
	// away is until when nothing is tried, because the database is not there; pause is how long the last such wait was.
	away  time.Time
	pause time.Duration
	stats Stats

	// committing is held from when it is seen what to commit until that has ended: no partition is let go with a commit of it under way, which would come behind
	// those of its next owner and take it back. It is locked before mu.
	committing sync.Mutex
}

// Stats are counts since the start, and what is the case now.
type Stats struct {
	Handled, Repeats, Ignored int64
	// Failures are attempts in vain; Retried, DeadLettered and Skipped what became of records that no attempt was left for.
	Failures, Retried, DeadLettered, Skipped int64
	// InFlight are records that were taken, in each partition from the first that is not settled on; Waiting keys that wait for their next attempt, or for the
	// time of a retry topic.
	InFlight, Waiting int
	// Unavailable tells that the database is waited for.
	Unavailable bool
}

// NewRunner returns a Runner. The error names all that is wrong.
func NewRunner(h Handling, log Log, cfg RunnerConfig) (*Runner, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if h != nil { // the caller refuses that
		cfg.Logger = cfg.Logger.With("consumer", h.Consumer())
	}
	r := &Runner{handling: h, log: log, cfg: cfg, lines: newLines(cfg.Logger, cfg.now), partitions: map[Partition]*partition{}, leaving: map[*partition]struct{}{}}
	r.work, r.room = sync.NewCond(&r.mu), sync.NewCond(&r.mu)
	return r, nil
}

// Run handles what is taken until ctx ends. Then it takes nothing more, lets handlers end that are at work, for DrainTimeout, and commits what is settled.
func (r *Runner) Run(ctx context.Context) {
	r.compareConnections()
	var workers sync.WaitGroup
	for range r.cfg.Workers {
		workers.Go(r.worker)
	}
	workers.Go(func() { r.prune(ctx) })
	workers.Go(func() { r.forgetPassed(ctx) })
	tick := time.NewTicker(r.cfg.CommitInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			r.commit(ctx)
		}
	}
	r.stop()
	r.Revoke(context.WithoutCancel(ctx), r.assigned())
	defer r.lines.close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		workers.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(unwind):
		r.cfg.Logger.Error("handlers do not end although their context has: they are left behind")
	}
}

// unwind is how long handlers may take to end when their context has ended, and DrainTimeout is over.
const unwind = 5 * time.Second

// pruneEvery is how often old events are forgotten.
const pruneEvery = time.Hour

// prune forgets old events until ctx ends, if the handling can. The members' first times are spread.
func (r *Runner) prune(ctx context.Context) {
	p, able := r.handling.(interface {
		Prune(ctx context.Context) (int64, error)
	})
	for wait := time.Duration(r.cfg.random(int64(pruneEvery))); able; wait = pruneEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if n, err := p.Prune(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("old events not forgotten: tried again in an hour", "error", err)
		} else if n > 0 {
			r.cfg.Logger.Info("old events forgotten", "events", n)
		}
	}
}

func (r *Runner) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = true
	r.work.Broadcast()
	r.room.Broadcast()
}

func (r *Runner) assigned() (all []Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.partitions {
		all = append(all, p)
	}
	return all
}

// Stats returns what the runner has done.
func (r *Runner) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Unavailable = r.cfg.now().Before(r.away)
	for _, p := range r.partitions {
		s.InFlight += len(p.flight)
	}
	return s
}

// Assign takes partitions on.
func (r *Runner) Assign(partitions []Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		if r.partitions[p] == nil && !r.stopping {
			r.partitions[p] = newPartition(p)
		}
	}
}

// AwaitRoom waits until more records are of use, and returns how many at most; 0 when the runner stops. Behind keys that wait nothing is counted: whoever takes no
// more than that has only partitions paused in which a key is stuck.
func (r *Runner) AwaitRoom() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	half := r.cfg.MaxUncommitted / 2
	for r.moving >= half && !r.stopping {
		r.room.Wait()
	}
	if r.stopping {
		return 0
	}
	return half
}

// Take queues records, of one partition in the order of their offsets. It does not wait. Records of a partition that is not assigned are left out.
func (r *Runner) Take(records []*Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var full []Partition
	for _, record := range records {
		p := r.partitions[record.Place().Partition]
		if p == nil || r.stopping {
			continue
		}
		it := &item{Record: record, partition: p, next: record.Offset + 1, arrived: r.cfg.now()}
		p.flight = append(p.flight, it)
		r.hold(it)
		q, isNew := p.queueOf(record)
		it.queue = q
		q.items = append(q.items, it)
		r.weigh(q)
		if isNew {
			r.enqueue(q)
		}
		if r.full(p) && !p.paused {
			p.paused = true
			r.paused++
			full = append(full, p.Partition)
		}
	}
	if len(full) > 0 {
		r.log.Pause(full)
	}
}

// Pass tells that there is nothing to handle behind the records that were taken of a partition, up to this place: the end of a transaction, and what it has taken back.
func (r *Runner) Pass(at Place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.partitions[at.Partition]
	switch {
	case p == nil || r.stopping:
	case len(p.flight) > 0:
		p.flight[len(p.flight)-1].next = at.Offset + 1
	default:
		p.next, p.settled = at.Offset+1, true
	}
}
