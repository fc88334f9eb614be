package relay

import (
	"fmt"
	"testing"
	"time"
)

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("t%06d", i))
	}
	return all
}

func TestFewMissingTopicsAreAskedForEveryTime(t *testing.T) {
	t.Parallel()
	var r topicRounds
	now := time.Now()
	for range 3 {
		if got := r.take(names(topicPortion), now, time.Second); len(got) != 1 || len(got[0]) != topicPortion {
			t.Fatalf("asked for %d portions", len(got))
		}
	}
	if got := r.take(nil, now, time.Second); got != nil {
		t.Errorf("without any: %v", got)
	}
}

// A request for a hundred thousand names is not answered in time, and the relay would take that for an outage.
func TestManyMissingTopicsAreAskedForInPortionsAndEachHasItsTurn(t *testing.T) {
	t.Parallel()
	var r topicRounds
	const many = 10 * topicPortion
	now, asked := time.Now(), map[string]int{}
	for range 5 * many / (topicPortion * topicPortions) {
		portions := r.take(names(many), now, time.Second)
		if len(portions) > topicPortions {
			t.Fatalf("%d portions in one turn", len(portions))
		}
		for _, portion := range portions {
			if len(portion) > topicPortion {
				t.Fatalf("a portion of %d", len(portion))
			}
			for _, name := range portion {
				asked[name]++
			}
		}
		now = now.Add(2 * time.Second)
	}
	if len(asked) != many {
		t.Errorf("%d of %d topics were asked for", len(asked), many)
	}
	for name, times := range asked {
		if times < 2 || times > 5 {
			t.Errorf("%s was asked for %d times", name, times)
		}
	}
	if r.take(names(1), now, time.Second); len(r.turns) > 0 {
		t.Error("what is in order again is remembered")
	}
}

func TestATopicOfManyWaitsLongerEachTimeAndNotForEver(t *testing.T) {
	t.Parallel()
	var r topicRounds
	many, now := names(topicPortion+1), time.Now()
	var pauses []time.Duration
	for range 7 {
		r.take(many, now, time.Second)
		turn := r.turns["t000000"]
		pauses = append(pauses, turn.at.Sub(now))
		now = turn.at
	}
	if got := fmt.Sprint(pauses); got != "[2s 4s 8s 16s 30s 30s 30s]" {
		t.Errorf("the pauses are %s", got)
	}
}

func TestManyLinesOfOneKindAreSummedUp(t *testing.T) {
	t.Parallel()
	var f few
	now, said, sums := time.Now(), 0, []int{}
	look := func() {
		if n := f.due(now); n > 0 {
			sums = append(sums, n)
		}
	}
	for range 1000 {
		if f.allow(now) {
			said++
		}
		look()
		now = now.Add(100 * time.Millisecond)
	}
	now = now.Add(sumInterval)
	look()
	if total := said + sums[0] + sums[1]; said != linesOfAKind || len(sums) != 2 || total != 1000 {
		t.Errorf("%d lines, and sums of %v", said, sums)
	}
	if now = now.Add(sumInterval); !f.allow(now) {
		t.Error("after a quiet while there is no line")
	}
}

// A thousand mistyped topics keep nobody from publishing, fill no log, and are seen when they come.
func TestManyMissingTopicsHoldUpNobodyAndFillNoLog(t *testing.T) {
	inWorld(t, func(w *world) {
		const many = 2*topicPortion + 200
		for _, name := range names(many) {
			w.kafka.setMissing(name, true)
			w.table.insert(Key{Topic: name, PartitionKey: "1"})
		}
		r := w.relay(Config{})
		r.start()
		w.until("all are held", func() bool { return len(r.Stats().HeldTopics) == many })
		w.table.insert(keyA)
		began := time.Now()
		w.until("published", func() bool { return w.table.open() == many })
		if took := time.Since(began); took > time.Second {
			t.Errorf("an event of a good topic took %s", took)
		}
		after(2 * sumInterval)
		if held, more := r.log.count("topic held: "), r.log.count("more topics held"); held != linesOfAKind || more != 1 {
			t.Errorf("%d lines of topics, and %d sums", held, more)
		}
		for _, name := range names(many) {
			w.kafka.setMissing(name, false)
		}
		w.untilPublished()
		if r.publisher.largestLook > topicPortion {
			t.Errorf("asked for %d topics at once", r.publisher.largestLook)
		}
		r.wantStopped()
	})
}
