//go:build integration && unix

package chaos_test

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/test/chaos/broken"
	"github.com/outbox-relay/outbox/test/chaos/history"
)

// clock is the wall clock of one relay's process, when that is of a build that can be shifted; other builds do not look at it.
type clock struct {
	t    *testing.T
	file *os.File
}

func newClock(t *testing.T, path string) *clock {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	c := &clock{t: t, file: file}
	c.set(0)
	return c
}

// set has the clock be ahead by so much from now on, or behind. Whole seconds count.
func (c *clock) set(ahead time.Duration) {
	if _, err := c.file.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(ahead/time.Second)), 0); err != nil {
		c.t.Errorf("shift a clock: %v", err)
	}
}

// jump sets the clock at once, and again and again, until stopped.
func (c *clock) jump(every time.Duration, next func() time.Duration) (stop func()) {
	c.set(next())
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case <-time.After(every):
				c.set(next())
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

// shifts draws how wrong a clock is, one time after the other: seconds, minutes or hours, ahead or behind, and sometimes right.
func shifts(dice int) func() time.Duration {
	r := rand.New(rand.NewPCG(uint64(dice), 1))
	return func() time.Duration {
		unit := []time.Duration{0, time.Second, time.Second, time.Minute, time.Hour}[r.IntN(5)]
		return unit * time.Duration(r.IntN(59)-29)
	}
}

// shiftClock restarts a relay on a machine whose wall clock is wrong, and jumps. Then it comes back where the clock is right.
func shiftClock(l *lab, s step) func() {
	r := l.relays[s.relay]
	restart := func(build string) {
		start := restartRelay(l, s)
		r.become(build)
		start()
	}
	stop := r.clock.jump(time.Second+time.Duration(s.dice%2000)*ms, shifts(s.dice))
	restart(broken.Shifted)
	return func() {
		stop()
		restart(healthy)
	}
}

// A clock that is put back, and back, is nothing to a relay. One that is put ahead looks like a machine that was suspended: the relay gives its lease up
// and takes it again.
func TestAClockThatIsPutBackCostsNothing(t *testing.T) {
	l := newLab(t, setup{relays: 2, topics: 2, keys: 10, shifted: true})
	for _, r := range l.relays {
		r.start()
	}
	stop := l.writers(4, 20*time.Millisecond, 1)
	for _, behind := range []time.Duration{0, 2 * time.Second, time.Minute, time.Hour, 40 * 24 * time.Hour} {
		for _, r := range l.relays {
			r.clock.set(-behind)
		}
		seen := l.ledger.size()
		l.await("50 more transactions are committed", func() bool { return l.ledger.size() > seen+50 })
	}
	stop()
	report := l.judge()
	t.Log(report.Summary(), l.messages())
	for _, r := range l.relays {
		if r.said.behind < 40*24*time.Hour {
			t.Errorf("the clock of %s was at most %s behind: it is not of the build that can be shifted", r.name(), r.said.behind)
		}
	}
	for _, c := range l.complaints() {
		t.Error(c)
	}
	if !report.OK() || report.Has(history.OwnRepeat) {
		t.Error(report)
	}
}
