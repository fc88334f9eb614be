package engine

import (
	"maps"
	"slices"
)

// Ledger remembers what was written down under names, so that only what has changed since is written. The zero Ledger knows nothing of what is there.
type Ledger[T comparable] struct {
	// written is what is there; nil before the first time, and when that is not known any more.
	written map[string]T
}

// LedgerChanges is how many changes are written at once.
const LedgerChanges = 1000

// Changes make of what was written down what there is now.
type Changes[T comparable] struct {
	// Anew tells that whatever is there goes first.
	Anew bool
	// Put is to be written, in place of what is there under the same names. Gone are names under which nothing is to be any more.
	Put  []T
	Gone []string
}

// Write calls write with what has changed, at most [LedgerChanges] at once, until what is written down is what there is now. After an error nothing is known of what is there.
func (l *Ledger[T]) Write(now map[string]T, write func(Changes[T]) error) error {
	anew := l.written == nil
	var put, gone []string
	for name := range l.written {
		if _, still := now[name]; !still {
			gone = append(gone, name)
		}
	}
	for name, v := range now {
		if before, there := l.written[name]; !there || before != v {
			put = append(put, name)
		}
	}
	slices.Sort(put)
	slices.Sort(gone)
	for anew || len(put)+len(gone) > 0 {
		c := Changes[T]{Anew: anew, Gone: gone[:min(len(gone), LedgerChanges)]}
		names := put[:min(len(put), LedgerChanges-len(c.Gone))]
		for _, name := range names {
			c.Put = append(c.Put, now[name])
		}
		if err := write(c); err != nil {
			l.written = nil
			return err
		}
		anew, gone, put = false, gone[len(c.Gone):], put[len(names):]
	}
	l.written = maps.Clone(now)
	if l.written == nil {
		l.written = map[string]T{}
	}
	return nil
}
