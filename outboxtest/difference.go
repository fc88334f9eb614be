package outboxtest

import (
	"fmt"
	"strings"

	"github.com/outbox-relay/outbox"
)

// difference is "" when the events are as wanted. Otherwise it lists both, those that match beside each other.
func difference(got []outbox.Event, wants []wanted) string {
	pairs := pair(got, wants)
	if len(pairs) == len(got) && len(pairs) == len(wants) {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the transaction has written %s, want %s", count(len(got)), count(len(wants)))
	i, j := 0, 0
	for _, p := range append(pairs, [2]int{len(got), len(wants)}) {
		for ; i < p[0] || j < p[1]; i, j = min(i+1, p[0]), min(j+1, p[1]) {
			switch {
			case j == p[1]:
				fmt.Fprintf(&b, "\n  + %s: written, not wanted here", name(got[i]))
			case i == p[0]:
				fmt.Fprintf(&b, "\n  - %s: wanted here, not written", wants[j])
			default:
				fmt.Fprintf(&b, "\n  ! %s", name(got[i]))
				for _, problem := range wants[j].problems(got[i]) {
					fmt.Fprintf(&b, "\n      %s", problem)
				}
			}
		}
		if i < len(got) {
			fmt.Fprintf(&b, "\n    %s", name(got[i]))
		}
		i, j = i+1, j+1
	}
	return b.String()
}

func name(e outbox.Event) string { return describe(e.Type, e.Topic, e.PartitionKey) }

func count(n int) string {
	switch n {
	case 0:
		return "no events"
	case 1:
		return "1 event"
	}
	return fmt.Sprintf("%d events", n)
}

// pair finds the longest sequence of events that match wanted ones, both in their order.
func pair(got []outbox.Event, wants []wanted) (pairs [][2]int) {
	matches := make([][]bool, len(got))
	best := make([][]int, len(got)+1) // best[i][j] is how many pairs there are from got[i:] and wants[j:]
	for i := range best {
		best[i] = make([]int, len(wants)+1)
	}
	for i := len(got) - 1; i >= 0; i-- {
		matches[i] = make([]bool, len(wants))
		for j := len(wants) - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1])
			if matches[i][j] = len(wants[j].problems(got[i])) == 0; matches[i][j] {
				best[i][j] = max(best[i][j], best[i+1][j+1]+1)
			}
		}
	}
	for i, j := 0, 0; i < len(got) && j < len(wants); {
		switch {
		case matches[i][j] && best[i][j] == best[i+1][j+1]+1:
			pairs = append(pairs, [2]int{i, j})
			i, j = i+1, j+1
		case best[i][j] == best[i+1][j]:
			i++
		default:
			j++
		}
	}
	return pairs
}
