package benchmark

import (
	"testing"
	"time"
)

func ms(n float64) Spread { return Spread{P50: time.Duration(n * float64(time.Millisecond))} }

func TestTheLimitIsWhatIsExhausted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		r    Report
		want string
	}{
		{"all processors", Report{Drain: Drain{Seconds: 9, Processors: 1.8, Cores: 2, InFlight: 1, OutWith: 1}}, "processor"},
		{"a processor of many", Report{Drain: Drain{Seconds: 9, Processors: 1.8, Cores: 8, InFlight: 0.9, OutWith: 0.9}}, "kafka"},
		{"what was acknowledged waits", Report{Drain: Drain{Seconds: 9, Processors: -1, Cores: 2, InFlight: 0.9, OutWith: 0.1, Settling: 0.9}}, "settle"},
		{"one statement after the other settles", Report{Drain: Drain{Seconds: 9, Processors: -1, Cores: 2, InFlight: 0.2, Settling: 0.9, Reading: 0.6}}, "settle"},
		{"settling keeps up with Kafka", Report{Drain: Drain{Seconds: 9, Processors: -1, Cores: 2, InFlight: 0.2, OutWith: 0.84, Settling: 0.9}}, "nothing"},
		{"one statement after the other reads", Report{Drain: Drain{Seconds: 9, Processors: -1, Cores: 2, InFlight: 0.2, Settling: 0.4, Reading: 0.9}}, "read"},
		{"nothing", Report{Drain: Drain{Seconds: 9, Processors: -1, Cores: 2}}, "nothing"},
	} {
		if got := ofDrain(c.r); got.By != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
	contains(t, ofDrain(Report{Drain: Drain{Seconds: 0.1, Processors: -1}}).Text, "too soon to be exact")
	for _, c := range []struct {
		name string
		r    Report
		want string
	}{
		{"the writers do not keep up", Report{Latency: Latency{Asked: 1000, Reached: 400, Took: ms(3)}}, "writers"},
		{"Kafka is slow", Report{Kafka: Kafka{Produce: ms(8)}, Latency: Latency{Asked: 100, Reached: 100, Took: ms(9)}}, "kafka"},
		{"Kafka is quick", Report{Kafka: Kafka{Produce: ms(1)}, Latency: Latency{Asked: 100, Reached: 100, Took: ms(9)}}, "wait"},
		{"some never came", Report{Latency: Latency{Asked: 100, Reached: 100, Missing: 3}}, "kafka"},
	} {
		if got := ofLatency(c.r); got.By != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
	slow := Report{Database: Database{Commit: ms(10), Unsynced: ms(1)}, Writer: WriterCost{Plain: ms(11), WithEvent: ms(12)}}
	quick := Report{Database: Database{Commit: ms(1.1), Unsynced: ms(1)}, Writer: WriterCost{Plain: ms(2), WithEvent: ms(3)}}
	if a, b := ofWriter(slow), ofWriter(quick); a.By != "commit" || b.By != "statements" {
		t.Errorf("writer: %+v, %+v", a, b)
	}
}

func TestSpreadIsByNearestRank(t *testing.T) {
	t.Parallel()
	var values []time.Duration
	for i := 100; i > 0; i-- {
		values = append(values, time.Duration(i))
	}
	if got, want := spreadOf(values), (Spread{50, 95, 99, 100}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := spreadOf(nil); got != (Spread{}) {
		t.Errorf("of nothing: %v", got)
	}
}
