package inbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// desk handles records as its function says, and remembers how often each has failed.
type desk struct {
	mu      sync.Mutex
	handle  func(ctx context.Context, r *Record) error
	order   []string
	now     int
	most    int
	fails   map[Place]int
	forgot  []Place
	written error
}

func (d *desk) Consumer() string { return "desk" }

func (d *desk) Handle(ctx context.Context, records []*Record) []Outcome {
	d.mu.Lock()
	d.now += len(records)
	d.most = max(d.most, d.now)
	d.mu.Unlock()
	out := make([]Outcome, len(records))
	stuck := keys{}
	for i, r := range records {
		if stuck.has(r) {
			out[i].Err = errHeld
			continue
		}
		if d.handle != nil {
			out[i].Err = d.handle(ctx, r)
		}
		if out[i].Err != nil {
			stuck.add(r)
		}
		d.mu.Lock()
		d.now--
		if out[i].Err == nil {
			d.order = append(d.order, fmt.Sprintf("%s/%d:%d", r.Key, r.Partition, r.Offset))
		}
		d.mu.Unlock()
	}
	return out
}

func (d *desk) Failed(_ context.Context, r *Record, _ error) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.written != nil {
		return 0, d.written
	}
	if d.fails == nil {
		d.fails = map[Place]int{}
	}
	d.fails[r.Place()]++
	return d.fails[r.Place()], nil
}

func (d *desk) Settled(_ context.Context, r *Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgot = append(d.forgot, r.Place())
	return nil
}

func (d *desk) done() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.order)
}

// shelf is a log that remembers what it is told.
type shelf struct {
	mu        sync.Mutex
	paused    map[Partition]bool
	committed map[Partition]int64
	sent      []string
	headers   [][]Header
	send      error
}

func (s *shelf) Pause(partitions []Partition) { s.pausing(partitions, true) }

func (s *shelf) Resume(partitions []Partition) { s.pausing(partitions, false) }

func (s *shelf) pausing(partitions []Partition, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused == nil {
		s.paused = map[Partition]bool{}
	}
	for _, p := range partitions {
		s.paused[p] = paused
	}
}

func (s *shelf) Commit(_ context.Context, next map[Partition]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committed == nil {
		s.committed = map[Partition]int64{}
	}
	maps.Copy(s.committed, next)
	return nil
}

func (s *shelf) Send(_ context.Context, topic string, r *Record, headers []Header) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.send != nil {
		return s.send
	}
	s.sent = append(s.sent, fmt.Sprintf("%s %s:%d", topic, r.Key, r.Offset))
	s.headers = append(s.headers, headers)
	return nil
}

func (s *shelf) upTo(p Partition) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.committed[p]
}

func (d *desk) failures() map[Place]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.fails)
}

func (d *desk) forgotten() []Place {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.forgot)
}

func (s *shelf) letters() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

func (s *shelf) heads() [][]Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.headers)
}

func (s *shelf) isPaused(p Partition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused[p]
}

var first = Partition{"shop.order", 0}

// records makes one for each key, from offset 0 on.
func records(p Partition, keys string) (all []*Record) {
	for i, k := range keys {
		all = append(all, &Record{Topic: p.Topic, Partition: p.Number, Offset: int64(i), Key: []byte(string(k))})
	}
	return all
}

// running runs a runner that has the first partition; stop ends it.
func running(t *testing.T, d *desk, s *shelf, cfg RunnerConfig) (r *Runner, stop func()) {
	t.Helper()
	r, err := NewRunner(d, s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Assign([]Partition{first})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	return r, func() {
		cancel()
		<-ended
	}
}

func TestAKeyKeepsItsOrderAndOffsetsFollowTheFirstThatIsNotSettled(t *testing.T) {
	t.Parallel()
	// In one transaction with a record that is not done yet, nothing is.
	for batch, upTo := range map[int]int64{1: 1, 3: 0} {
		synctest.Test(t, func(t *testing.T) {
			hold := make(chan struct{})
			d, s := &desk{}, &shelf{}
			d.handle = func(_ context.Context, r *Record) error {
				if string(r.Key) == "b" {
					<-hold
				}
				return nil
			}
			r, stop := running(t, d, s, RunnerConfig{Workers: 4, Batch: batch})
			r.Take(records(first, "ab"))
			synctest.Wait()
			r.Take(records(first, "abaccaba")[2:])
			sleep(2 * time.Second)
			if got := s.upTo(first); got != upTo {
				t.Errorf("batch %d: committed up to %d while offset 1 is being handled, want %d", batch, got, upTo)
			}
			close(hold)
			sleep(2 * time.Second)
			if got := s.upTo(first); got != 8 {
				t.Errorf("batch %d: committed up to %d, want 8", batch, got)
			}
			stop()
			of := map[byte][]string{}
			for _, done := range d.done() {
				of[done[0]] = append(of[done[0]], done)
			}
			for k, got := range of {
				if !slices.IsSorted(got) {
					t.Errorf("batch %d: key %c was handled in the order %v", batch, k, got)
				}
			}
			if len(d.done()) != 8 {
				t.Errorf("batch %d: %v were handled, want 8", batch, d.done())
			}
		})
	}
}

func TestAFailingRecordHoldsUpItsKeyOnlyUntilItsPartitionIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s := &desk{}, &shelf{}
		var healed atomic.Bool
		d.handle = func(_ context.Context, r *Record) error {
			if string(r.Key) == "b" && !healed.Load() {
				return errors.New("no such account")
			}
			return nil
		}
		r, stop := running(t, d, s, RunnerConfig{Workers: 2, MaxUncommitted: 6})
		defer stop()
		r.Take(records(first, "abacadba"))
		sleep(time.Hour)
		if got := d.done(); len(got) != 6 || s.upTo(first) != 1 || !s.isPaused(first) {
			t.Errorf("handled %v, committed up to %d, paused %v", got, s.upTo(first), s.isPaused(first))
		}
		if st := r.Stats(); st.Waiting != 1 || st.InFlight != 7 || st.Failures < 100 || st.Failures > 400 {
			t.Errorf("stats %+v", st)
		}
		healed.Store(true)
		sleep(time.Minute)
		if got := d.done(); len(got) != 8 || s.upTo(first) != 8 || s.isPaused(first) || !slices.Equal(d.forgotten(), []Place{{first, 1}}) {
			t.Errorf("handled %v, committed up to %d, paused %v, forgot %v", got, s.upTo(first), s.isPaused(first), d.forgotten())
		}
	})
}

func TestARecordGoesThroughRetryTopicsToTheDeadLetterTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s := &desk{handle: func(_ context.Context, r *Record) error {
			if string(r.Value) == "bad" {
				return errors.New("no such account")
			}
			return nil
		}}, &shelf{}
		retry := Partition{"shop.order-retry-60000", 2}
		r, stop := running(t, d, s, RunnerConfig{Retry: Retry{Attempts: 2, Topics: []time.Duration{time.Minute}, GiveUp: DeadLetter}})
		defer stop()
		r.Assign([]Partition{retry})
		began := time.Now()
		in := records(first, "aa")
		in[0].Value, in[0].Headers = []byte("bad"), []Header{{"x-event-id", []byte("1")}}
		r.Take(in)
		sleep(10 * time.Second)
		if !slices.Equal(s.letters(), []string{"shop.order-retry-60000 a:0"}) || s.upTo(first) != 2 || len(d.done()) != 1 {
			t.Fatalf("sent %v, committed %d, handled %v", s.letters(), s.upTo(first), d.done())
		}
		again := &Record{Topic: retry.Topic, Partition: 2, Offset: 40, Key: []byte("a"), Value: []byte("bad"), Headers: s.heads()[0]}
		l := ReadLetter(again)
		if l.Topic != "shop.order" || l.Offset != 0 || l.Attempts != 2 || l.Consumer != "desk" || l.Error != "no such account" || l.NotBefore.Sub(began) < time.Minute {
			t.Errorf("the letter says %+v", l)
		}
		r.Take([]*Record{again})
		sleep(49 * time.Second)
		if len(s.letters()) != 1 || d.failures()[again.Place()] != 0 {
			t.Errorf("tried before its time: %v", s.letters())
		}
		sleep(11 * time.Second)
		if !slices.Equal(s.letters()[1:], []string{"shop.order-dlt a:40"}) || s.upTo(retry) != 41 {
			t.Fatalf("sent %v, committed %d", s.letters(), s.upTo(retry))
		}
		dead := &Record{Headers: s.heads()[1]}
		if l := ReadLetter(dead); l.Topic != "shop.order" || l.Offset != 0 || l.Attempts != 3 || !l.NotBefore.IsZero() {
			t.Errorf("the letter says %+v", l)
		}
		if own := OwnHeaders(dead); len(own) != 1 || own[0].Key != "x-event-id" {
			t.Errorf("own headers %v", own)
		}
	})
}

func TestWhatCannotBeSentOnStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{handle: func(_ context.Context, r *Record) error {
			if r.Offset == 0 {
				return Permanent(errors.New("no JSON"))
			}
			return nil
		}}
		s := &shelf{send: errors.New("UNKNOWN_TOPIC_OR_PARTITION")}
		r, stop := running(t, d, s, RunnerConfig{Retry: Retry{GiveUp: DeadLetter}})
		defer stop()
		r.Take(records(first, "aba"))
		sleep(time.Hour)
		if got := d.done(); len(got) != 1 || s.upTo(first) != 0 {
			t.Errorf("handled %v, committed up to %d, want the other key alone and nothing", got, s.upTo(first))
		}
		s.mu.Lock()
		s.send = nil
		s.mu.Unlock()
		sleep(time.Minute)
		if len(d.done()) != 2 || s.upTo(first) != 3 || len(s.letters()) != 1 || r.Stats().DeadLettered != 1 {
			t.Errorf("handled %v, committed up to %d, sent %v", d.done(), s.upTo(first), s.letters())
		}
	})
}

func TestARecordThatAnotherTransactionHasIsTriedAgainAndSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{errBusy, errConflict} {
		synctest.Test(t, func(t *testing.T) {
			var busy atomic.Bool
			busy.Store(true)
			d := &desk{handle: func(_ context.Context, r *Record) error {
				if r.Offset == 0 && busy.Load() {
					return fmt.Errorf("%w for 30s", cause)
				}
				return nil
			}}
			s := &shelf{}
			r, stop := running(t, d, s, RunnerConfig{Retry: Retry{Attempts: 1, GiveUp: DeadLetter}})
			defer stop()
			r.Take(records(first, "aba"))
			sleep(conflictPatience - time.Second)
			if got := d.done(); len(got) != 1 || len(d.failures()) != 0 || len(s.letters()) != 0 || r.Stats().Unavailable {
				t.Fatalf("handled %v, failures %v, sent %v, want the other key handled and nothing else", got, d.failures(), s.letters())
			}
			busy.Store(false)
			sleep(time.Second)
			if got := d.done(); len(got) != 3 || s.upTo(first) != 3 {
				t.Errorf("handled %v, committed up to %d, want all", got, s.upTo(first))
			}
		})
	}
}

func TestARecordThatAlwaysLosesAgainstOtherTransactionsSpendsItsAttemptsAndIsGivenUp(t *testing.T) {
	t.Parallel()
	for policy, sent := range map[GiveUp]int{Block: 0, DeadLetter: 1, Skip: 0} {
		synctest.Test(t, func(t *testing.T) {
			d := &desk{handle: func(_ context.Context, r *Record) error {
				if r.Offset == 0 {
					return fmt.Errorf("%w: %w", errConflict, stated("40001"))
				}
				return nil
			}}
			s := &shelf{}
			r, stop := running(t, d, s, RunnerConfig{Retry: Retry{Attempts: 3, GiveUp: policy}})
			defer stop()
			r.Take(records(first, "aba"))
			sleep(conflictPatience + time.Minute)
			failed := d.failures()[Place{Partition: first, Offset: 0}]
			if policy == Block {
				if got := d.done(); len(got) != 1 || failed <= 3 {
					t.Errorf("blocking: handled %v after %d failures, want the other key alone, and more failures", got, failed)
				}
				return
			}
			if got := d.done(); len(got) != 2 || failed != 3 || len(s.letters()) != sent || s.upTo(first) != 3 {
				t.Errorf("policy %v: handled %v, failures %v, sent %v, committed up to %d, want the others handled after 3 failures", policy, got, d.failures(), s.letters(), s.upTo(first))
			}
		})
	}
}

func TestNothingIsTriedWhileTheDatabaseIsAwayAndNoAttemptIsSpent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		var away atomic.Bool
		away.Store(true)
		d := &desk{}
		d.handle = func(context.Context, *Record) error {
			if tries.Add(1); away.Load() {
				return fmt.Errorf("%w: connection refused", ErrUnavailable)
			}
			return nil
		}
		s := &shelf{}
		r, stop := running(t, d, s, RunnerConfig{Workers: 3})
		defer stop()
		r.Take(records(first, "abcdefgh"))
		sleep(time.Hour)
		if tries.Load() > 3*740 || len(d.failures()) != 0 || !r.Stats().Unavailable {
			t.Errorf("%d tries in an hour, failures %v", tries.Load(), d.failures())
		}
		away.Store(false)
		sleep(10 * time.Second)
		if len(d.done()) != 8 || s.upTo(first) != 8 || r.Stats().Unavailable {
			t.Errorf("handled %v, committed up to %d", d.done(), s.upTo(first))
		}
	})
}

func TestAPartitionIsLetGoWhenItsHandlersHaveEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s := &desk{}, &shelf{}
		d.handle = func(ctx context.Context, r *Record) error {
			wait := 3 * time.Second
			if r.Offset == 2 {
				wait = time.Hour
			}
			select {
			case <-time.After(wait):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		r, stop := running(t, d, s, RunnerConfig{Workers: 2, DrainTimeout: 5 * time.Second})
		defer stop()
		r.Take(records(first, "abcd"))
		sleep(time.Second)
		r.Revoke(t.Context(), []Partition{first})
		if got := s.upTo(first); got != 2 {
			t.Errorf("committed up to %d, want 2: those that had begun", got)
		}
		r.Assign([]Partition{first})
		r.Take(records(first, "abcd")[3:])
		sleep(4 * time.Second)
		if got := strings.Join(d.done(), " "); !strings.HasSuffix(got, "d/0:3") || s.upTo(first) != 4 {
			t.Errorf("handled %s, committed up to %d", got, s.upTo(first))
		}
	})
}

// sleep passes virtual time, until everything waits.
func sleep(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// What is in the way may be the record's own, such as a lock on its row: the other keys go on, and it is given up as the policy says once it can be counted.
func TestAFailureThatCannotBeWrittenDownHoldsUpItsKeyAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{written: errBusy, handle: func(_ context.Context, r *Record) error {
			if string(r.Key) == "a" {
				return errors.New("no such account")
			}
			return nil
		}}
		s := &shelf{}
		r, stop := running(t, d, s, RunnerConfig{Retry: Retry{Attempts: 1, GiveUp: DeadLetter}})
		defer stop()
		r.Take(records(first, "abc"))
		sleep(time.Minute)
		if got := d.done(); len(got) != 2 || r.Stats().Unavailable || len(s.letters()) != 0 {
			t.Fatalf("handled %v, sent %v, %+v, want the two other keys alone", got, s.letters(), r.Stats())
		}
		d.mu.Lock()
		d.written = nil
		d.mu.Unlock()
		sleep(time.Minute)
		if s.upTo(first) != 3 || len(s.letters()) != 1 {
			t.Errorf("committed up to %d, sent %v", s.upTo(first), s.letters())
		}
	})
}

// A group is behind what nobody handles when it is behind the records before that.
func TestTheEndOfATransactionIsCommittedWithWhatIsBeforeIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		d := &desk{handle: func(context.Context, *Record) error {
			<-hold
			return nil
		}}
		s := &shelf{}
		r, stop := running(t, d, s, RunnerConfig{})
		defer stop()
		r.Pass(Place{first, 4})
		r.Pass(Place{Partition{"shop.other", 9}, 7})
		sleep(2 * time.Second)
		if got := s.upTo(first); got != 5 {
			t.Errorf("committed up to %d, want 5", got)
		}
		r.Take([]*Record{{Topic: first.Topic, Offset: 5, Key: []byte("a")}, {Topic: first.Topic, Offset: 6, Key: []byte("b")}})
		r.Pass(Place{first, 7})
		r.Pass(Place{first, 9})
		sleep(2 * time.Second)
		if got := s.upTo(first); got != 5 {
			t.Errorf("committed up to %d before anything was handled", got)
		}
		close(hold)
		sleep(2 * time.Second)
		if got := s.upTo(first); got != 10 {
			t.Errorf("committed up to %d, want 10", got)
		}
	})
}
