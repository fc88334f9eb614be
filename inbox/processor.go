package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// Failed writes down that the record could not be handled, and returns how often that is. The count outlives the process.
func (p *Processor[Tx]) Failed(ctx context.Context, r *Record, cause error) (attempts int, err error) {
	id, _ := p.id(r)
	kind, _ := p.kind(r)
	texts := [...]string{storable(id, MaxEventIDBytes), storable(kind, maxErrorText), storable(cause.Error(), maxErrorText)}
	attempts, err = p.countFailure(ctx, r, texts)
	if sqlState(err) == untranslatable {
		for i, text := range texts {
			texts[i] = storable(ascii(text), maxErrorText)
		}
		attempts, err = p.countFailure(ctx, r, texts)
	}
	if err != nil {
		return 0, fmt.Errorf("write down a failed record of %s: %w", r.Place(), explain(err))
	}
	return attempts, nil
}

// countFailure takes the event's id and type and the error.
func (p *Processor[Tx]) countFailure(ctx context.Context, r *Record, texts [3]string) (attempts int, err error) {
	count := statement{failedSQL, []any{p.consumer, r.Topic, r.Partition, r.Offset, texts[0], texts[1], texts[2]}}
	err = p.note(ctx, count, func(counts []string) error {
		_, err := fmt.Sscan(strings.Join(counts, " "), &attempts)
		return err
	})
	return attempts, err
}

// note runs a statement about a record in a transaction of its own. It waits for a row that another session has locked as long as for an event.
func (p *Processor[Tx]) note(ctx context.Context, s statement, fn func(found []string) error) error {
	within, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	err := inTx(within, p.store, s, func(_ Tx, found []string) error { return fn(found) })
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return p.there(ctx, fmt.Errorf("%w for %s", errBusy, p.cfg.Timeout))
	}
	return err
}

// Settled forgets what [Processor.Failed] has written down of the record.
func (p *Processor[Tx]) Settled(ctx context.Context, r *Record) error {
	settled := statement{settledSQL, []any{p.consumer, r.Topic, r.Partition, r.Offset}}
	err := p.note(ctx, settled, func([]string) error { return nil })
	if err != nil {
		return fmt.Errorf("forget a failed record of %s: %w", r.Place(), explain(err))
	}
	return nil
}
