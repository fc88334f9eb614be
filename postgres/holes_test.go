package postgres

import (
	"math/rand/v2"
	"testing"
)

// Spans are struck and joined as sets of ids are.
func TestSpansBehaveAsSets(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		one, ones := randomSpans(rnd)
		two, twos := randomSpans(rnd)
		for id := range ones {
			delete(twos, id)
		}
		g := &group{spans: two}
		g.strike(idsOf(ones))
		same(t, "spans without others", idsOf(setOf(g.spans)), idsOf(twos))
		g.spans = joinSpans(one, g.spans)
		for id := range twos {
			ones[id] = true
		}
		same(t, "joined spans", idsOf(setOf(g.spans)), idsOf(ones))
		for i, s := range g.spans {
			if s.lo > s.hi || i > 0 && g.spans[i-1].hi >= s.lo-1 {
				t.Fatalf("spans overlap or touch: %v", g.spans)
			}
		}
		for id := int64(0); id < 70; id++ {
			if g.contains(id) != ones[id] {
				t.Fatalf("contains(%d) = %t in %v", id, !ones[id], g.spans)
			}
		}
	}
}

func randomSpans(rnd *rand.Rand) ([]span, map[int64]bool) {
	var spans []span
	for id := int64(rnd.IntN(10)); id < 60; {
		hi := id + int64(rnd.IntN(6))
		spans = append(spans, span{id, hi})
		id = hi + 2 + int64(rnd.IntN(20))
	}
	return spans, setOf(spans)
}

func setOf(spans []span) map[int64]bool {
	ids := map[int64]bool{}
	for _, s := range spans {
		for id := s.lo; id <= s.hi; id++ {
			ids[id] = true
		}
	}
	return ids
}

func idsOf(set map[int64]bool) []int64 {
	ids := []int64{}
	for id := range set {
		ids = append(ids, id)
	}
	return sorted(ids)
}

func TestGroupsThatWaitForTheSameBecomeOne(t *testing.T) {
	t.Parallel()
	var h holes
	h.add([]span{{1, 1}})
	h.answer(holders{"3/1": 100, "4/1": 200})
	h.add([]span{{5, 6}})
	h.answer(holders{"3/1": 100})
	same(t, "groups", len(h.groups), 1)
	same(t, "spans", h.groups[0].spans, []span{{1, 1}, {5, 6}})
	h.lookedAt(h.groups, snapshot{xmin: 50, xmax: 300, inProgress: []uint64{100}})
	h.add([]span{{9, 9}})
	h.answer(holders{"3/1": 100, "5/1": 0})
	same(t, "groups with different holders", len(h.groups), 2)
	same(t, "writers", h.writers(), 2)
}
