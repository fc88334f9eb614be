//go:build integration && unix

package chaos_test

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox/test/chaos/broken"
	"github.com/outbox-relay/outbox/test/chaos/history"
)

// scenario is a short history made to measure: the healthy build comes through it without a finding, a build that is broken in one line does not.
type scenario struct {
	// build is the broken one, caught what the judge must find then.
	build  string
	caught history.Kind
	setup  setup
	play   func(*lab)
}

func scenarios() []scenario {
	return []scenario{
		{"settle-before-ack", history.Unbacked, setup{keys: 5}, killBeforeTheAck},
		{"no-gate", history.Turned, setup{topics: 2}, rejectTheFirstOfTwo},
		{"two-snapshots", history.Turned, setup{keys: 10, args: []string{"--poll-interval", "10ms"}}, fillHolesWhileReading},
		{"client-left-alive", history.Straggler, setup{relays: 2}, cutOffTheOwner},
		{"zombie-parks", history.Parked, setup{relays: 2, args: []string{"--drain-timeout", "60s"}}, delayTheParking},
		{"gives-back-at-once", history.Unexplained, setup{relays: 2, keys: 30}, joinWhileTheBrokersAreSilent},
		{"newer-do-not-wait", history.Turned, setup{relays: 2, keys: 30, args: []string{"--batch-size", "50"}}, inheritABacklog},
		{"wall-clock-only", history.Straggler, setup{relays: 2, shifted: true}, putBackTheClock},
	}
}

func TestABrokenLineIsCaughtAndTheHealthyBuildPasses(t *testing.T) {
	covered := map[string]bool{}
	for _, s := range scenarios() {
		covered[s.build] = true
		t.Run(s.build, s.test)
	}
	for _, name := range broken.Names() {
		if !covered[name] {
			t.Errorf("no scenario catches the build that is broken as %s", name)
		}
	}
}

func (s scenario) test(t *testing.T) {
	t.Run(healthy, func(t *testing.T) {
		if report := s.run(t, healthy); !report.OK() {
			t.Error(report)
		}
	})
	t.Run("broken", func(t *testing.T) {
		report := s.run(t, s.build)
		if !report.Has(s.caught) {
			t.Errorf("the judge finds nothing of the kind %q:\n%s", s.caught, report)
		}
		t.Log("caught: ", report.Summary())
	})
}

func (s scenario) run(t *testing.T, build string) *history.Report {
	t.Helper()
	s.setup.build = build
	l := newLab(t, s.setup)
	l.relays[0].start()
	for _, stream := range l.streams {
		l.mustWrite(stream, 1)
	}
	l.settled("the first events")
	s.play(l)
	return l.judge()
}

// while waits for what happens only in a broken build. A healthy one costs it nothing but time; a broken one is to show it, however busy the machine is.
func (l *lab) while(holds func() bool) {
	limit := 3 * time.Second
	if build := l.relays[0].build; build != healthy && build != broken.Shifted {
		limit = time.Minute
	}
	poll(limit, holds)
}

func (l *lab) mustWrite(s history.Stream, n int) {
	l.t.Helper()
	if err := l.write(l.t.Context(), change{events: map[history.Stream]int{s: n}}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) settled(what string) {
	l.t.Helper()
	l.await(what+" are settled", func() bool { return l.unpublished() == 0 })
}
