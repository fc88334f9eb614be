package engine

import (
	"maps"
	"sync"
)

// Tally counts by names that come from outside: the first [TallyNames] are told apart, all others count together as [TallyOther]. The zero Tally is ready, and may be used
// by any goroutine.
type Tally struct {
	mu     sync.Mutex
	counts map[string]int64
}

const (
	// TallyNames is how many names are told apart.
	TallyNames = 100
	// TallyOther is the name of all others. It is no name of a topic that Kafka would take.
	TallyOther = "(other)"
)

// Add counts n more of the name.
func (t *Tally) Add(name string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.counts[name]; !known {
		if len(t.counts) >= TallyNames {
			name = TallyOther
		}
		if t.counts == nil {
			t.counts = map[string]int64{}
		}
	}
	t.counts[name] += n
}

// Counts returns what was counted so far.
func (t *Tally) Counts() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}
