package relay

import (
	"context"
	"errors"
	"slices"
	"time"
)

// fakeFailing is the record of an event; due is zero when no attempt is planned.
type fakeFailing struct {
	Failing
	due time.Time
	// last is the last error's code, reasons all of the reasons.
	last    string
	reasons []string
	// at are the times of the attempts that have failed.
	at []time.Time
}

// fakeAttempts is what a table keeps of failed attempts and dead events.
type fakeAttempts struct {
	failing map[Ref]*fakeFailing
	dead    []DeadEvent
	// keeps tells that the table lets no row be deleted.
	keeps bool
	// rowLocked tells that somebody has its rows locked; rowsLocked are those, nil for all.
	rowLocked  bool
	rowsLocked []Ref
}

func (f *fakeTable) failingOf(key Key, ref Ref) *fakeFailing {
	r := f.failing[ref]
	if r == nil {
		if f.failing == nil {
			f.failing = map[Ref]*fakeFailing{}
		}
		r = &fakeFailing{Failing: Failing{Key: key, Event: ref}}
		f.failing[ref] = r
	}
	return r
}

// fail counts a failed attempt.
func (f *fakeTable) fail(e FailedEvent) *fakeFailing {
	r := f.failingOf(e.Key, e.Event)
	if e.Code == CodeCrashLoop {
		r.Attempts, r.Crashes = r.Attempts+r.Crashes, 0
	} else {
		r.Attempts++
	}
	r.last = e.Code
	r.reasons = append(r.reasons, e.Reason)
	r.at = append(r.at, time.Now())
	return r
}

// record returns a copy of the record of an event; false when there is none.
func (f *fakeTable) record(ref Ref) (fakeFailing, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.failing[ref]
	if r == nil {
		return fakeFailing{}, false
	}
	return *r, true
}

// lockRows locks or frees rows, or all, for those who would move them.
func (f *fakeTable) lockRows(locked bool, rows ...Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rowLocked, f.rowsLocked = locked, rows
}

func (f *fakeTable) locked(ref Ref) bool {
	return f.rowLocked && (len(f.rowsLocked) == 0 || slices.Contains(f.rowsLocked, ref))
}

func (f *fakeTable) deadEvents() []DeadEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.dead)
}

func (s *fakeSource) Failing(ctx context.Context, lanes []int32) (all []Failing, err error) {
	err = s.call(ctx, "failing", func() error {
		for ref, r := range s.table.failing {
			if !slices.Contains(lanes, s.table.lane(r.Key)) {
				continue
			}
			if s.table.row(ref).published {
				delete(s.table.failing, ref)
				continue
			}
			r.Waits, r.In = !r.due.IsZero(), max(0, time.Until(r.due))
			all = append(all, r.Failing)
		}
		return nil
	})
	return all, err
}

func (s *fakeSource) Retry(ctx context.Context, c Claim, failed []RetriedEvent) (gone []Key, err error) {
	err = s.call(ctx, "retry", func() error {
		for _, e := range failed {
			if err := s.ownsLane(c, s.table.lane(e.Key)); err != nil {
				return err
			}
		}
		for _, e := range failed {
			if s.table.row(e.Event).published {
				gone = append(gone, e.Key)
				continue
			}
			s.table.fail(e.FailedEvent).due = time.Now().Add(e.Wait)
		}
		return nil
	})
	return gone, err
}

// dueAtOnce is how many events a fake gives at most.
const dueAtOnce = 100

func (s *fakeSource) Due(ctx context.Context, c Claim) (due []Failing, err error) {
	err = s.call(ctx, "due", func() error {
		for _, r := range s.table.failing {
			if len(due) < dueAtOnce && s.ownsLane(c, s.table.lane(r.Key)) == nil && !r.due.IsZero() && !r.due.After(time.Now()) {
				r.due = time.Time{}
				due = append(due, r.Failing)
			}
		}
		return nil
	})
	return due, err
}

// buriedAtOnce is how many events a fake takes at most; fewer than the relay gives.
const buriedAtOnce = 300

func (s *fakeSource) Bury(ctx context.Context, c Claim, dead []DeadEvent) (became []Burial, err error) {
	dead = dead[:min(len(dead), buriedAtOnce)]
	err = s.call(ctx, "bury", func() error {
		for _, d := range dead {
			if err := s.ownsLane(c, s.table.lane(d.Key)); err != nil {
				return err
			}
		}
		for _, d := range dead {
			became = append(became, s.table.bury(d))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return became, nil
}

func (f *fakeTable) bury(d DeadEvent) Burial {
	if f.locked(d.Event) {
		return Burial{Err: ErrLocked, LockedBy: "pid 4711"}
	}
	if f.keeps {
		return Burial{Err: &RefusedError{errors.New("permission denied")}}
	}
	row := f.row(d.Event)
	if row.published {
		return Burial{}
	}
	row.published = true
	f.dead = append(f.dead, d)
	delete(f.failing, d.Event)
	return Burial{Moved: true}
}

// Topics implements [TopicLister].
func (s *fakeSource) Topics(ctx context.Context) (topics []string, err error) {
	err = s.call(ctx, "topics", func() error {
		for _, r := range s.table.rows {
			if !slices.Contains(topics, r.event.Topic) {
				topics = append(topics, r.event.Topic)
			}
		}
		return nil
	})
	return topics, err
}

func (s *fakeSource) Begin(ctx context.Context, c Claim, events []*Event) error {
	return s.call(ctx, "begin", func() error {
		for _, e := range events {
			if err := s.ownsLane(c, s.table.lane(e.Key())); err != nil {
				return err
			}
			s.table.failingOf(e.Key(), e.Ref()).Crashes++
		}
		return nil
	})
}

func (s *fakeSource) Clear(ctx context.Context, published, survived []Ref) error {
	return s.call(ctx, "clear", func() error {
		for _, ref := range published {
			delete(s.table.failing, ref)
		}
		for _, ref := range survived {
			if r := s.table.failing[ref]; r != nil {
				if r.Crashes = 0; r.Attempts == 0 {
					delete(s.table.failing, ref)
				}
			}
		}
		return nil
	})
}

// fakeLetters is what a fakePublisher does with letters.
type fakeLetters struct {
	// failLetter is a letter's failure, if not nil; holdLetter is what its outcome waits for; nil: nothing.
	failLetter func(Letter) error
	holdLetter <-chan struct{}
	letters    []Letter
}

var _ Letterer = (*fakePublisher)(nil)

func (p *fakePublisher) PublishLetter(l Letter, done func(Place, error)) {
	p.mu.Lock()
	c := p.client
	p.mu.Unlock()
	c.keys.Go(func() {
		select {
		case <-p.held():
		case <-c.closed:
			done(Place{}, errNoClient)
			return
		}
		err := p.kafka.check(l.Topic)
		if p.failLetter != nil {
			err = p.failLetter(l)
		}
		if err == nil {
			p.mu.Lock()
			p.letters = append(p.letters, l)
			at := int64(len(p.letters))
			p.mu.Unlock()
			done(Place{Topic: l.Topic, Partition: 3, Offset: at}, nil)
			return
		}
		done(Place{}, err)
	})
}

// held is closed when letters may have their outcomes.
func (p *fakePublisher) held() <-chan struct{} {
	if p.holdLetter != nil {
		return p.holdLetter
	}
	open := make(chan struct{})
	close(open)
	return open
}

func (p *fakePublisher) sent() []Letter {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.letters)
}
