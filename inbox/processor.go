package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Result is what was done with a record.
type Result int

// Results.
const (
	// Handled: its handler's writes are committed.
	Handled Result = iota
	// Repeat: the consumer has handled the event before.
	Repeat
	// Ignored: no handler is for its type, or it is in a retry topic and another consumer has sent it there.
	Ignored
)

// Outcome is what became of a record. With an error nothing of it is committed.
type Outcome struct {
	Result Result
	Err    error
}

// Processor handles records, each event once for its consumer. Make one with [NewProcessor].
type Processor[Tx any] struct {
	consumer string
	store    Store[Tx]
	handlers *Handlers[Tx]
	cfg      Config
}

// NewProcessor returns a Processor that remembers under the consumer's name what it has handled. Two that share a name share the work: a Kafka consumer's group is
// the right name. The error names all that is wrong.
func NewProcessor[Tx any](consumer string, store Store[Tx], handlers *Handlers[Tx], cfg Config) (*Processor[Tx], error) {
	cfg = cfg.withDefaults()
	errs := cfg.validate()
	if store == nil {
		errs = append(errs, errors.New("store is nil"))
	}
	switch {
	case handlers == nil || len(handlers.byType) == 0:
		errs = append(errs, errors.New("there are no handlers: add them with inbox.On"))
	default:
		errs = append(errs, handlers.errs...)
	}
	if err := errors.Join(append(errs, checkName("consumer", consumer, MaxConsumerBytes))...); err != nil {
		return nil, fmt.Errorf("inbox configuration: %w", err)
	}
	return &Processor[Tx]{consumer, store, handlers, cfg}, nil
}

// Consumer is the name under which events are remembered.
func (p *Processor[Tx]) Consumer() string { return p.consumer }

// work is a record on its way through a transaction.
type work[Tx any] struct {
	n      int
	record *Record
	id     string // "" without one
	run    func(context.Context, Tx) error
}

// Handle handles records in their order, in one transaction if all goes well. If not, each that has a handler is handled in one of its own. Those behind a failed one
// of the same key are left. It returns what became of each. An error with [ErrUnavailable] is the fault of no record.
func (p *Processor[Tx]) Handle(ctx context.Context, records []*Record) []Outcome {
	out := make([]Outcome, len(records))
	var batch []work[Tx]
	stuck := keys{}
	for n, r := range records {
		w, outcome := p.prepare(r)
		if stuck.has(r) {
			w, outcome = work[Tx]{}, Outcome{Err: errHeld}
		}
		if outcome.Err != nil {
			stuck.add(r)
		}
		if out[n] = outcome; w.run != nil {
			w.n, w.record = n, r
			batch = append(batch, w)
		}
	}
	if len(batch) == 0 {
		return out
	}
	err := p.commit(ctx, batch, out)
	if err == nil {
		return out
	}
	if len(batch) > 1 && !errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
		p.oneByOne(ctx, batch, out)
		return out
	}
	for _, w := range batch {
		out[w.n] = Outcome{Err: err}
	}
	return out
}

func (p *Processor[Tx]) oneByOne(ctx context.Context, batch []work[Tx], out []Outcome) {
	stuck := keys{}
	for i, w := range batch {
		if stuck.has(w.record) {
			out[w.n] = Outcome{Err: errHeld}
			continue
		}
		err := p.commit(ctx, []work[Tx]{w}, out)
		if errors.Is(err, ErrUnavailable) || err != nil && ctx.Err() != nil {
			for _, rest := range batch[i:] {
				out[rest.n] = Outcome{Err: err}
			}
			return
		}
		if err != nil {
			out[w.n] = Outcome{Err: err}
			stuck.add(w.record)
		}
	}
}

// keys are those of records, as far as their order matters: records without a key have none.
type keys map[key]struct{}

type key struct {
	Partition
	key string
}

func (s keys) has(r *Record) bool {
	_, has := s[key{r.Place().Partition, string(r.Key)}]
	return has && r.Key != nil
}

func (s keys) add(r *Record) { s[key{r.Place().Partition, string(r.Key)}] = struct{}{} }

// prepare finds what is to be run for a record; nothing when its outcome is known already.
func (p *Processor[Tx]) prepare(r *Record) (w work[Tx], known Outcome) {
	kind, err := p.kind(r)
	route, has := p.handlers.byType[kind]
	switch {
	case err != nil:
	case !has && p.cfg.Unknown == IgnoreUnknown:
		return w, Outcome{Result: Ignored}
	case !has && p.cfg.Unknown == DeadLetterUnknown:
		err = forLetter(noHandler(kind))
	case !has:
		err = noHandler(kind)
	default:
		if w.id, err = p.id(r); err == nil {
			w.run, err = decoded(route, Event[[]byte]{ID: w.id, Type: kind, Payload: r.Value, Record: r})
		}
	}
	if err != nil {
		return work[Tx]{}, Outcome{Err: Permanent(err)}
	}
	return w, known
}

func noHandler(kind string) error { return fmt.Errorf("there is no handler for event type %q", kind) }

// SendsDeadLetters tells a [Runner] that a dead-letter topic is needed whatever its policy says.
func (p *Processor[Tx]) SendsDeadLetters() bool { return p.cfg.Unknown == DeadLetterUnknown }

// decoded makes the call. The payload's type may have methods of its own that decode it.
func decoded[Tx any](route route[Tx], e Event[[]byte]) (run func(context.Context, Tx) error, err error) {
	defer contain("the decoding of the value", &err)
	return route(e)
}

func (p *Processor[Tx]) kind(r *Record) (kind string, err error) {
	defer contain("Config.EventType", &err)
	return p.cfg.EventType(r), nil
}

func (p *Processor[Tx]) id(r *Record) (id string, err error) {
	defer contain("Config.EventID", &err)
	id, err = p.cfg.EventID(r)
	if errors.Is(err, ErrNoID) {
		switch p.cfg.NoID {
		case HandleNoID:
			return "", nil
		case PlaceNoID:
			return firstPlace(r).String(), nil
		}
	}
	if err != nil {
		return "", err
	}
	return id, checkName("event id", id, MaxEventIDBytes)
}

// conflictTries is how often a transaction is made that loses against others.
const conflictTries = 5

// commit handles all of the work in one transaction, or nothing of it.
func (p *Processor[Tx]) commit(ctx context.Context, batch []work[Tx], out []Outcome) (err error) {
	for range conflictTries {
		if err = p.try(ctx, batch, out); !errors.Is(err, errConflict) {
			return err
		}
	}
	return err
}

func (p *Processor[Tx]) try(ctx context.Context, batch []work[Tx], out []Outcome) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(p.cfg.Timeout, cancel)
	defer patience.Stop()
	ids, first := p.claim(batch)
	var left []work[Tx] // what is claimed and was not begun with
	claimed, late := false, false
	err := inTx(within, p.store, first, func(tx Tx, returned []string) (err error) {
		if claimed = patience.Stop(); !claimed {
			return within.Err()
		}
		left = p.unhandled(batch, ids, returned, out)
		for len(left) > 0 && err == nil {
			w := left[0]
			left = left[1:]
			late, err = p.inTime(within, cancel, tx, w)
		}
		return err
	})
	if err != nil && !claimed && len(ids) > 0 {
		err = fmt.Errorf("remember %d events for consumer %s: %w", len(ids), p.consumer, explain(err))
	}
	if errors.Is(err, errEnded) {
		p.unclaim(ctx, left)
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case late:
		// What it says of a connection that was closed to end the handler is nobody's business.
		return p.there(ctx, fmt.Errorf("not handled within %s, which is Config.Timeout: %s", p.cfg.Timeout, withoutMark(err)))
	case !claimed && within.Err() != nil:
		return p.there(ctx, fmt.Errorf("%w for %s", errBusy, p.cfg.Timeout))
	}
	return err
}

// inTime runs a handler, and says whether its time was over when it ended. The end of its time is that of the transaction, which a handler may use without it.
func (p *Processor[Tx]) inTime(ctx context.Context, end context.CancelFunc, tx Tx, w work[Tx]) (late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	ends := context.AfterFunc(ctx, end)
	err = p.run(ctx, tx, w)
	ends()
	if late = ctx.Err() != nil; late && err == nil {
		err = ctx.Err() // a handler that does not look at its context is no quicker for that
	}
	return late, err
}

// there tells what has taken too long from a database that does not answer.
func (p *Processor[Tx]) there(ctx context.Context, late error) error {
	ctx, cancel := context.WithTimeout(ctx, proof)
	defer cancel()
	if err := inTx(ctx, p.store, statement{}, func(Tx, []string) error { return nil }); err != nil {
		return err
	}
	return late
}

// proof is how long a database that is there takes at most for nothing.
const proof = 5 * time.Second

func withoutMark(err error) string {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		if parts := joined.Unwrap(); errors.Is(parts[0], ErrUnavailable) {
			return parts[len(parts)-1].Error()
		}
	}
	return err.Error()
}

// Failed writes down that the record could not be handled, and returns how often that is. The count outlives the process.
func (p *Processor[Tx]) Failed(ctx context.Context, r *Record, cause error) (attempts int, err error) {
	id, _ := p.id(r)
	kind, _ := p.kind(r)
	count := statement{failedSQL, []any{
		p.consumer, r.Topic, r.Partition, r.Offset, storable(id, MaxEventIDBytes), storable(kind, maxErrorText), storable(cause.Error(), maxErrorText),
	}}
	err = inTx(ctx, p.store, count, func(_ Tx, counts []string) error {
		_, err := fmt.Sscan(strings.Join(counts, " "), &attempts)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("write down a failed record of %s: %w", r.Place(), explain(err))
	}
	return attempts, nil
}

// Settled forgets what [Processor.Failed] has written down of the record.
func (p *Processor[Tx]) Settled(ctx context.Context, r *Record) error {
	settled := statement{settledSQL, []any{p.consumer, r.Topic, r.Partition, r.Offset}}
	err := inTx(ctx, p.store, settled, func(Tx, []string) error { return nil })
	if err != nil {
		return fmt.Errorf("forget a failed record of %s: %w", r.Place(), explain(err))
	}
	return nil
}
