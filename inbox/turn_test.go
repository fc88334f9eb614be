package inbox

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stated is an error with an SQLSTATE.
type stated string

func (s stated) Error() string { return "says " + string(s) }

func (s stated) SQLState() string { return string(s) }

// deskOf is a processor whose handler of type "own" is fn.
func deskOf(t *testing.T, cfg Config, fn func(ctx context.Context) error) *Processor[struct{}] {
	t.Helper()
	h := NewHandlers[struct{}]()
	On(h, "own", func(ctx context.Context, _ struct{}, _ Event[[]byte]) error { return fn(ctx) })
	p, err := NewProcessor("desk", Store[struct{}](stuckStore{}), h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestATransactionThatLosesIsMadeAgainAfterAPauseThatGrows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		p := deskOf(t, Config{}, func(context.Context) error {
			at = append(at, time.Now())
			return stated("40001")
		})
		if out := p.Handle(t.Context(), []*Record{event("1", "own")}); !errors.Is(out[0].Err, errConflict) || len(at) != conflictTries {
			t.Fatalf("after %d tries: %v", len(at), out[0].Err)
		}
		for i, most := range []time.Duration{5, 10, 20, 40} {
			if d := at[i+1].Sub(at[i]); d < most*time.Millisecond/2 || d > most*time.Millisecond {
				t.Errorf("pause %d is %s, want half of %d ms to all of it", i, d, most)
			}
		}
	})
}

// A server that was restarted in the middle of a handler is there again: no attempt is spent. A record that ends its session does it every time.
func TestWhatLooksLikeAServerThatIsAwayIsTheRecordsOwnTheSecondTime(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"57P01", "25P03", "53000", "08006"} {
		for failures, want := range map[int]string{1: "", 2: "says " + state} {
			tries := 0
			p := deskOf(t, Config{}, func(context.Context) error {
				if tries++; tries <= failures {
					return stated(state)
				}
				return nil
			})
			out := p.Handle(t.Context(), []*Record{event("1", "own")})
			if state == "25P03" {
				want = "says 25P03" // its connection is not broken here: an error like any other
			}
			switch err := out[0].Err; {
			case errors.Is(err, ErrUnavailable), (err == nil) != (want == ""), err != nil && !strings.Contains(err.Error(), want):
				t.Errorf("%s, %d times: %v", state, failures, err)
			}
		}
	}
}

func TestAHandlerThatDoesNotEndIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		hold := make(chan struct{})
		p := deskOf(t, Config{Timeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(context.Context) error {
			<-hold
			return nil
		})
		go p.Handle(t.Context(), []*Record{event("1", "own")})
		sleep(time.Minute)
		if got := log.String(); strings.Count(got, "does not end") != 1 || !strings.Contains(got, `record="t, partition 0, offset 0"`) {
			t.Errorf("logged %q", got)
		}
		close(hold)
		synctest.Wait()
	})
}
