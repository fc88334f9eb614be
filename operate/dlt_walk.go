package operate

import (
	"context"
	"slices"
)

// The size of a walk's pages: what is in memory at once does not grow with the number of letters.
const (
	letterPage      = 500
	letterPageBytes = 4 << 20
)

// walkLetters reads ranges one after the other, and calls fn with pages of those that the filter finds, each of one partition. most is how many letters a page has at most. The last page of
// a range may be empty.
func walkLetters(ctx context.Context, k LetterTopics, ranges []LetterRange, f LetterFilter, most int, fn func(page []*LetterRecord) error) error {
	for _, r := range joinedRanges(ranges) {
		var page []*LetterRecord
		bytes := 0
		hand := func() error {
			full := page
			page, bytes = nil, 0
			return fn(full)
		}
		err := k.Read(ctx, []LetterRange{r.LetterRange}, func(l *LetterRecord) error {
			if !r.has(l.Offset) || !f.matches(&l.DeadLetter) {
				return nil
			}
			page = append(page, l)
			if bytes += l.bytes(); len(page) >= most || bytes >= letterPageBytes {
				return hand()
			}
			return nil
		})
		if err == nil {
			err = hand()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bytes is what the letter holds in memory, roughly. A stack trace in a header may be larger than the value.
func (l *LetterRecord) bytes() int {
	n := len(l.Key) + len(l.Value)
	for _, h := range l.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
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

// textTally counts texts, and bounds their number: the rest is counted together.
type textTally map[string]int64

func (t textTally) add(text string, n int64) {
	if _, known := t[text]; !known && len(t) >= mostReasons {
		text = "others"
	}
	t[text] += n
}

func (t textTally) sorted() []FailedFor { return failures(t) }
