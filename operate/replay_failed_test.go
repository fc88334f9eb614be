package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// choosy is a publisher that refuses the events whose ids divide by every.
type choosy struct {
	sink
	every int64
}

func (c *choosy) Republish(ctx context.Context, events []Settled, mark string) ([]error, error) {
	errs, err := c.sink.Republish(ctx, events, mark)
	for i, e := range events {
		if e.ID%c.every == 0 && errs[i] == nil {
			errs[i] = fmt.Errorf("the record has %d bytes uncompressed, of at most 500", 1000+e.ID)
		}
	}
	return errs, err
}

func failingReplay(t *testing.T, c *crowd, p Publisher, refs []Ref) (r Report, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := Bulk{Verb: VerbReplay, Events: &EventFilter{Refs: refs}, Reason: "lost by ann's consumer"}
		r, err = serviceOf(t, c).Replay(t.Context(), ann, b, 1_000, Confirmed{Any: true}, p, nil)
	})
	return r, err
}

// Going on behind the last that was tried would drop those that failed for good.
func TestAReplayNamesTheEventsThatFailed(t *testing.T) {
	t.Parallel()
	c := &crowd{matches: 1_000}
	r, err := failingReplay(t, c, &choosy{every: 300}, nil)
	const again = `when what failed is mended: outbox replay 300 600 900 --reason 'lost by ann'\''s consumer'`
	if err != nil || !slices.Equal(r.FailedIDs, []string{"300", "600", "900"}) || r.MoreFailedIDs != 0 || r.Again != again {
		t.Errorf("report %+v, %v", r, err)
	}
	// The audit, the job's note, and what is found if the process is killed.
	for what, text := range map[string]string{"audit": c.ended[1], "job": c.note, "place": c.place} {
		if !strings.HasSuffix(text, "; "+again) {
			t.Errorf("%s: %q, want the command behind it", what, text)
		}
	}
}

func TestAReplayCountsTheFailedEventsThatItDoesNotName(t *testing.T) {
	t.Parallel()
	r, err := failingReplay(t, &crowd{matches: 1_000}, &choosy{every: 2}, nil)
	if err != nil || len(r.FailedIDs) != 100 || r.FailedIDs[99] != "200" || r.MoreFailedIDs != 400 ||
		!strings.HasSuffix(r.Again, "; and 400 more that failed: the same filter with --min-id 202 --max-id 1000 has them, and what was published between them") {
		t.Errorf("report %+v, %v", r, err)
	}
}

// Of a page whose client was lost nothing is known: going on tries all of it again.
func TestAReplayThatLosesItsClientNamesOnlyWhatGoingOnLeavesOut(t *testing.T) {
	t.Parallel()
	r, err := failingReplay(t, &crowd{matches: 1_000}, &choosy{sink{loseAt: 3}, 60}, nil)
	if err == nil || !strings.Contains(err.Error(), "go on with --min-id 201") || !slices.Equal(r.FailedIDs, []string{"60", "120", "180"}) {
		t.Errorf("report %+v, %v", r, err)
	}
}

func TestAReplayShowsTheLargestSizeThatFailed(t *testing.T) {
	t.Parallel()
	r, err := failingReplay(t, &crowd{matches: 1_000}, &choosy{every: 300}, nil)
	if want := "[{the record has up to 1900 bytes uncompressed, of at most 500 3 []}]"; err != nil || fmt.Sprint(r.Reasons) != want {
		t.Errorf("reasons %v, %v; want %s", r.Reasons, err, want)
	}
	r, err = failingReplay(t, &crowd{matches: 1_000}, &choosy{every: 600}, nil)
	if want := "[{the record has 1600 bytes uncompressed, of at most 500 1 []}]"; err != nil || fmt.Sprint(r.Reasons) != want {
		t.Errorf("reasons %v, %v; want %s", r.Reasons, err, want)
	}
}

func TestAPlanOfAReplaySaysThatItsRecordsAreLarger(t *testing.T) {
	t.Parallel()
	plan, err := serviceOf(t, &crowd{matches: 10}).Plan(t.Context(), ann, Bulk{Verb: VerbReplay, Events: &EventFilter{}, Reason: "x"}, nil)
	if notes := strings.Join(plan.Notes, "\n"); err != nil || !strings.Contains(notes, "the header x-outbox-replay makes each record up to 38 bytes larger than the relay's was") {
		t.Errorf("notes %s, %v", notes, err)
	}
}

// What is named and cannot, or is not there, counts in the job as it does in what the command says.
func TestAJobCountsWhatItsCommandCounts(t *testing.T) {
	t.Parallel()
	c := &crowd{matches: 1, found: []Target{{ID: 1, State: StatePublished}, {ID: 2, State: StateDead}}, missing: []Ref{{ID: 3}}}
	r, err := failingReplay(t, c, &sink{}, []Ref{{ID: 1}, {ID: 2}, {ID: 3}})
	if err != nil || r.Total != 3 || r.Done != 1 || r.Failed != 1 || r.NotFound != 1 || c.total != 3 {
		t.Errorf("report %+v, %v; the job began with %d", r, err, c.total)
	}
	if want := "[{it is dead: outbox events restore puts it back 1 [2]}]"; fmt.Sprint(r.Reasons) != want {
		t.Errorf("reasons %v, want %s", r.Reasons, want)
	}
	if want := "job: 1, 1, done"; c.ended[0] != want {
		t.Errorf("the job ended with %q, want %q", c.ended[0], want)
	}
	if want := "1 done, 1 failed, 1 not found; it is dead: outbox events restore puts it back"; c.note != want {
		t.Errorf("the job's note is %q, want %q", c.note, want)
	}
}

// late is a publisher whose first call takes long, as with a client that has to get to know the topics, and that counts what comes in the second after that.
type late struct {
	sink
	over  time.Time
	after int
}

func (l *late) Republish(ctx context.Context, events []Settled, mark string) ([]error, error) {
	if l.calls == 0 {
		rest(ctx, 900*time.Millisecond)
		l.over = time.Now()
	} else if time.Since(l.over) < time.Second {
		l.after += len(events)
	}
	return l.sink.Republish(ctx, events, mark)
}

func TestAReplayDoesNotBeginWithABurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &late{}
		b := Bulk{Verb: VerbReplay, Events: &EventFilter{}, Reason: "x"}
		r, err := serviceOf(t, &crowd{matches: 5_000}).Replay(t.Context(), ann, b, 500, Confirmed{Any: true}, p, nil)
		if err != nil || r.Done != 5_000 || p.after > 500 || p.after < 400 {
			t.Errorf("%d in the second after the first page, at 500 a second: %+v, %v", p.after, r, errors.Join(err))
		}
	})
}
