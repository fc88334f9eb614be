package relay

import "time"

// linesOfAKind is how many lines of one kind are logged one by one, and sumInterval how often the rest is summed up.
const (
	linesOfAKind = 20
	sumInterval  = time.Minute
)

// few bounds the lines of one kind in the log: the first have their own, the others are counted. After a while without any it begins anew. It belongs to one
// goroutine. The zero value is ready.
type few struct {
	said, more     int
	latest, summed time.Time
}

// allow tells that the line is to be logged; otherwise it is counted.
func (f *few) allow(now time.Time) bool {
	if f.more == 0 && now.Sub(f.latest) >= sumInterval {
		f.said = 0
	}
	f.latest = now
	if f.said >= linesOfAKind {
		f.more++
		return false
	}
	f.said, f.summed = f.said+1, now
	return true
}

// due returns how many lines are to be summed up now; mostly 0.
func (f *few) due(now time.Time) (lines int) {
	if f.more == 0 || now.Sub(f.summed) < sumInterval {
		return 0
	}
	lines, f.more, f.summed = f.more, 0, now
	return lines
}
