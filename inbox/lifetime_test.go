package inbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A delay may be hours: what waits for it must not stay in memory when the partition has gone to another member.
func TestWhatWaitsOfAPartitionThatIsLetGoIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		retry := Partition{"shop.order-retry-3600000", 0}
		r, stop := running(t, &desk{}, &shelf{}, RunnerConfig{Retry: Retry{Topics: []time.Duration{time.Hour}, GiveUp: DeadLetter}})
		defer stop()
		later := Header{HeaderNotBefore, []byte(stamp(time.Now().Add(time.Hour)))}
		for round := range 3 {
			r.Assign([]Partition{retry})
			waiting := records(retry, "abba")
			waiting = append(waiting, &Record{Topic: retry.Topic, Offset: 4})
			for _, record := range waiting {
				record.Headers = []Header{later}
			}
			r.Take(waiting)
			if s := r.Stats(); s.Waiting != 3 {
				t.Fatalf("round %d: %d keys wait, want those of two keys and a record without one", round, s.Waiting)
			}
			if round == 1 {
				r.Lose([]Partition{retry})
			} else {
				r.Revoke(t.Context(), []Partition{retry})
			}
			if s := r.Stats(); s.Waiting != 0 {
				t.Errorf("round %d: %d keys wait of a partition that was let go", round, s.Waiting)
			}
		}
		sleep(2 * time.Hour)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.stats.Waiting != 0 || r.moving != 0 || len(r.ready) != 0 {
			t.Errorf("%d wait, %d move, %d are ready", r.stats.Waiting, r.moving, len(r.ready))
		}
	})
}

func TestWhileTheDatabaseIsAwayLostPartitionsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{handle: func(context.Context, *Record) error { return fmt.Errorf("%w: connection refused", ErrUnavailable) }}
		r, stop := running(t, d, &shelf{}, RunnerConfig{})
		defer stop()
		r.Take(records(first, "abcdefgh"))
		sleep(time.Minute)
		r.Revoke(t.Context(), []Partition{first})
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.ready) != 0 {
			t.Errorf("%d keys of a partition that was let go are ready", len(r.ready))
		}
	})
}

func TestHandledRecordsBehindAStuckKeyHoldNoValues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{handle: func(_ context.Context, r *Record) error {
			if string(r.Key) == "a" {
				return errors.New("no such account")
			}
			return nil
		}}
		s := &shelf{}
		r, stop := running(t, d, s, RunnerConfig{})
		defer stop()
		in := records(first, "abcb")
		for _, record := range in {
			record.Value = []byte("a megabyte")
		}
		r.Take(in)
		sleep(10 * time.Second)
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, it := range r.partitions[first].flight {
			if held := it.Value != nil; held != (i == 0) || it.Offset != int64(i) || it.Place().Partition != first {
				t.Errorf("%s: settled %v, value %q", it.Place(), it.settled, it.Value)
			}
		}
		if len(r.partitions[first].flight) != 4 || string(in[1].Value) != "a megabyte" {
			t.Errorf("%d records are in flight; a handler's record has %q", len(r.partitions[first].flight), in[1].Value)
		}
	})
}

// What orchestrators wait for a process is not much longer than the drain: what is left of it is for leaving the group.
func TestAStopWaitsLittleLongerThanItsDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		d := &desk{handle: func(context.Context, *Record) error {
			<-hold
			return nil
		}}
		r, stop := running(t, d, &shelf{}, RunnerConfig{DrainTimeout: 20 * time.Second})
		r.Take(records(first, "a"))
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took != 20*time.Second+unwind {
			t.Errorf("a stop with a handler that does not end took %s", took)
		}
		close(hold)
	})
}

// slowShelf commits when it is told to, and remembers in which order commits have ended.
type slowShelf struct {
	shelf
	begun, end chan struct{}
	mu         sync.Mutex
	ended      []int64
}

func (s *slowShelf) Commit(ctx context.Context, next map[Partition]int64) error {
	select {
	case s.begun <- struct{}{}:
		<-s.end
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, next[first])
	return s.shelf.Commit(ctx, next)
}

// Kafka takes an offset of a partition from any member: one that comes late would take back what the next owner has committed.
func TestNoCommitOfAPartitionComesAfterItWasLetGo(t *testing.T) {
	t.Parallel()
	for name, letGo := range map[string]func(*Runner, context.Context){
		"revoked": func(r *Runner, ctx context.Context) { r.Revoke(ctx, []Partition{first}) },
		"lost":    func(r *Runner, _ context.Context) { r.Lose([]Partition{first}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, s := &desk{}, &slowShelf{begun: make(chan struct{}), end: make(chan struct{})}
			r, err := NewRunner(d, s, RunnerConfig{CommitInterval: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			r.Assign([]Partition{first})
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() { defer close(over); r.Run(ctx) }()
			r.Take(records(first, "a"))
			<-s.begun
			gone := make(chan struct{})
			go func() { defer close(gone); letGo(r, t.Context()) }()
			for len(r.assigned()) > 0 {
				// The partition goes while a commit of it is under way.
			}
			select {
			case <-gone:
				t.Error("the partition was let go with a commit of it under way")
			case <-time.After(20 * time.Millisecond):
			}
			close(s.end)
			<-gone
			cancel()
			<-over
			if !slices.IsSorted(s.ended) {
				t.Errorf("commits ended in the order %v", s.ended)
			}
		})
	}
}

// passing has a desk that is told what is settled.
type passing struct {
	desk
	told []map[Partition]int64
	err  error
}

func (p *passing) Passed(_ context.Context, next map[Partition]int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, maps.Clone(next))
	return p.err
}

func TestWhatIsSettledIsToldOnceAMinuteAndOnlyWhatHasMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s := &passing{err: errors.New("the database is away")}, &shelf{}
		r, err := NewRunner(d, s, RunnerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		second := Partition{"shop.order", 1}
		r.Assign([]Partition{first, second})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); r.Run(ctx) }()
		r.Take(records(first, "abc"))
		sleep(65 * time.Second)
		d.mu.Lock()
		d.err = nil
		d.mu.Unlock()
		sleep(3 * time.Minute)
		r.Take(records(second, "ab"))
		sleep(2 * time.Minute)
		cancel()
		<-over
		want := []map[Partition]int64{{first: 3}, {first: 3}, {second: 2}}
		if !slices.EqualFunc(d.told, want, maps.Equal) {
			t.Errorf("told %v, want %v", d.told, want)
		}
	})
}

// stuckStore is a database whose answer to a commit never comes.
type stuckStore struct{ commit, rollback bool }

func (stuckStore) Begin(context.Context) (struct{}, error) { return struct{}{}, nil }

func (s stuckStore) Commit(ctx context.Context, _ struct{}) error { return until(ctx, s.commit) }

func (s stuckStore) Rollback(ctx context.Context, _ struct{}) error { return until(ctx, s.rollback) }

func (stuckStore) Query(_ context.Context, _ struct{}, _ string, args ...any) ([]string, error) {
	return []string{fmt.Sprint("7 ", args[len(args)-1])}, nil
}

func until(ctx context.Context, stuck bool) error {
	if !stuck {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// wild decodes itself.
type wild struct{}

func (*wild) UnmarshalJSON([]byte) error { panic("no memory") }

func event(id, kind string) *Record {
	return &Record{Topic: "t", Value: []byte("{}"), Headers: []Header{{"x-event-id", []byte(id)}, {"x-event-type", []byte(kind)}}}
}

func processorOf(t *testing.T, s Store[struct{}], cfg Config) *Processor[struct{}] {
	t.Helper()
	h := NewHandlers[struct{}]()
	On(h, "wild", func(context.Context, struct{}, Event[wild]) error { return nil })
	On(h, "calm", func(context.Context, struct{}, Event[[]byte]) error { return nil })
	On(h, "fails", func(context.Context, struct{}, Event[[]byte]) error { return errors.New("no such account") })
	p, err := NewProcessor("desk", s, h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAServerThatVanishesAtTheEndOfATransactionIsUnavailable(t *testing.T) {
	t.Parallel()
	for kind, s := range map[string]stuckStore{"calm": {commit: true}, "fails": {commit: true, rollback: true}} {
		synctest.Test(t, func(t *testing.T) {
			out := processorOf(t, s, Config{}).Handle(t.Context(), []*Record{event("1", kind)})
			if !errors.Is(out[0].Err, ErrUnavailable) {
				t.Errorf("%s: %v", kind, out[0].Err)
			}
		})
	}
}

func TestAPanicOfAnyOfTheUsersFunctionsFailsTheRecordAlone(t *testing.T) {
	t.Parallel()
	for who, c := range map[string]struct {
		kind string
		cfg  Config
	}{
		"the decoding of the value": {"wild", Config{}},
		"Config.EventID":            {"calm", Config{EventID: func(*Record) (string, error) { panic("no memory") }}},
		"Config.EventType":          {"calm", Config{EventType: func(*Record) string { panic("no memory") }}},
	} {
		p := processorOf(t, stuckStore{}, c.cfg)
		r := event("1", c.kind)
		err := p.Handle(t.Context(), []*Record{r})[0].Err
		var panicked *panicError
		if !IsPermanent(err) || !errors.As(err, &panicked) || len(panicked.stack) == 0 || !strings.Contains(err.Error(), who+" panicked: no memory") {
			t.Errorf("%s: %v", who, err)
		}
		if _, err := p.Failed(t.Context(), r, err); err != nil && !strings.Contains(err.Error(), "write down") {
			t.Errorf("%s: %v", who, err)
		}
	}
}

func TestAPlaceThatNoPartitionHasIsNotRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		partition, offset     string
		wantPartition, wantAt int64
	}{
		{"3", "17", 3, 17}, {"4294967297", "17", -1, 17}, {"-7", "-9", -1, -1}, {"x", "y", -1, -1},
	} {
		l := ReadLetter(&Record{Headers: []Header{{HeaderOriginalTopic, []byte("t")}, {HeaderOriginalPartition, []byte(c.partition)}, {HeaderOriginalOffset, []byte(c.offset)}}})
		if int64(l.Partition) != c.wantPartition || l.Offset != c.wantAt {
			t.Errorf("%s/%s is read as %d/%d", c.partition, c.offset, l.Partition, l.Offset)
		}
	}
}

// A crash between sending on and committing leaves two copies in a retry topic: they are one record.
func TestAPlaceIsTheSameInARetryTopic(t *testing.T) {
	t.Parallel()
	p := processorOf(t, stuckStore{}, Config{NoID: PlaceNoID})
	r := &Record{Topic: "shop.order", Partition: 3, Offset: 17}
	want, err := p.id(r)
	if err != nil || want != r.Place().String() {
		t.Fatalf("%q, %v", want, err)
	}
	headers := letterHeaders(r, Letter{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset})
	for _, offset := range []int64{4, 5} {
		again := &Record{Topic: "shop.order-retry-1000", Offset: offset, Headers: headers}
		if got, err := p.id(again); err != nil || got != want {
			t.Errorf("the copy at offset %d is %q, %v, want %q", offset, got, err, want)
		}
	}
	foreign := &Record{Topic: "t", Offset: 1, Headers: []Header{{HeaderOriginalTopic, []byte("shop.order")}}}
	if got, err := p.id(foreign); err != nil || got != foreign.Place().String() {
		t.Errorf("without a place in its headers it is %q, %v", got, err)
	}
}
