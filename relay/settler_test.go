package relay

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

var errBroken = errors.New("connection broken")

// settling is a settler on a table with events that are acked, and what it reported.
type settling struct {
	*settler
	table  *fakeTable
	source *fakeSource
	events []*Event
	// reported counts events whose settle was reported, found those reported as found unpublished.
	reported, found int
	// unsettled are the rows that were reported as impossible to settle.
	unsettled []Ref
}

func newSettling(events int) *settling {
	s := &settling{table: newFakeTable()}
	s.source = &fakeSource{table: s.table}
	s.settler = newSettler(s.source, func(string) {})
	s.events = s.table.insertMany(events, func(int) Key { return keyA })
	return s
}

func (s *settling) note(done settlement) {
	s.reported += len(done.refs)
	s.found += done.found
	if done.unsettled != nil {
		s.unsettled = append(s.unsettled, done.unsettled.Refs...)
	}
}

// failing breaks the next n calls of an operation, before or after they take effect.
func failing(op string, n int) func(context.Context, string) error {
	return func(_ context.Context, called string) error {
		if called != op || n == 0 {
			return nil
		}
		n--
		return errBroken
	}
}

func TestSettlerSettlesAtMostTenThousandInOneStatement(t *testing.T) {
	t.Parallel()
	s := newSettling(25_000)
	s.add(refsOf(s.events))
	if err := s.flush(t.Context(), s.note); err != nil {
		t.Fatal(err)
	}
	if want := []int{10_000, 10_000, 5_000}; !slices.Equal(s.table.statements, want) || s.reported != 25_000 {
		t.Errorf("statements of %v events, %d reported; want %v, 25000", s.table.statements, s.reported, want)
	}
}

func TestSettlerKeepsWhatItCouldNotSettle(t *testing.T) {
	t.Parallel()
	s := newSettling(3)
	s.source.before.set(failing("settle", 1))
	s.add(refsOf(s.events))
	if err := s.flush(t.Context(), s.note); !errors.Is(err, errBroken) {
		t.Fatalf("flush: %v, want %v", err, errBroken)
	}
	if s.waiting() != 3 || s.reported != 0 {
		t.Errorf("%d waiting, %d reported; want 3, 0", s.waiting(), s.reported)
	}
	if err := s.flush(t.Context(), s.note); err != nil {
		t.Fatal(err)
	}
	if s.waiting() != 0 || s.found != 3 || s.table.open() != 0 {
		t.Errorf("%d waiting, %d found, %d unpublished; want 0, 3, 0", s.waiting(), s.found, s.table.open())
	}
}

func TestSettlerBlamesNobodyForAStatementWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	s := newSettling(3)
	s.source.after.set(failing("settle", 1))
	s.add(refsOf(s.events[:2]))
	if err := s.flush(t.Context(), s.note); !errors.Is(err, errBroken) {
		t.Fatalf("flush: %v, want %v", err, errBroken)
	}
	s.add(refsOf(s.events[2:]))
	if err := s.flush(t.Context(), s.note); err != nil {
		t.Fatal(err)
	}
	if s.reported != 3 || s.found != 3 {
		t.Errorf("reported %d events, %d of them found unpublished; want 3, 3", s.reported, s.found)
	}
}

func TestSettlerTellsWhenSomebodyElseHasSettled(t *testing.T) {
	t.Parallel()
	s := newSettling(3)
	s.table.row(s.events[1].Ref()).published = true
	s.add(refsOf(s.events))
	if err := s.flush(t.Context(), s.note); err != nil {
		t.Fatal(err)
	}
	if s.reported != 3 || s.found != 2 {
		t.Errorf("reported %d events, %d of them found unpublished; want 3, 2", s.reported, s.found)
	}
}

func TestSettlerSettlesWhatWasAckedAfterTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSettling(2)
		reached, goOn := make(chan struct{}), make(chan struct{})
		s.source.before.set(func(ctx context.Context, op string) error {
			if len(s.table.statements) > 0 {
				return nil
			}
			close(reached)
			<-goOn
			return ctx.Err()
		})
		stop, end := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- s.run(stop, t.Context(), s.note) }()
		s.add(refsOf(s.events[:1]))
		<-reached
		end()
		s.add(refsOf(s.events[1:]))
		close(goOn)
		if err := <-ran; err != nil {
			t.Fatalf("run: %v: the stop cut a statement off", err)
		}
		if s.found != 2 {
			t.Errorf("settled %d events, want 2", s.found)
		}
	})
}

// countCalls counts the calls of an operation.
func countCalls(op string, n *atomic.Int64) func(context.Context, string) error {
	return func(_ context.Context, called string) error {
		if called == op {
			n.Add(1)
		}
		return nil
	}
}

// hangIn makes an operation hang until its context ends.
func hangIn(op string) func(context.Context, string) error {
	return func(ctx context.Context, called string) error {
		if called == op {
			<-ctx.Done()
		}
		return ctx.Err()
	}
}
