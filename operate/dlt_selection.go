package operate

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// LetterSelection says which letters are meant: those of topics that a filter finds, or some by their names.
type LetterSelection struct {
	// Topics are dead-letter topics, or topics whose dead-letter topics are meant.
	Topics []string `json:"topics,omitempty"`
	// Refs are letters. A topic in one is as in Topics.
	Refs []LetterRef `json:"letters,omitempty"`
	LetterFilter
	// Force takes every topic for a dead-letter topic.
	Force bool `json:"force,omitempty"`
}

// MaxLetterRefs is how many letters one request may name.
const MaxLetterRefs = 10_000

func (l LetterSelection) check() error {
	switch {
	case len(l.Topics)+len(l.Refs) == 0:
		return Refuse(CodeInvalid, "which letters? name a topic, or letters as TOPIC/PARTITION/OFFSET")
	case len(l.Refs) > 0 && (len(l.Topics) > 0 || l.LetterFilter != LetterFilter{}):
		return Refuse(CodeInvalid, "name letters, or topics with a filter: not both")
	case len(l.Refs) > MaxLetterRefs:
		return Refuse(CodeInvalid, "%d letters are named; at most %d can be", len(l.Refs), MaxLetterRefs)
	}
	return l.LetterFilter.check()
}

// letterTopic is a dead-letter topic with its partitions.
type letterTopic struct {
	name       string
	partitions []LetterPartition
}

func (t *letterTopic) partition(n int32) (LetterPartition, bool) {
	i := slices.IndexFunc(t.partitions, func(p LetterPartition) bool { return p.Number == n })
	if i < 0 {
		return LetterPartition{}, false
	}
	return t.partitions[i], true
}

// letterTopics finds the dead-letter topics of the names, each once, in the order of the names.
func letterTopics(ctx context.Context, k LetterTopics, names []string, force bool) ([]letterTopic, error) {
	var topics []letterTopic
	for _, name := range names {
		t, err := findLetterTopic(ctx, k, name, force)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(topics, func(other letterTopic) bool { return other.name == t.name }) {
			topics = append(topics, t)
		}
	}
	return topics, nil
}

// findLetterTopic takes a topic for what it is called, or for what is in it.
func findLetterTopic(ctx context.Context, k LetterTopics, name string, force bool) (letterTopic, error) {
	partitions, err := k.Partitions(ctx, name)
	missing := CodeOf(err) == CodeNotFound
	own := letterTopic{name, partitions}
	if force || namedAsLetters(name) || err != nil && !missing {
		return own, err
	}
	if letters, err := lettersOf(ctx, k, name); err != nil || letters.name != "" {
		return letters, err
	}
	switch {
	case missing:
		return own, Refuse(CodeNotFound, "there is neither a topic %s nor one that is called %s", name, name+letterSuffixes[0])
	case retryTopic.MatchString(name):
		return own, Refuse(CodeConflict, "%s is a retry topic: what is there is tried again by itself; --force takes it for a dead-letter topic", name)
	}
	letters, err := holdsLetters(ctx, k, own)
	if err == nil && !letters {
		err = Refuse(CodeConflict, "%s does not look like a dead-letter topic: its newest records say of no failure, and there is no topic %s; --force takes it for one", name, name+letterSuffixes[0])
	}
	return own, err
}

// lettersOf finds the dead-letter topic of a topic; without one its name is "".
func lettersOf(ctx context.Context, k LetterTopics, topic string) (letterTopic, error) {
	for _, suffix := range letterSuffixes {
		partitions, err := k.Partitions(ctx, topic+suffix)
		if err == nil {
			return letterTopic{topic + suffix, partitions}, nil
		}
		if code := CodeOf(err); code != CodeNotFound && code != CodeInvalid {
			return letterTopic{}, err
		}
	}
	return letterTopic{}, nil
}

// holdsLetters looks at the newest record of each partition.
func holdsLetters(ctx context.Context, k LetterTopics, t letterTopic) (found bool, err error) {
	var newest []LetterRange
	for _, p := range t.partitions {
		if p.First < p.Next {
			newest = append(newest, LetterRange{t.name, p.Number, p.Next - 1, p.Next})
		}
	}
	err = k.Read(ctx, newest, func(r *LetterRecord) error {
		found = found || r.Form != ""
		return nil
	})
	return found, err
}

// ranges are where the selected letters are, in the order of topics, partitions and offsets. through, unless nil, bounds them.
func (l LetterSelection) ranges(ctx context.Context, k LetterTopics, through []LetterRef) ([]LetterRange, error) {
	names := l.Topics
	for _, r := range l.Refs {
		names = append(names[:len(names):len(names)], r.Topic)
	}
	slices.Sort(names)
	topics, err := letterTopics(ctx, k, slices.Compact(names), l.Force)
	if err != nil {
		return nil, err
	}
	if len(l.Refs) > 0 {
		return l.named(topics)
	}
	var all []LetterRange
	for _, t := range topics {
		from := map[int32]int64{}
		if !l.From.IsZero() {
			if from, err = k.OffsetsFrom(ctx, t.name, l.From); err != nil {
				return nil, err
			}
		}
		for _, p := range t.partitions {
			r := LetterRange{t.name, p.Number, max(p.First, from[p.Number]), p.Next}
			if through != nil {
				r.To = min(r.To, endIn(through, r))
			}
			if r.From < r.To {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// endIn is the end of a range's partition as it was found before; 0 where it had nothing.
func endIn(through []LetterRef, r LetterRange) int64 {
	for _, t := range through {
		if t.Topic == r.Topic && t.Partition == r.Partition {
			return t.Offset
		}
	}
	return 0
}

// named are ranges of one record each. The first that is not there is an error.
func (l LetterSelection) named(topics []letterTopic) ([]LetterRange, error) {
	var all []LetterRange
	for _, ref := range l.Refs {
		i := slices.IndexFunc(topics, func(t letterTopic) bool { return isOf(t.name, ref.Topic, l.Force) })
		if err := topics[i].holds(ref); err != nil {
			return nil, err
		}
		all = append(all, LetterRange{topics[i].name, ref.Partition, ref.Offset, ref.Offset + 1})
	}
	slices.SortFunc(all, func(a, b LetterRange) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.From, b.From))
	})
	return slices.Compact(all), nil
}

// isOf tells that the topic was found by the name.
func isOf(topic, name string, force bool) bool {
	suffix, is := strings.CutPrefix(topic, name)
	return is && (suffix == "" || !force && slices.Contains(letterSuffixes, suffix))
}

// holds returns why a record cannot be in the topic.
func (t *letterTopic) holds(r LetterRef) error {
	p, ok := t.partition(r.Partition)
	switch {
	case !ok:
		return Refuse(CodeNotFound, "%s has %d partitions, and none of the number %d", t.name, len(t.partitions), r.Partition)
	case p.First == p.Next:
		return Refuse(CodeNotFound, "partition %d of %s is empty: what was at offset %d was deleted, or is not there yet; the next record gets offset %d", r.Partition, t.name, r.Offset, p.Next)
	case r.Offset < p.First:
		return Refuse(CodeNotFound, "what was at offset %d in partition %d of %s was deleted: the first that is left is %d", r.Offset, r.Partition, t.name, p.First)
	case r.Offset >= p.Next:
		return Refuse(CodeNotFound, "there is no offset %d in partition %d of %s yet: the last one is %d", r.Offset, r.Partition, t.name, p.Next-1)
	}
	return nil
}
