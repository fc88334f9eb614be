package operate

import (
	"context"
	"maps"
	"slices"
)

// The size of a walk's pages: what is in memory at once does not grow with the number of letters.
const (
	letterPage      = 500
	letterPageBytes = 4 << 20
)

// walkLetters reads ranges one after the other, and calls fn with pages of those that the filter finds, each of one partition. most is how many letters a page has at most. end is the offset
// up to which everything was read.
func walkLetters(ctx context.Context, k LetterTopics, ranges []LetterRange, f LetterFilter, most int, fn func(page []*LetterRecord, end int64) error) error {
	for _, r := range joinedRanges(ranges) {
		var page []*LetterRecord
		bytes := 0
		hand := func(end int64) error {
			full := page
			page, bytes = nil, 0
			return fn(full, end)
		}
		err := k.Read(ctx, []LetterRange{r.LetterRange}, func(l *LetterRecord) error {
			if !r.has(l.Offset) || !f.matches(&l.DeadLetter) {
				return nil
			}
			page = append(page, l)
			if bytes += len(l.Key) + len(l.Value); len(page) >= most || bytes >= letterPageBytes {
				return hand(l.Offset + 1)
			}
			return nil
		})
		if err == nil {
			err = hand(r.To)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// joinedRange is a range of which only some offsets are meant; all, when only is nil.
type joinedRange struct {
	LetterRange
	only []int64
}

func (r joinedRange) has(offset int64) bool {
	if r.only == nil {
		return true
	}
	_, found := slices.BinarySearch(r.only, offset)
	return found
}

// near is how far apart named letters may be to be read together.
const near = 1_000

// joinedRanges reads named letters of a partition together where they are close to each other.
func joinedRanges(ranges []LetterRange) (joined []joinedRange) {
	for _, r := range ranges {
		single := r.To == r.From+1
		if n := len(joined) - 1; single && n >= 0 && joined[n].only != nil && joined[n].Topic == r.Topic && joined[n].Partition == r.Partition && r.From-joined[n].To < near {
			joined[n].To, joined[n].only = r.To, append(joined[n].only, r.From)
			continue
		}
		j := joinedRange{LetterRange: r}
		if single {
			j.only = []int64{r.From}
		}
		joined = append(joined, j)
	}
	return joined
}

// tally counts texts, and bounds their number: the rest is counted together.
type textTally map[string]int64

func (t textTally) add(text string, n int64) {
	if _, known := t[text]; !known && len(t) >= mostReasons {
		text = "others"
	}
	t[text] += n
}

func (t textTally) sorted() []FailedFor { return failures(maps.Clone(t)) }
