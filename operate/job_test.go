package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// crowd is a store of many things that match, whose requests are carried out some at a time.
type crowd struct {
	Lookups
	Changes
	// matches are there; perLook of the open ones are done with each look at a batch.
	matches, perLook int64
	asked, open      int64
	mostOpen         int64
	batches          map[int64]Tally
	ended            []string
	cancelled        bool
	failAsking       error
	failAudit        error
	reported         int
	seen             atomic.Int64
	audited          []string
	overtaken        Overtaken
	letter           string
	late             Answer
	withdrawn        bool
	code             string
	failWithdraw     error
	failOvertaken    error
	whileAsked       func()
	place            string
	replayable       bool
	running          []JobEntry
	found            []Target
	missing          []Ref
	total            int64
	note             string
}

func (c *crowd) StartAudit(_ context.Context, a AuditStart) (int64, error) {
	c.audited = append(c.audited, fmt.Sprintf("%s %s %s", a.Actor, a.Verb, a.Filter))
	return 1, c.failAudit
}

func (c *crowd) EndAudit(ctx context.Context, _, affected, job int64, outcome string) error {
	c.ended = append(c.ended, fmt.Sprintf("audit: %d of job %d: %s", affected, job, outcome))
	return ctx.Err()
}

func (c *crowd) StartJob(_ context.Context, j JobStart) (int64, error) {
	c.total = j.Total
	return 7, nil
}

func (c *crowd) Jobs(_ context.Context, _ time.Duration, q JobQuery) (JobPage, error) {
	if q.State != JobRunning || q.Verb == nil || *q.Verb != string(VerbRedrive) {
		return JobPage{}, fmt.Errorf("asked for %+v", q)
	}
	return JobPage{Jobs: c.running}, nil
}

func (c *crowd) Pauses(context.Context, time.Duration) ([]Pause, error) { return nil, nil }

func (c *crowd) SeeJob(context.Context, int64) error {
	c.seen.Add(1)
	return nil
}

func (c *crowd) ReportJob(_ context.Context, _, _, _ int64, note string) (bool, error) {
	c.reported++
	c.place = note
	return c.cancelled, nil
}

func (c *crowd) EndJob(ctx context.Context, _, done, failed int64, state, note string) error {
	c.note = note
	c.ended = append(c.ended, fmt.Sprintf("job: %d, %d, %s", done, failed, state))
	return ctx.Err()
}

func (c *crowd) CancelJob(ctx context.Context, _ int64, _ string) error {
	for first, b := range c.batches {
		b.Cancelled += b.Open
		c.open -= b.Open
		b.Open = 0
		c.batches[first] = b
	}
	return ctx.Err()
}

func (c *crowd) Match(_ context.Context, _ Bulk, at Cursor, limit int) (Matched, error) {
	n := min(int64(limit), c.matches-at.ID)
	m := Matched{Count: n, Looked: n, Last: at.ID + n, Topics: map[string]int64{"shop.order": n}, Next: Cursor{ID: at.ID + n, End: at.ID+n >= c.matches}}
	if c.letter != "" {
		m.Letters = map[string]int64{c.letter: n}
	}
	return m, nil
}

func (c *crowd) AskMatching(_ context.Context, _ int64, _ Bulk, _ string, at Cursor, limit int) (Asked, error) {
	if c.failAsking != nil && at.ID > 0 {
		return Asked{}, c.failAsking
	}
	n := min(int64(limit), c.matches-at.ID)
	if c.batches == nil {
		c.batches = map[int64]Tally{}
	}
	c.batches[at.ID+1] = Tally{Open: n}
	c.asked += n
	c.open += n
	c.mostOpen = max(c.mostOpen, c.open)
	return Asked{Count: n, First: at.ID + 1, Last: at.ID + n, Next: Cursor{ID: at.ID + n, End: at.ID+n >= c.matches}}, nil
}

func (c *crowd) Tally(_ context.Context, _, first, _ int64) (Tally, error) {
	b := c.batches[first]
	n := min(b.Open, c.perLook)
	b.Open, b.Done = b.Open-n, b.Done+n
	c.open -= n
	if b.Open == 0 {
		delete(c.batches, first)
	} else {
		c.batches[first] = b
	}
	return b, nil
}

func (c *crowd) Settled(_ context.Context, _ Bulk, at Cursor, limit int) (SettledPage, error) {
	n := min(int64(limit), c.matches-at.ID)
	events := make([]Settled, n)
	for i := range events {
		events[i].ID = at.ID + int64(i) + 1
	}
	return SettledPage{Events: events, Next: Cursor{ID: at.ID + n, End: at.ID+n >= c.matches}}, nil
}

func (c *crowd) Find(context.Context, []Ref) ([]Target, []Ref, error) {
	if c.found != nil {
		return c.found, c.missing, nil
	}
	if c.replayable {
		return []Target{{ID: 1, State: StatePublished}}, nil, nil
	}
	return []Target{{ID: 1, State: StateDead, Letter: c.letter, Code: c.code}}, nil, nil
}

func (c *crowd) Overtaken(context.Context, Target) (Overtaken, error) { return c.overtaken, nil }

func (c *crowd) OvertakenOf(_ context.Context, _ Bulk, at Cursor, limit int) (OvertakenPage, error) {
	var p OvertakenPage
	for i := at.ID; i < min(at.ID+int64(limit), c.matches); i++ {
		answer := []Overtaken{OvertakenYes, OvertakenNo, OvertakenYes, OvertakenUnknown}[i%4]
		if c.overtaken != "" {
			answer = c.overtaken
		}
		p.Events = append(p.Events, OvertakenEvent{"shop.order", fmt.Sprintf("key %d", i%40), answer})
	}
	p.Next = Cursor{ID: at.ID + int64(len(p.Events)), End: at.ID+int64(len(p.Events)) >= c.matches}
	return p, c.failOvertaken
}

func (c *crowd) Ask(ctx context.Context, _ int64, _ Verb, _ Target, _, _ string) (int64, error) {
	if c.whileAsked != nil {
		c.whileAsked()
	}
	return 1, ctx.Err()
}

func (c *crowd) Delay(context.Context, int64) (string, error) { return "nobody is there", nil }

func (c *crowd) Withdraw(context.Context, int64, string) (Answer, bool, error) {
	return c.late, c.withdrawn, c.failWithdraw
}

func (c *crowd) Answer(ctx context.Context, _ int64) (Answer, error) {
	<-ctx.Done()
	return Answer{}, ctx.Err()
}

var ann = Actor{Name: "ann", Role: Operator}

func serviceOf(t *testing.T, c *crowd) *Service {
	t.Helper()
	s, err := New(c, nil, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAMillionMatchesAreAskedForInBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{matches: 1_000_000, perLook: 1_000}
		last := Progress{}
		r, err := serviceOf(t, c).Run(t.Context(), ann, Bulk{Verb: VerbUnpark, Keys: &KeyFilter{}}, Confirmed{Count: 1_000_000}, func(p Progress) {
			if p.Job != 0 && p.Done < last.Done {
				t.Errorf("progress goes back from %+v to %+v", last, p)
			}
			if p.Job != 0 {
				last = p
			}
		})
		if err != nil || r.Done != 1_000_000 || r.State != JobDone || last.Done != 1_000_000 {
			t.Errorf("report %+v, last progress %+v, %v", r, last, err)
		}
		if c.mostOpen > openAtMost || c.asked != 1_000_000 {
			t.Errorf("%d were open at a time, %d asked", c.mostOpen, c.asked)
		}
		if c.reported == 0 {
			t.Error("the job never said how far it is")
		}
	})
}

func TestNoMoreIsTouchedThanWasConfirmed(t *testing.T) {
	t.Parallel()
	c := &crowd{matches: 100, perLook: 1_000}
	s := serviceOf(t, c)
	_, err := s.Run(t.Context(), ann, Bulk{Verb: VerbUnpark, Keys: &KeyFilter{}}, Confirmed{Count: 99}, nil)
	if plan, ok := PlanOf(err); CodeOf(err) != CodeUnconfirmed || !ok || plan.Count != 100 || c.asked != 0 {
		t.Errorf("%v, %+v, %d asked", err, plan, c.asked)
	}
	_, err = s.Run(t.Context(), ann, Bulk{Verb: VerbUnpark, Keys: &KeyFilter{}}, Confirmed{}, nil)
	if CodeOf(err) != CodeUnconfirmed {
		t.Errorf("nothing confirmed: %v", err)
	}
}

func TestWithoutItsAuditNothingIsChanged(t *testing.T) {
	t.Parallel()
	c := &crowd{matches: 100, perLook: 1_000, failAudit: errors.New("no room")}
	_, err := serviceOf(t, c).Run(t.Context(), ann, Bulk{Verb: VerbUnpark, Keys: &KeyFilter{}}, Confirmed{Any: true}, nil)
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") || c.asked != 0 {
		t.Errorf("%v, %d asked", err, c.asked)
	}
}

// What was asked for before an error is taken back, counted and written down.
func TestAJobThatFailsLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{matches: 20_000, perLook: 100, failAsking: errors.New("connection reset")}
		r, err := serviceOf(t, c).Run(t.Context(), ann, Bulk{Verb: VerbUnpark, Keys: &KeyFilter{}}, Confirmed{Any: true}, nil)
		if err == nil || r.State != JobFailed || c.open != 0 || r.Done+r.Untouched != 20_000 || !strings.Contains(r.Note, "connection reset") {
			t.Errorf("report %+v, %d open, %v", r, c.open, err)
		}
		if len(c.ended) != 2 || !strings.Contains(c.ended[1], "connection reset") {
			t.Errorf("ends written down: %q", c.ended)
		}
	})
}

// An interrupt in the middle of waiting ends the job with what happened, and the audit is completed though the context is over.
func TestAnInterruptIsWrittenDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{matches: 10, perLook: 0}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := serviceOf(t, c).Run(ctx, ann, Bulk{Verb: VerbUnpark, Keys: &KeyFilter{}}, Confirmed{Any: true}, nil)
		if err != nil || r.State != JobCancelled || r.Untouched != 10 || c.open != 0 {
			t.Errorf("report %+v, %v", r, err)
		}
		if want := []string{"job: 0, 0, cancelled", "audit: 0 of job 7: 0 done, 10 untouched"}; fmt.Sprint(c.ended) != fmt.Sprint(want) {
			t.Errorf("ends %q, want %q", c.ended, want)
		}
	})
}

// sink is a publisher that loses its client after some calls.
type sink struct{ calls, loseAt, sent int }

func (s *sink) Open(context.Context) error { return nil }
func (s *sink) Close()                     {}
func (s *sink) Republish(_ context.Context, events []Settled, _ string) ([]error, error) {
	s.calls++
	errs := make([]error, len(events))
	if s.calls == s.loseAt {
		for i := range errs {
			errs[i] = errors.New("may be in Kafka or not")
		}
		return errs, errors.New("the client is gone")
	}
	s.sent += len(events)
	return errs, nil
}

func TestAReplayKeepsToItsRate(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{1, 7, 1_000, 20_000} {
		synctest.Test(t, func(t *testing.T) {
			c, p, began := &crowd{matches: int64(rate) * 10}, &sink{}, time.Now()
			r, err := serviceOf(t, c).Replay(t.Context(), ann, Bulk{Verb: VerbReplay, Events: &EventFilter{}, Reason: "x"}, rate, Confirmed{Any: true}, p, nil)
			if took := time.Since(began); err != nil || r.Done != c.matches || took < 9*time.Second || took > 11*time.Second {
				t.Errorf("%d events at %d a second took %s: %+v, %v", c.matches, rate, took, r, err)
			}
		})
	}
}

// slow is a publisher that is held up once, and counts what it sends in the second after that.
type slow struct {
	sink
	holdAt    int
	over      time.Time
	sentAfter int
}

func (s *slow) Republish(ctx context.Context, events []Settled, mark string) ([]error, error) {
	if s.calls+1 == s.holdAt {
		rest(ctx, 20*time.Second)
		s.over = time.Now()
	} else if !s.over.IsZero() && time.Since(s.over) <= time.Second {
		s.sentAfter += len(events)
	}
	return s.sink.Republish(ctx, events, mark)
}

// Brokers that were away for a while must not bring the consumers a flood afterwards.
func TestAReplayThatWasHeldUpDoesNotMakeUpForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &slow{holdAt: 5}
		r, err := serviceOf(t, &crowd{matches: 10_000}).Replay(t.Context(), ann, Bulk{Verb: VerbReplay, Events: &EventFilter{}, Reason: "x"}, 100, Confirmed{Any: true}, p, nil)
		if err != nil || r.Done != 10_000 || p.sentAfter > 220 || p.sentAfter < 100 {
			t.Errorf("%d in the second after 20 s without an answer, at 100 a second: %+v, %v", p.sentAfter, r, err)
		}
	})
}

func TestAReplayWritesDownWhereToGoOnIfItIsKilled(t *testing.T) {
	t.Parallel()
	for want, refs := range map[string][]Ref{"everything up to id 1000 was tried, and some behind it may be: go on with --min-id 1001": nil, "everything up to id 1 was tried, and some behind it may be: go on with the larger ids": {{ID: 1}}} {
		synctest.Test(t, func(t *testing.T) {
			c := &crowd{matches: 1_000, replayable: true}
			_, err := serviceOf(t, c).Replay(t.Context(), ann, Bulk{Verb: VerbReplay, Events: &EventFilter{Refs: refs}, Reason: "x"}, 100, Confirmed{Any: true}, &sink{}, nil)
			if err != nil || c.place != want {
				t.Errorf("%q, %v; want %q", c.place, err, want)
			}
		})
	}
}

func TestAReplayThatLosesItsClientSaysWhereToGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, p := &crowd{matches: 1_000}, &sink{loseAt: 3}
		r, err := serviceOf(t, c).Replay(t.Context(), ann, Bulk{Verb: VerbReplay, Events: &EventFilter{}, Reason: "x"}, 1_000, Confirmed{Any: true}, p, nil)
		if err == nil || r.State != JobFailed || r.Done != 200 || r.Failed != 100 || r.Untouched != 700 {
			t.Errorf("report %+v, %v", r, err)
		}
	})
}

// The request may be committed when its command is interrupted and has not been told its number.
func TestACommandInterruptedWhileItAsksTakesItsRequestBack(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	c := &crowd{overtaken: OvertakenNo, withdrawn: true, whileAsked: interrupt}
	_, err := serviceOf(t, c).Act(ctx, ann, Action{Verb: VerbRestore, Event: Ref{ID: 1}, Wait: time.Hour})
	if CodeOf(err) != CodeUnavailable || !strings.Contains(err.Error(), "the request was taken back, and nothing was changed") {
		t.Errorf("the error is %v", err)
	}
}

func TestASingleRequestIsTakenBackWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, w := range map[string]struct {
			answer    Answer
			withdrawn bool
			err       error
			code      Code
			audit     string
		}{
			"in time":        {withdrawn: true, code: CodeUnavailable, audit: "restore event 1: the request was taken back, and nothing was changed: not carried out within 1m0s: nobody is there"},
			"too late":       {answer: Answer{Text: "restored"}, audit: "restored"},
			"refused":        {answer: Answer{Problem: "it is not there"}, code: CodeConflict, audit: "restore event 1: it is not there"},
			"nobody can say": {err: errors.New("no database"), code: CodeUnavailable},
		} {
			c, began := &crowd{overtaken: OvertakenNo, late: w.answer, withdrawn: w.withdrawn, failWithdraw: w.err}, time.Now()
			text, err := serviceOf(t, c).Act(t.Context(), ann, Action{Verb: VerbRestore, Event: Ref{ID: 1}, Wait: time.Minute})
			if CodeOf(err) != w.code || text != w.answer.Text || time.Since(began) != time.Minute {
				t.Errorf("%s: after %s: %q, %v", name, time.Since(began), text, err)
			}
			// A row that nobody can complete stays open, for the request to complete it.
			if ended := strings.Join(c.ended, ""); !strings.HasSuffix(ended, w.audit) || (w.audit == "") != (ended == "") {
				t.Errorf("%s: the audit was completed with %q, want %q", name, ended, w.audit)
			}
		}
	})
}

// A replay of many hours that is cut short is not begun anew.
func TestACancelledReplaySaysWhereToGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &crowd{matches: 10_000}
		r, err := serviceOf(t, c).Replay(ctx, ann, Bulk{Verb: VerbReplay, Events: &EventFilter{}, Reason: "x"}, 1_000, Confirmed{Any: true}, &sink{}, func(p Progress) {
			if p.Job != 0 && p.Done >= 300 {
				cancel()
			}
		})
		if err != nil || r.State != JobCancelled || r.Untouched == 0 || r.LastID != r.Done || !strings.Contains(r.Note, fmt.Sprintf("everything up to id %d was tried: go on with --min-id %d", r.LastID, r.LastID+1)) {
			t.Errorf("report %+v, %v", r, err)
		}
		if ended := strings.Join(c.ended, "\n"); !strings.Contains(ended, "go on with --min-id") {
			t.Errorf("the audit has %s", ended)
		}
	})
}

// What died of an error dies of it again.
func TestARestoreWarnsOfWhatFailsAgain(t *testing.T) {
	t.Parallel()
	for code, warns := range map[string]bool{"SKIPPED": false, "DEAD": false, "": false, "MESSAGE_TOO_LARGE": true} {
		dead := Target{ID: 1, State: StateDead, Code: code}
		b := Bulk{Verb: VerbRestore, Events: &EventFilter{}, Only: []Target{dead}}
		if got := strings.Contains(fmt.Sprint(b.notes()), "fails again"); got != warns {
			t.Errorf("%q: notes %q", code, b.notes())
		}
		c := &crowd{overtaken: OvertakenNo, code: code, late: Answer{Text: "restored"}}
		synctest.Test(t, func(t *testing.T) {
			text, err := serviceOf(t, c).Act(t.Context(), ann, Action{Verb: VerbRestore, Event: Ref{ID: 1}})
			if err != nil || strings.Contains(text, "it had failed with MESSAGE_TOO_LARGE: if the cause is still there it fails again") != warns {
				t.Errorf("%q: %q, %v", code, text, err)
			}
		})
		// Whoever is asked is told so before he answers.
		_, err := serviceOf(t, &crowd{overtaken: OvertakenYes, code: code}).Act(t.Context(), ann, Action{Verb: VerbRestore, Event: Ref{ID: 1}})
		plan, asked := PlanOf(err)
		if !asked || strings.Contains(err.Error(), "fails again") != warns || strings.Contains(fmt.Sprint(plan.Notes), "fails again") != warns {
			t.Errorf("%q: asked by %v, %q", code, err, plan.Notes)
		}
	}
	for _, verb := range []Verb{VerbSkip, VerbDead} {
		if notes := fmt.Sprint((Bulk{Verb: verb, Events: &EventFilter{}}).notes()); !strings.Contains(notes, "fails again then unless its cause is mended") {
			t.Errorf("%s: notes %s", verb, notes)
		}
	}
	if !strings.Contains(fmt.Sprint((Bulk{Verb: VerbRestore, Events: &EventFilter{}}).notes()), "fails again") {
		t.Error("a filter that may find such events warns of nothing")
	}
}

func TestTheAuditOfAPruneHasReadableAges(t *testing.T) {
	t.Parallel()
	dead := 90 * time.Minute
	text, err := json.Marshal(Prune{Events: &PruneEvents{OlderThan: 168 * time.Hour, Keep: 5}, Dead: &dead, Partitions: &PrunePartitions{}}.audited())
	if want := `{"dead":{"older_than":"1h30m"},"events":{"keep":5,"older_than":"168h"},"partitions":{"ahead":0,"older_than":"0s"}}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

func TestARestoreThatMayOvertakeAsksFirst(t *testing.T) {
	t.Parallel()
	for _, answer := range []Overtaken{OvertakenYes, OvertakenUnknown, OvertakenRowsGone} {
		c := &crowd{overtaken: answer}
		_, err := serviceOf(t, c).Act(t.Context(), ann, Action{Verb: VerbRestore, Event: Ref{ID: 1}})
		if plan, ok := PlanOf(err); CodeOf(err) != CodeUnconfirmed || !ok || plan.Count != 1 {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

func TestARestoreOfWhatIsInADeadLetterTopicAsksFirst(t *testing.T) {
	t.Parallel()
	c := &crowd{overtaken: OvertakenNo, letter: "dead.orders"}
	_, err := serviceOf(t, c).Act(t.Context(), ann, Action{Verb: VerbRestore, Event: Ref{ID: 1}})
	if plan, ok := PlanOf(err); CodeOf(err) != CodeUnconfirmed || !ok || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "dead.orders") {
		t.Errorf("one: %v, plan %+v", err, plan)
	}
	plan, err := serviceOf(t, c).Plan(t.Context(), ann, Bulk{Verb: VerbRestore, Events: &EventFilter{Refs: []Ref{{ID: 1}}}}, func(Progress) {})
	if err != nil || len(plan.Notes) != 2 || !strings.Contains(plan.Notes[1], "dead.orders keeps what was sent there (1 of these events)") {
		t.Errorf("named: %v, notes %q", err, plan.Notes)
	}
}

func TestManyReasonsAreCountedTogether(t *testing.T) {
	t.Parallel()
	j := &job{reasons: reasons{}}
	for i := range 50 {
		j.failed("reason "+string(rune('A'+i)), 2)
	}
	list := j.reasons.list()
	if j.report.Failed != 100 || len(list) != mostReasons+1 || list[0].Text != "other reasons" || list[0].Count != 60 {
		t.Errorf("%d failed, %d reasons, the first %+v", j.report.Failed, len(list), list[0])
	}
}

// Of a replay each record has another size: that is one reason.
func TestReasonsThatDifferInNumbersAreOne(t *testing.T) {
	t.Parallel()
	j := &job{reasons: reasons{}}
	// Small ids are no reasons of their own either.
	for i := range 12 {
		j.failed(fmt.Sprintf("event (id %d) of topic v2.orders waits", i), 1)
	}
	if list := j.reasons.list(); len(list) != 1 || list[0].Text != "event (id …) of topic v2.orders waits" || list[0].Count != 12 {
		t.Errorf("reasons of small ids %+v", list)
	}
	j = &job{reasons: reasons{}}
	for i := range 50 {
		j.failed(fmt.Sprintf("event 0190f6c2-7d1e-7a55-8f0e-2f3c9a3d5b%d: the record has %d bytes", 10+i, 1000+i), 1)
	}
	if list := j.reasons.list(); len(list) != 1 || list[0].Text != "event …: the record has up to 1049 bytes" || list[0].Count != 50 {
		t.Errorf("reasons %+v", list)
	}
}

// Whatever a job waits for, it says that somebody runs it: else relays would leave its requests alone.
func TestAJobThatWaitsIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{matches: 1}
		_, err := serviceOf(t, c).Replay(t.Context(), ann, Bulk{Verb: VerbReplay, Events: &EventFilter{}, Reason: "x"}, 1, Confirmed{Any: true}, &slowly{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := c.seen.Load(); n < 11 || n > 13 {
			t.Errorf("in a minute it was seen %d times", n)
		}
	})
}

// slowly is a publisher whose brokers answer after a minute.
type slowly struct{ Publisher }

func (*slowly) Open(context.Context) error { return nil }

func (*slowly) Close() {}

func (*slowly) Republish(ctx context.Context, events []Settled, _ string) ([]error, error) {
	rest(ctx, time.Minute)
	return make([]error, len(events)), nil
}
