package relay

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// topicPortion is for how many topics the brokers are asked at once: the answer to a request for very many does not come in time, and is mistaken for an outage.
	topicPortion = 500
	// topicPortions is how many portions are asked for in one turn: failed events wait for it.
	topicPortions = 4
	// longestTopicPause is how long a topic of very many waits for its turn at most, where the portions suffice for that.
	longestTopicPause = 30 * time.Second
)

// topicRounds says which of the held topics are asked for. Few are asked for all at once, every time. Of many each has its turn after a pause that grows, the one
// that has waited longest first. It belongs to one goroutine. The zero value is ready.
type topicRounds struct {
	turns map[string]topicTurn
}

type topicTurn struct {
	at    time.Time
	pause time.Duration
}

// take returns the portions of held, which is sorted, that are asked for now; first is the shortest pause.
func (r *topicRounds) take(held []string, now time.Time, first time.Duration) [][]string {
	if len(held) <= topicPortion {
		r.turns = nil
		if len(held) == 0 {
			return nil
		}
		return [][]string{held}
	}
	before := r.turns
	r.turns = make(map[string]topicTurn, len(held))
	for _, name := range held {
		turn, known := before[name]
		if !known {
			turn = topicTurn{now, first}
		}
		r.turns[name] = turn
	}
	due := slices.DeleteFunc(slices.Sorted(maps.Keys(r.turns)), func(name string) bool { return r.turns[name].at.After(now) })
	slices.SortStableFunc(due, func(a, b string) int { return cmp.Or(r.turns[a].at.Compare(r.turns[b].at), cmp.Compare(a, b)) })
	due = due[:min(len(due), topicPortion*topicPortions)]
	for _, name := range due {
		pause := min(2*r.turns[name].pause, longestTopicPause)
		r.turns[name] = topicTurn{now.Add(pause), pause}
	}
	return slices.Collect(slices.Chunk(due, topicPortion))
}
