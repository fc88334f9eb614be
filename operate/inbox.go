package operate

import (
	"context"
	"time"
)

// Forget says which handled events a consumer is to forget: those of which all that is said here is true. A record of them that is delivered again is handled again.
type Forget struct {
	// Consumer is the name under which they are remembered. Required.
	Consumer string `json:"consumer"`
	// EventIDs, unless nil, are the events, at most [MaxForgetIDs].
	EventIDs []string `json:"event_ids,omitempty"`
	// From and Until, unless zero, bound when they were handled, by the database's clock: from From on, and before Until.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// All must be set where nothing else narrows it down.
	All bool `json:"all,omitempty"`
}

// MaxForgetIDs is how many events one [Forget] may name.
const MaxForgetIDs = 10_000

// Check returns what is wrong with the request, with CodeInvalid.
func (f Forget) Check() error {
	narrowed := len(f.EventIDs) > 0 || !f.From.IsZero() || !f.Until.IsZero()
	switch {
	case f.Consumer == "":
		return Refuse(CodeInvalid, "forget handled events: name the consumer")
	case !storable(f.Consumer):
		return Refuse(CodeInvalid, "forget handled events: consumer %q is no UTF-8, or holds a NUL: no consumer has such a name", f.Consumer)
	case len(f.EventIDs) > MaxForgetIDs:
		return Refuse(CodeInvalid, "forget handled events: %d are named; at most %d can be", len(f.EventIDs), MaxForgetIDs)
	case !f.From.IsZero() && !f.Until.IsZero() && !f.From.Before(f.Until):
		return Refuse(CodeInvalid, "forget handled events: none is from %s on and before %s", f.From.UTC().Format(time.RFC3339), f.Until.UTC().Format(time.RFC3339))
	case narrowed == f.All:
		return Refuse(CodeInvalid, "forget handled events: say which, by their ids or times, or all of them")
	}
	for _, id := range f.EventIDs {
		if !storable(id) {
			return Refuse(CodeInvalid, "forget handled events: id %q is no UTF-8, or holds a NUL: no event has such an id", id)
		}
	}
	return nil
}

// InboxConsumer is a consumer that remembers events in this database.
type InboxConsumer struct {
	Name string `json:"name"`
	// Remembered is how many events it remembers; with Capped there are more.
	Remembered int64 `json:"remembered"`
	Capped     bool  `json:"capped"`
	// Oldest and Newest are when the first and the last of them was handled; zero where only failures are known.
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
	// Failing is how many records it could not handle so far, with Attempts at the one that was tried most often, and LastError of the last.
	Failing   int64  `json:"failing"`
	Attempts  int    `json:"attempts"`
	LastError string `json:"last_error,omitempty"`
}

// InboxFailureQuery says which records are listed that could not be handled so far.
type InboxFailureQuery struct {
	// Consumer, unless nil, is the only one whose records are meant.
	Consumer *string
	// Limit is how many are listed: 1 to [MaxPage]. Default: [DefaultPage].
	Limit int
}

// InboxFailure is a record that a consumer could not handle so far. It goes from the list when it is handled or sent on.
type InboxFailure struct {
	Consumer  string `json:"consumer"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset,string"`
	EventID   string `json:"event_id"`
	EventType string `json:"event_type"`
	// Attempts is how often it was tried, from FirstFailedAt to LastFailedAt by the database's clock.
	Attempts      int       `json:"attempts"`
	FirstError    string    `json:"first_error"`
	LastError     string    `json:"last_error"`
	FirstFailedAt time.Time `json:"first_failed_at"`
	LastFailedAt  time.Time `json:"last_failed_at"`
}

// InboxFailurePage has those that have failed for longest first. More tells that there are more than were asked for.
type InboxFailurePage struct {
	Failures []InboxFailure `json:"failures"`
	More     bool           `json:"more,omitempty"`
}

// InboxLookups is what a [Service] needs to look at the inbox. Package postgres implements it.
type InboxLookups interface {
	// InboxConsumers returns all of them by name.
	InboxConsumers(ctx context.Context, limit time.Duration) ([]InboxConsumer, error)
	// InboxFailures returns the records that fail.
	InboxFailures(ctx context.Context, limit time.Duration, q InboxFailureQuery) (InboxFailurePage, error)
}

// InboxKeeper is what a [Service] needs to forget. Package postgres implements it.
type InboxKeeper interface {
	// CountForget counts for some seconds at most, and then has an error with [CodeTooSlow]; it does not count far beyond a million, and then is capped.
	CountForget(ctx context.Context, f Forget) (n int64, capped bool, err error)
	// Forget deletes in small transactions of their own: the result is valid beside an error. progress, which may be nil, is called after each.
	Forget(ctx context.Context, f Forget, progress func(n int64)) (n int64, err error)
}

func (s *Service) inbox() (InboxKeeper, error) {
	if k, able := s.store.(InboxKeeper); able {
		return k, nil
	}
	return nil, Refuse(CodeUnavailable, "this service has no inbox")
}

// InboxConsumers returns the consumers that remember events in this database.
func (s *Service) InboxConsumers(ctx context.Context, a Actor) ([]InboxConsumer, error) {
	k, err := s.inboxLookups(a)
	if err != nil {
		return nil, err
	}
	return k.InboxConsumers(ctx, s.cfg.LookTimeout)
}

// InboxFailures returns the records that consumers could not handle so far, those that have failed for longest first.
func (s *Service) InboxFailures(ctx context.Context, a Actor, q InboxFailureQuery) (InboxFailurePage, error) {
	k, err := s.inboxLookups(a)
	if err == nil {
		q.Limit, err = pageSize(q.Limit)
	}
	if err == nil && q.Consumer != nil && !storable(*q.Consumer) {
		err = Refuse(CodeInvalid, "consumer %q is no UTF-8, or holds a NUL: no consumer has such a name", *q.Consumer)
	}
	if err != nil {
		return InboxFailurePage{}, err
	}
	return k.InboxFailures(ctx, s.cfg.LookTimeout, q)
}

func (s *Service) inboxLookups(a Actor) (InboxLookups, error) {
	if err := a.may(VerbLook); err != nil {
		return nil, err
	}
	if k, able := s.store.(InboxLookups); able {
		return k, nil
	}
	return nil, Refuse(CodeUnavailable, "this service has no inbox")
}

// CountForget says what [Service.Forget] would do. It is asked by whoever may forget, and leaves no row in the audit.
func (s *Service) CountForget(ctx context.Context, a Actor, f Forget) (n int64, capped bool, err error) {
	k, err := s.inbox()
	if err == nil {
		err = a.may(VerbForget)
	}
	if err == nil {
		err = f.Check()
	}
	if err != nil {
		return 0, false, err
	}
	return k.CountForget(ctx, f)
}

// Forget has a consumer forget handled events. What was forgotten before an error came, or before ctx ended, is in the result, and in the audit.
func (s *Service) Forget(ctx context.Context, a Actor, f Forget, reason string, progress func(n int64)) (n int64, err error) {
	k, err := s.inbox()
	if err == nil {
		err = f.Check()
	}
	if err == nil && !storable(reason) {
		err = Refuse(CodeInvalid, "the reason is no UTF-8, or holds a NUL")
	}
	if err != nil {
		return 0, err
	}
	err = s.audited(ctx, a, VerbForget, f, reason, func(int64) (change, error) {
		var err error
		n, err = k.Forget(ctx, f, progress)
		return change{affected: n}, err
	})
	return n, err
}
