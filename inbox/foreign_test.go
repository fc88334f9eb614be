package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Two groups that read a topic share its retry topics; each would have the other's records handled, and sent on once more.
func TestARunnerIgnoresWhatAnotherConsumerHasSentToARetryTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{handle: func(context.Context, *Record) error { return errors.New("no such account") }}
		s := &shelf{}
		r, stop := running(t, d, s, RunnerConfig{Batch: 4, Retry: Retry{Attempts: 1, Topics: []time.Duration{time.Minute}, GiveUp: DeadLetter}})
		defer stop()
		retry := Partition{"shop.order-retry-60000", 2}
		r.Assign([]Partition{retry})
		from := func(consumer string) []Header {
			return []Header{{HeaderConsumer, []byte(consumer)}, {HeaderNotBefore, []byte(stamp(time.Now().Add(time.Hour)))}}
		}
		all := records(retry, "abcd")
		all[0].Headers, all[1].Headers = from("other"), from("desk")
		all[2].Headers = []Header{{"kafka_original-topic", []byte("shop.order")}}
		all[3].Headers = from("")
		r.Take(all[:1])
		synctest.Wait()
		if n := r.Stats(); n.Ignored != 1 || n.Waiting != 0 {
			t.Errorf("a record of another consumer has the runner at %+v, want it ignored at once", n)
		}
		r.Take(all[1:])
		sleep(2 * time.Hour)
		if got := s.letters(); !slices.Equal(got, []string{"shop.order-dlt c:2", "shop.order-dlt b:1"}) || r.Stats().Ignored != 2 || s.upTo(retry) != 4 {
			t.Errorf("sent %v, committed up to %d, %+v; want one's own and Spring's sent on", got, s.upTo(retry), r.Stats())
		}
		plain := records(first, "a")
		plain[0].Headers = from("other")
		r.Take(plain)
		sleep(time.Second)
		if got := s.letters(); len(got) != 3 {
			t.Errorf("sent %v: a record of the topic itself is everyone's, whatever its headers say", got)
		}
	})
}

func TestRecordsOfAnotherConsumerDoNotShiftTheOutcomesOfOnesOwn(t *testing.T) {
	t.Parallel()
	d := &desk{handle: func(_ context.Context, r *Record) error {
		if string(r.Key) == "c" {
			return errors.New("no such account")
		}
		return nil
	}}
	r, err := NewRunner(d, &shelf{}, RunnerConfig{Retry: Retry{Topics: []time.Duration{time.Minute}, GiveUp: Skip}})
	if err != nil {
		t.Fatal(err)
	}
	all := records(Partition{"shop.order-retry-60000", 0}, "abcd")
	all[1].Headers = []Header{{HeaderConsumer, []byte("other")}}
	if got := fmt.Sprint(r.outcomes(t.Context(), all)); got != "[{0 <nil>} {2 <nil>} {0 no such account} {0 <nil>}]" {
		t.Errorf("the outcomes are %s", got)
	}
}
