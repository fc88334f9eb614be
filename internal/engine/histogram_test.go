package engine

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestAHistogramCountsByBuckets(t *testing.T) {
	t.Parallel()
	h := NewHistogram(1, 2, 5)
	for _, v := range []float64{0, 1, 1.5, 2, 5, 5.5, -3} {
		h.Add(v)
	}
	h.AddDuration(1500 * time.Millisecond)
	bounds, counts, sum := h.Read()
	if !slices.Equal(bounds, []float64{1, 2, 5}) || !slices.Equal(counts, []uint64{3, 3, 1, 1}) || sum != 16.5 {
		t.Errorf("got %v %v %v, want bounds 1 2 5, counts 3 3 1 1, sum 16.5: a value on a bound is below it, and one below zero is zero", bounds, counts, sum)
	}
}

func TestAHistogramLosesNothingOfManyGoroutines(t *testing.T) {
	t.Parallel()
	h := NewSizes()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10_000 {
				h.Add(3)
			}
		})
	}
	wg.Wait()
	if _, counts, sum := h.Read(); counts[2] != 80_000 || sum != 240_000 {
		t.Errorf("got %v %v, want 80000 values whose sum is 240000", counts, sum)
	}
}

func TestOnlyTheFirstHundredNamesAreToldApart(t *testing.T) {
	t.Parallel()
	var tally Tally
	for round := range 2 {
		for i := range 250 {
			tally.Add(fmt.Sprint("topic-", i), int64(round+1))
		}
	}
	got := tally.Counts()
	if len(got) != TallyNames+1 || got["topic-0"] != 3 || got["topic-99"] != 3 || got["topic-100"] != 0 || got[TallyOther] != 450 {
		t.Errorf("got %d names, the rest of which %d, want %d and 450", len(got), got[TallyOther], TallyNames+1)
	}
}

// Each published event is counted; what a count allocates would be paid for each.
func TestCountingAllocatesNothing(t *testing.T) {
	h := NewLags()
	var tally Tally
	tally.Add("orders", 1)
	if n := testing.AllocsPerRun(1000, func() {
		h.AddDuration(time.Second)
		tally.Add("orders", 1)
	}); n != 0 {
		t.Errorf("a count allocates %v times, want 0", n)
	}
}
