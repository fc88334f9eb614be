package operate

import (
	"regexp"
	"strconv"
	"strings"
)

// mostReasons bounds the list of reasons in a report; the rest is counted together.
const mostReasons = 20

// numbers are the parts of a reason in which two that are alike may differ: ids, and numbers. A digit that is part of a name is none.
var numbers = regexp.MustCompile(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9]{2,}|\b[0-9]\b`)

// reasons counts failures by why they happened, whatever numbers are in it.
type reasons map[string]*alike

// alike are failures whose reasons differ in their numbers only.
type alike struct {
	count int64
	// between are the texts around the numbers of the first one, and shown what stands for the numbers of all.
	between []string
	shown   []number
}

// number is one that stands at a place of a reason.
type number struct {
	text string
	// differ tells that not all have the same. most is then the largest number of bytes; 0 where it is none.
	differ bool
	most   int64
}

func (r reasons) add(reason string, n int64) {
	key := numbers.ReplaceAllString(reason, "…")
	a, known := r[key]
	switch {
	case !known && len(r) >= mostReasons:
		key = "other reasons"
		if a, known = r[key]; !known {
			a = newAlike(key)
			r[key] = a
		}
	case !known:
		a = newAlike(reason)
		r[key] = a
	default:
		a.merge(newAlike(reason))
	}
	a.count += n
}

// newAlike takes a reason apart.
func newAlike(reason string) *alike {
	a, from := &alike{}, 0
	for _, at := range numbers.FindAllStringIndex(reason, -1) {
		a.between = append(a.between, reason[from:at[0]])
		n := number{text: reason[at[0]:at[1]]}
		if strings.HasPrefix(reason[at[1]:], " bytes") {
			// One that is no size is 0.
			n.most, _ = strconv.ParseInt(n.text, 10, 64)
		}
		a.shown, from = append(a.shown, n), at[1]
	}
	a.between = append(a.between, reason[from:])
	return a
}

// merge keeps of the numbers those in which both agree, and of sizes the larger one.
func (a *alike) merge(b *alike) {
	if len(a.shown) != len(b.shown) {
		// One of them has come with its numbers left out.
		*a = alike{count: a.count, between: []string{numbers.ReplaceAllString(a.String(), "…")}}
		return
	}
	for i := range a.shown {
		x, y := &a.shown[i], b.shown[i]
		x.differ = x.differ || x.text != y.text
		x.most = max(x.most, y.most)
	}
}

func (a *alike) String() string {
	var text strings.Builder
	for i, n := range a.shown {
		text.WriteString(a.between[i])
		switch {
		case !n.differ:
			text.WriteString(n.text)
		case n.most > 0:
			text.WriteString("up to " + strconv.FormatInt(n.most, 10))
		default:
			text.WriteString("…")
		}
	}
	return text.String() + a.between[len(a.between)-1]
}

// list is the reasons, the most frequent first.
func (r reasons) list() []FailedFor {
	counts := make(map[string]int64, len(r))
	for _, a := range r {
		counts[a.String()] += a.count
	}
	return failures(counts)
}
