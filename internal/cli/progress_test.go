package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestALogLineTakesThePlaceOfTheBar(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{out: &out, visible: true, noun: "events", now: time.Now}
	p.expect(100)
	p.set(50)
	out.Reset()
	fmt.Fprintln(p, "a line")
	fmt.Fprintln(p, "another")
	if got, want := out.String(), clearLine+"a line\nanother\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	p.set(51)
	p.end()
	if got := out.String(); !strings.Contains(got, "51/100 events") || !strings.HasSuffix(got, "\n") {
		t.Errorf("the bar is not drawn again, or not ended: %q", got)
	}
}

func TestWithoutATerminalThereIsNoBar(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out, "events")
	p.expect(100)
	p.set(50)
	fmt.Fprintln(p, "a line")
	p.end()
	if got := out.String(); got != "a line\n" {
		t.Errorf("got %q", got)
	}
}

func TestTheBarShowsTheTimeLeftWhenItCanBeEstimated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, did int
		took   time.Duration
		want   string
	}{
		{250, 250, 10 * time.Second, "250/1000 events  25/s  30s left"},
		{250, 100, 10 * time.Second, "250/1000 events  10/s  1m15s left"},
		{250, 250, 100 * time.Millisecond, "250/1000 events  2500/s"},
		{0, 0, 10 * time.Second, "0/1000 events"},
		{100, 0, 0, "100/1000 events"},
		{1000, 1000, 10 * time.Second, "1000/1000 events  100/s"},
	} {
		if got := line(c.n, 1000, "events", c.did, c.took); !strings.HasSuffix(got, c.want) {
			t.Errorf("%d after %s: got %q, want it to end with %q", c.n, c.took, got, c.want)
		}
	}
}

// A replay counts, asks, and reaches the brokers before its first event: that is none of its rate.
func TestTheRateBeginsWithTheFirstMove(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Now()
	p := &progress{out: &out, visible: true, noun: "events", now: func() time.Time { return now }}
	p.expect(1000)
	p.set(0)
	now = now.Add(time.Minute)
	p.set(100)
	now = now.Add(10 * time.Second)
	p.set(600)
	if got := out.String(); strings.Count(got, "/s") != 1 || !strings.HasSuffix(got, "600/1000 events  50/s  8s left") {
		t.Errorf("got %q", got)
	}
}

// deaf refuses everything.
type deaf struct{}

func (deaf) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestASummaryWhoseReaderIsGoneGoesToTheOtherStream(t *testing.T) {
	t.Parallel()
	var second bytes.Buffer
	out := &lasting{first: deaf{}, second: &second}
	for _, text := range []string{"one ", "two"} {
		if _, err := fmt.Fprint(out, text); err != nil {
			t.Fatal(err)
		}
	}
	if second.String() != "one two" {
		t.Errorf("got %q", &second)
	}
}
