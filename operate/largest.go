package operate

import (
	"context"
	"fmt"
	"slices"
)

// Largest is what a store may also know: which records were too large. A [Store] that implements it has its plans of retry, unpark and restore say how far a topic's
// limit has to be raised.
type Largest interface {
	// LargestOf returns for each of the topics the size of the largest record that was refused for its size, of the parked keys, or of the dead events; topics
	// without one are left out, and the dead-letter topics that have refused the letters of such keys are there too. The order is that of the topics' names.
	LargestOf(ctx context.Context, verb Verb, topics []string) ([]TopicSize, error)
}

// TopicSize is the size of a topic's largest record that was refused for its size, in bytes.
type TopicSize struct {
	Topic string `json:"topic"`
	Bytes int64  `json:"bytes"`
}

// largestTopics bounds the topics that are asked about, and named.
const largestTopics = 20

// largest adds to a plan what the limits of its topics have to be.
func (s *Service) largest(ctx context.Context, b Bulk, p *Plan) error {
	store, knows := s.store.(Largest)
	if !knows || p.Count == 0 || !slices.Contains([]Verb{VerbRetry, VerbUnpark, VerbRestore}, b.Verb) {
		return nil
	}
	var topics []string
	for _, t := range p.Topics[:min(len(p.Topics), largestTopics)] {
		topics = append(topics, t.Topic)
	}
	found, err := store.LargestOf(ctx, b.Verb, topics)
	if err != nil {
		return fmt.Errorf("look for the largest record: %w", err)
	}
	p.Largest = found
	for _, t := range found {
		p.Notes = append(p.Notes, fmt.Sprintf("the largest record that topic %s has refused for its size has %d bytes: unless the topic's max.message.bytes is that or more by now, it is refused again", t.Topic, t.Bytes))
	}
	return nil
}
