package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestLanesAreSharedOutWhenEachRelayHasItsShareAndNoneIsFree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		held []int
		n    int
		want bool
	}{
		{"one has all", []int{8}, 1, true},
		{"one of two has all", []int{8}, 2, false},
		{"halves", []int{4, 4}, 2, true},
		{"more than a share", []int{3, 5}, 2, false},
		{"one is free", []int{3, 4}, 2, false},
		{"thirds", []int{2, 3, 3}, 3, true},
		{"a former relay still has some", []int{2, 3, 3}, 2, false},
		{"none", nil, 1, false},
	} {
		if got := (shares{lanes: 8, held: c.held}).fair(c.n); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestPollEndsWithTheAnswerTheErrorOrTheLimit(t *testing.T) {
	t.Parallel()
	n := 0
	if err := poll(t.Context(), time.Minute, func() (bool, error) { n++; return n == 3, nil }); err != nil || n != 3 {
		t.Errorf("got %v after %d questions, want none after 3", err, n)
	}
	broken := errors.New("broken")
	if err := poll(t.Context(), time.Minute, func() (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if err := poll(t.Context(), time.Millisecond, func() (bool, error) { return false, nil }); err == nil || !strings.Contains(err.Error(), "1ms") {
		t.Errorf("got %v, want one that names the limit", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := poll(ctx, time.Minute, func() (bool, error) { return false, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's", err)
	}
}

func TestARelayThatEndsByItselfIsNoticedWithWhatItSaid(t *testing.T) {
	t.Parallel()
	p, err := start(exec.CommandContext(t.Context(), "sh", "-c", "echo no brokers; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if err := p.alive(); !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "no brokers") {
		t.Errorf("alive: got %v", err)
	}
	if err := p.stop(t.Context()); err == nil || !strings.Contains(err.Error(), "no brokers") {
		t.Errorf("stop: got %v", err)
	}
	p.kill()
}

func TestAStoppedRelayEndsInOrder(t *testing.T) {
	t.Parallel()
	p, err := start(exec.CommandContext(t.Context(), "sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	if err := poll(t.Context(), time.Minute, func() (bool, error) { return p.out.String() == "up\n", p.alive() }); err != nil {
		t.Fatal(err)
	}
	if err := p.stop(t.Context()); err != nil {
		t.Error(err)
	}
}
