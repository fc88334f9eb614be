package operate

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var allDead = Bulk{Verb: VerbRestore, Events: &EventFilter{}}

func TestThePlanOfARestoreTellsWhatIsOutAlready(t *testing.T) {
	t.Parallel()
	p, err := serviceOf(t, &crowd{matches: 12_000}).Plan(t.Context(), ann, allDead, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Of 40 keys every second one is overtaken, and of a fourth of all events nobody can say.
	o := p.Overtaken
	if o == nil || o.Events != 6_000 || o.Keys != 20 || o.Unknown != 3_000 || len(o.Named) != overtakenNamed || o.Named[0] != (KeyCount{"shop.order", "key 0", 300}) {
		t.Fatalf("got %+v", o)
	}
	notes := strings.Join(p.Notes, "\n")
	for _, want := range []string{
		`newer events of their keys are published already for 6000 of these events, of 20 keys: restored, they come behind them`,
		"newer events of their keys may be published already for 3000 more",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q lacks %q", notes, want)
		}
	}
}

func TestThePlanOfARestoreSaysWhenNothingIsOut(t *testing.T) {
	t.Parallel()
	p, err := serviceOf(t, &crowd{matches: 3, overtaken: OvertakenNo}).Plan(t.Context(), ann, allDead, nil)
	if err != nil || p.Overtaken.Events+p.Overtaken.Keys+p.Overtaken.Unknown != 0 || p.Notes[0] != "no newer event of their keys is published: they go out in their places" {
		t.Errorf("got %+v, %+v, %v", p.Overtaken, p.Notes, err)
	}
	p, err = serviceOf(t, &crowd{matches: 3}).Plan(t.Context(), ann, Bulk{Verb: VerbSkip, Events: &EventFilter{}, Reason: "x"}, nil)
	if err != nil || p.Overtaken != nil {
		t.Errorf("the plan of a skip: %+v, %v", p.Overtaken, err)
	}
	_, err = serviceOf(t, &crowd{matches: 3, failOvertaken: errors.New("no luck")}).Plan(t.Context(), ann, allDead, nil)
	if err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("got %v", err)
	}
}

// What is not looked at in time is unknown, not well.
func TestWhatIsNotLookedBehindInTimeIsUnknown(t *testing.T) {
	t.Parallel()
	s := serviceOf(t, &crowd{matches: 100_000, overtaken: OvertakenNo})
	clock := time.Time{}
	s.now = func() time.Time {
		clock = clock.Add(overtakenWithin / 2)
		return clock
	}
	p, err := s.Plan(t.Context(), ann, allDead, nil)
	if err != nil || p.Overtaken.Unknown != 100_000-overtakenAtOnce || p.Overtaken.Events != 0 {
		t.Errorf("got %+v, %v", p.Overtaken, err)
	}
}

// A key whose settled rows may be gone has no place that anybody knows.
func TestAPlanDoesNotPromiseThePlaceWhereSettledRowsMayBeGone(t *testing.T) {
	t.Parallel()
	p, err := serviceOf(t, &crowd{matches: 3, overtaken: OvertakenRowsGone}).Plan(t.Context(), ann, allDead, nil)
	if err != nil || p.Overtaken.Events != 0 || p.Overtaken.Unknown != 3 || p.Overtaken.RowsGone != 3 {
		t.Fatalf("got %+v, %v", p.Overtaken, err)
	}
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "for 3 of these events is not known: settled rows of these keys may have been deleted") || strings.Contains(notes, "in their places") || strings.Contains(notes, "too many") {
		t.Errorf("notes %s", notes)
	}
	_, err = serviceOf(t, &crowd{overtaken: OvertakenRowsGone}).Act(t.Context(), ann, Action{Verb: VerbRestore, Event: Ref{ID: 1}})
	if plan, asked := PlanOf(err); !asked || !strings.Contains(err.Error(), "not known: settled rows of its key may have been deleted") || plan.Overtaken == nil || plan.Overtaken.Unknown != 1 {
		t.Errorf("one: %v, plan %+v", err, plan)
	}
}

func TestARestoreByFilterTellsOfDeadLettersWhereThereAreSome(t *testing.T) {
	t.Parallel()
	for letter, want := range map[string]string{"": "", "dead.orders": "the dead-letter topic dead.orders keeps what was sent there (3 of these events): whoever handles it gets it twice"} {
		p, err := serviceOf(t, &crowd{matches: 3, overtaken: OvertakenNo, letter: letter}).Plan(t.Context(), ann, allDead, nil)
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(p.Notes, "\n")
		if !strings.Contains(notes, want) || strings.Contains(notes, "dead-letter") != (letter != "") {
			t.Errorf("sent to %q: notes %s", letter, notes)
		}
	}
}
