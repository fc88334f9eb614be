package operate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// LetterQuery asks for a page of letters, the newest first.
type LetterQuery struct {
	// LetterSelection has topics; Refs are for [Service.Letter].
	LetterSelection
	// Window is how many offsets of each partition are looked at for a page, the newest. Default [DefaultLetterWindow], at most [MaxLetterWindow].
	Window int
	// Limit is how many letters a page has at most. Default [DefaultPage].
	Limit int
	// After is the Next of the page before.
	After string
}

// The windows of a list, in offsets of each partition.
const (
	DefaultLetterWindow = 1_000
	MaxLetterWindow     = 1_000_000
)

// LetterLook is what a page has looked at of a partition.
type LetterLook struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// From and To are the offsets from and before which it has looked, Records how many records were there.
	From    int64 `json:"from"`
	To      int64 `json:"to"`
	Records int64 `json:"records"`
	// First and Next are those of the partition. What is before From was not looked at.
	First int64 `json:"first"`
	Next  int64 `json:"next"`
}

// LetterPage is a page of letters.
type LetterPage struct {
	Letters []DeadLetter `json:"letters"`
	// Looks are what it has looked at, of each partition that has anything.
	Looks []LetterLook `json:"looks"`
	// Next goes on behind this page, with the same topics and filter; "" at the end.
	Next string `json:"next,omitempty"`
}

func (q LetterQuery) normalized() (LetterQuery, error) {
	if len(q.Refs) > 0 {
		return q, Refuse(CodeInvalid, "a list is of topics: outbox dlt show shows single letters")
	}
	if err := q.check(); err != nil {
		return q, err
	}
	q.Window = cmp.Or(q.Window, DefaultLetterWindow)
	if q.Window < 1 || q.Window > MaxLetterWindow {
		return q, Refuse(CodeInvalid, "window %d: want 1 to %d records of each partition", q.Window, MaxLetterWindow)
	}
	var err error
	q.Limit, err = pageSize(q.Limit)
	return q, err
}

// letterCursor is how far a list is: in each partition before which offset it goes on. What is not named is at its end.
type letterCursor struct {
	Of   string                     `json:"of"`
	Ends map[string]map[int32]int64 `json:"ends"`
}

// fingerprint tells lists apart.
func (q LetterQuery) fingerprint() string {
	// What is in it can be written.
	text, _ := json.Marshal(q.LetterSelection)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

func (q LetterQuery) cursor() (letterCursor, error) {
	c := letterCursor{Of: q.fingerprint(), Ends: map[string]map[int32]int64{}}
	if q.After == "" {
		return c, nil
	}
	var given letterCursor
	text, err := base64.RawURLEncoding.DecodeString(q.After)
	if err == nil {
		err = json.Unmarshal(text, &given)
	}
	if err != nil || given.Of != c.Of || given.Ends == nil {
		return c, Refuse(CodeInvalid, "the cursor %q is of another list: leave it out, or use it with the same topics and filter", q.After)
	}
	return given, nil
}

func (c letterCursor) String() string {
	text, _ := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(text)
}

// Letters lists the newest letters of dead-letter topics. It reads a window of each partition, says which, and goes on before it by [LetterQuery].After.
func (s *Service) Letters(ctx context.Context, a Actor, q LetterQuery, k LetterTopics) (LetterPage, error) {
	q, err := q.normalized()
	if err == nil {
		err = a.may(VerbLook)
	}
	if err != nil {
		return LetterPage{}, err
	}
	c, err := q.cursor()
	if err != nil {
		return LetterPage{}, err
	}
	keeper, err := s.letters(ctx, k)
	if err != nil {
		return LetterPage{}, err
	}
	topics, err := letterTopics(ctx, k, q.Topics, q.Force)
	if err != nil {
		return LetterPage{}, err
	}
	shelves, err := q.shelves(ctx, k, topics, c)
	if err == nil {
		err = fill(ctx, k, shelves, q)
	}
	if err != nil {
		return LetterPage{}, err
	}
	page, letters := paged(shelves, q.Limit, c)
	redriven, err := keeper.RedrivenOf(ctx, letters)
	if err != nil {
		return LetterPage{}, err
	}
	for _, l := range letters {
		if r, is := redriven[l.LetterRef]; is {
			l.Redriven = &r
		}
		page.Letters = append(page.Letters, l.DeadLetter)
	}
	return page, nil
}

// letterShelf is what a list holds of a partition: the newest matches of its window.
type letterShelf struct {
	LetterLook
	letters []*LetterRecord
	// cut tells that older matches of the window were let go.
	cut bool
}

func (q LetterQuery) shelves(ctx context.Context, k LetterTopics, topics []letterTopic, c letterCursor) (shelves []*letterShelf, err error) {
	for _, t := range topics {
		from := map[int32]int64{}
		if !q.From.IsZero() {
			if from, err = k.OffsetsFrom(ctx, t.name, q.From); err != nil {
				return nil, err
			}
		}
		for _, p := range t.partitions {
			first, end := max(p.First, from[p.Number]), p.Next
			if at, given := c.Ends[t.name][p.Number]; given {
				end = min(end, at)
			}
			if first < end {
				shelves = append(shelves, &letterShelf{LetterLook: LetterLook{Topic: t.name, Partition: p.Number, From: max(first, end-int64(q.Window)), To: end, First: first, Next: p.Next}})
			}
		}
	}
	return shelves, nil
}

// fill reads the windows.
func fill(ctx context.Context, k LetterTopics, shelves []*letterShelf, q LetterQuery) error {
	type partition struct {
		topic  string
		number int32
	}
	byName := map[partition]*letterShelf{}
	var ranges []LetterRange
	for _, s := range shelves {
		byName[partition{s.Topic, s.Partition}] = s
		ranges = append(ranges, LetterRange{s.Topic, s.Partition, s.From, s.To})
	}
	return k.Read(ctx, ranges, func(r *LetterRecord) error {
		s := byName[partition{r.Topic, r.Partition}]
		s.Records++
		if q.matches(&r.DeadLetter) {
			// What is left shares no memory with the record: a page must not keep whole batches.
			r.Key, r.Value, r.Headers = slices.Clone(r.Key), nil, nil
			s.letters = append(s.letters, r)
		}
		if len(s.letters) > 2*q.Limit {
			s.letters, s.cut = slices.Clone(s.letters[len(s.letters)-q.Limit:]), true
		}
		return nil
	})
}

// paged takes the newest letters off the shelves. Of each partition they are the last ones, so that a place in each is enough to go on.
func paged(shelves []*letterShelf, limit int, c letterCursor) (page LetterPage, letters []*LetterRecord) {
	page = LetterPage{Letters: []DeadLetter{}, Looks: []LetterLook{}}
	left := make([]int, len(shelves))
	for i, s := range shelves {
		page.Looks = append(page.Looks, s.LetterLook)
		left[i] = len(s.letters)
	}
	for len(letters) < limit {
		newest := -1
		for i, s := range shelves {
			if left[i] > 0 && (newest < 0 || s.letters[left[i]-1].At.After(shelves[newest].letters[left[newest]-1].At)) {
				newest = i
			}
		}
		if newest < 0 {
			break
		}
		left[newest]--
		letters = append(letters, shelves[newest].letters[left[newest]])
	}
	more := false
	for i, s := range shelves {
		end := s.From
		switch {
		case left[i] == len(s.letters) && left[i] > 0:
			end = s.To
		case left[i] > 0 || s.cut:
			end = s.letters[left[i]].Offset
		}
		if c.Ends[s.Topic] == nil {
			c.Ends[s.Topic] = map[int32]int64{}
		}
		c.Ends[s.Topic][s.Partition] = end
		more = more || end > s.First
	}
	if more {
		page.Next = c.String()
	}
	return page, letters
}

// Letter shows one letter whole. Value and headers are shown to an operator; a viewer gets the rest.
func (s *Service) Letter(ctx context.Context, a Actor, ref LetterRef, force bool, k LetterTopics) (*LetterRecord, error) {
	if err := a.may(VerbLook); err != nil {
		return nil, err
	}
	keeper, err := s.letters(ctx, k)
	if err != nil {
		return nil, err
	}
	where, err := LetterSelection{Refs: []LetterRef{ref}, Force: force}.ranges(ctx, k, nil)
	if err != nil {
		return nil, err
	}
	var found *LetterRecord
	if err := k.Read(ctx, where, func(r *LetterRecord) error { found = r; return nil }); err != nil {
		return nil, err
	}
	if found == nil {
		return nil, Refuse(CodeNotFound, "no record is at offset %d in partition %d of %s: it was removed, or is no record of an application", ref.Offset, ref.Partition, where[0].Topic)
	}
	redriven, err := keeper.RedrivenOf(ctx, []*LetterRecord{found})
	if err != nil {
		return nil, err
	}
	if r, is := redriven[found.LetterRef]; is {
		found.Redriven = &r
	}
	if a.may(VerbReveal) != nil {
		found.Value, found.Headers, found.Withheld = nil, nil, true
	}
	return found, nil
}
