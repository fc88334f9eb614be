//go:build integration && unix

package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/test/chaos/broken"
	"github.com/outbox-relay/outbox/test/chaos/history"
)

// step is one fault of a plan.
type step struct {
	kind kind
	// wait is the time since the step before has begun, lasts how long the fault lasts.
	wait, lasts time.Duration
	// relay and node are whom it meets, both from 0 on; dice decides the rest.
	relay, node, dice int
}

// plan is what is to happen, one after the other; a fault begins when its time has come and those before it on the same target are over.
type plan []step

// newPlan draws faults until their waits fill the time, none that would last for longer than that. It depends on nothing but its arguments.
func newPlan(r *rand.Rand, length time.Duration, relays, nodes int) plan {
	var possible []kind
	weights := 0
	for _, k := range kinds() {
		if k.nodes <= nodes && k.shortest <= length {
			possible = append(possible, k)
			weights += k.weight
		}
	}
	var p plan
	for total := time.Duration(0); total < length; {
		s := step{wait: time.Second + time.Duration(r.Int64N(int64(4*time.Second))), relay: r.IntN(relays), node: r.IntN(nodes), dice: r.IntN(1 << 20)}
		draw := r.IntN(weights)
		for _, k := range possible {
			if draw -= k.weight; draw < 0 {
				s.kind = k
				break
			}
		}
		s.lasts = s.kind.shortest
		if spread := s.kind.longest - s.kind.shortest; spread > 0 {
			s.lasts += time.Duration(r.Int64N(int64(spread)))
		}
		p = append(p, s)
		total += s.wait
	}
	return p
}

func (p plan) String() string {
	var b strings.Builder
	at := time.Duration(0)
	for i, s := range p {
		at += s.wait
		fmt.Fprintf(&b, "%3d  %8s  %s\n", i+1, at.Round(ms), s.what())
	}
	return b.String()
}

// builds are those that the plan needs.
func (p plan) builds() (names []string) {
	for _, s := range p {
		names = append(names, s.kind.builds...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// follow goes through the plan and returns when everything is mended. What waits for a fault on the same target holds up nothing else.
func (l *lab) follow(p plan) {
	places := map[string]chan step{}
	var all sync.WaitGroup
	for _, s := range p {
		<-time.After(s.wait)
		if places[s.place()] == nil {
			steps := make(chan step, len(p))
			places[s.place()] = steps
			all.Go(func() {
				for s := range steps {
					l.inflict(s)
				}
			})
		}
		places[s.place()] <- s
	}
	for _, steps := range places {
		close(steps)
	}
	all.Wait()
}

// place is the name of what the step breaks.
func (s step) place() string {
	switch s.kind.target {
	case theDatabase, theBrokers:
		return fmt.Sprint(s.kind.target)
	}
	return fmt.Sprint(s.kind.target, s.relay)
}

// afterglow is how long after a fault its effects may still begin: a relay notices late, on a busy machine later.
const afterglow = 2 * time.Second

func (l *lab) inflict(s step) {
	over := l.begin(history.Fault{What: s.what(), Repeats: s.kind.repeats, Freezes: s.kind.freezes})
	mend := s.kind.begin(l, s)
	if mend != nil {
		<-time.After(s.lasts)
		mend()
	}
	if s.kind.repeats {
		<-time.After(afterglow)
	}
	over()
}

func TestAPlanFollowsFromItsSeedAndHasEveryFault(t *testing.T) {
	draw := func(seed uint64) plan { return newPlan(rand.New(rand.NewPCG(seed, 0)), 2*time.Hour, slots, 3) }
	one := draw(1)
	if again := draw(1); again.String() != one.String() {
		t.Errorf("the same seed gives another plan:\n%s\n%s", one, again)
	}
	if other := draw(2); other.String() == one.String() {
		t.Error("another seed gives the same plan")
	}
	for _, k := range kinds() {
		if !slices.ContainsFunc(one, func(s step) bool { return s.kind.name == k.name && s.kind.target == k.target }) {
			t.Errorf("two hours without %q of target %d", k.name, k.target)
		}
	}
	for _, s := range newPlan(rand.New(rand.NewPCG(1, 0)), 30*time.Second, slots, 3) {
		if s.lasts > 30*time.Second {
			t.Fatalf("half a minute has room for %s", s.what())
		}
	}
	if builds := one.builds(); !slices.Equal(builds, []string{broken.Shifted}) {
		t.Errorf("the plan needs the builds %q", builds)
	}
	for _, s := range newPlan(rand.New(rand.NewPCG(1, 0)), 2*time.Hour, slots, 1) {
		if s.kind.nodes > 1 || s.node > 0 {
			t.Fatalf("one broker is asked for %s", s.what())
		}
	}
}
