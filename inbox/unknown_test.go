package inbox

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestARecordOfAnUnknownTypeGoesToTheDeadLetterTopicAlthoughOthersBlockTheirKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Processor[int]{handlers: NewHandlers[int](), cfg: Config{Unknown: DeadLetterUnknown}.withDefaults()}
		d, s := &desk{}, &shelf{}
		d.handle = func(ctx context.Context, r *Record) error {
			if string(r.Key) == "u" {
				return p.Handle(ctx, []*Record{r})[0].Err
			}
			return Permanent(context.Canceled)
		}
		r, stop := running(t, d, s, RunnerConfig{})
		defer stop()
		r.Take(records(first, "ub"))
		sleep(time.Minute)
		if got := s.letters(); !slices.Equal(got, []string{"shop.order-dlt u:0"}) || s.upTo(first) != 1 {
			t.Errorf("sent %v, committed up to %d, want the unknown one alone", got, s.upTo(first))
		}
	})
}

func TestTheTopologyHasWhatTheHandlingSendsOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unknown      Unknown
		giveUp       GiveUp
		retry, sends []string
	}{
		{IgnoreUnknown, Block, nil, nil},
		{FailUnknown, Block, nil, nil},
		{DeadLetterUnknown, Block, nil, []string{"a-dlt"}},
		{DeadLetterUnknown, Skip, []string{"a-retry-1000"}, []string{"a-dlt"}},
		{IgnoreUnknown, DeadLetter, []string{"a-retry-1000"}, []string{"a-dlt"}},
	} {
		cfg := RunnerConfig{Retry: Retry{GiveUp: c.giveUp}}
		if len(c.retry) > 0 {
			cfg.Retry.Topics = []time.Duration{time.Second}
		}
		read, send := cfg.Topology(&Processor[int]{cfg: Config{Unknown: c.unknown}}, []string{"a"})
		if !slices.Equal(read, c.retry) || !slices.Equal(send, c.sends) {
			t.Errorf("%v, %v: reads %v, sends to %v", c.unknown, c.giveUp, read, send)
		}
	}
}
