package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The bounds of a look at what was published behind dead events, for a plan.
const (
	overtakenAtOnce = 5_000
	// overtakenWithin is how long it takes at most: whoever asks waits for it.
	overtakenWithin = 5 * time.Second
	// overtakenKeys is how many keys are told apart, overtakenNamed how many are named: those with the most events.
	overtakenKeys, overtakenNamed = 100_000, 10
)

// OvertakenEvents is what is known of the events behind those that a restore puts back: restored, an event comes to the consumers behind all that is published of its key.
type OvertakenEvents struct {
	// Events is of how many of them newer ones of the key are published already, Keys of how many keys these are; there may be more keys where KeysCapped is true.
	Events     int64 `json:"events"`
	Keys       int64 `json:"keys"`
	KeysCapped bool  `json:"keys_capped,omitempty"`
	// Unknown is of how many nobody can say: settled rows may have been deleted, or too many newer rows would have to be looked through.
	Unknown int64 `json:"unknown"`
	// RowsGone is how many of Unknown are so because settled rows may have been deleted.
	RowsGone int64 `json:"rows_gone,omitempty"`
	// Named are the keys with the most of them.
	Named []KeyCount `json:"named,omitempty"`
}

// KeyCount is a number of events of a key.
type KeyCount struct {
	Topic        string `json:"topic"`
	PartitionKey string `json:"partition_key"`
	Count        int64  `json:"count"`
}

// OvertakenPage is what is known of the next dead events that a restore finds.
type OvertakenPage struct {
	Events []OvertakenEvent
	Next   Cursor
}

// OvertakenEvent is a dead event of a key, and what is known of those behind it.
type OvertakenEvent struct {
	Topic, PartitionKey string
	Overtaken           Overtaken
}

// overtaken looks behind all count events that a restore finds, as far as it gets in its time.
func (s *Service) overtaken(ctx context.Context, b Bulk, count int64) (OvertakenEvents, error) {
	type key struct{ topic, partitionKey string }
	var found OvertakenEvents
	var looked int64
	keys := map[key]int64{}
	began := s.now()
	for at := (Cursor{}); !at.End && looked < count && s.now().Sub(began) < overtakenWithin; {
		page, err := s.store.OvertakenOf(ctx, b, at, overtakenAtOnce)
		if err != nil {
			return found, fmt.Errorf("look for newer events of their keys: %w", err)
		}
		at, looked = page.Next, looked+int64(len(page.Events))
		for _, e := range page.Events {
			k := key{e.Topic, e.PartitionKey}
			switch _, known := keys[k]; {
			case e.Overtaken == OvertakenUnknown:
				found.Unknown++
			case e.Overtaken == OvertakenRowsGone:
				found.Unknown++
				found.RowsGone++
			case e.Overtaken == OvertakenYes && (known || len(keys) < overtakenKeys):
				keys[k]++
				found.Events++
			case e.Overtaken == OvertakenYes:
				found.Events++
				found.KeysCapped = true
			}
		}
	}
	found.Unknown += max(0, count-looked)
	found.Keys = int64(len(keys))
	most := slices.SortedFunc(maps.Keys(keys), func(a, b key) int {
		return cmp.Or(cmp.Compare(keys[b], keys[a]), cmp.Compare(a.topic, b.topic), cmp.Compare(a.partitionKey, b.partitionKey))
	})
	for _, k := range most[:min(len(most), overtakenNamed)] {
		found.Named = append(found.Named, KeyCount{k.topic, k.partitionKey, keys[k]})
	}
	return found, nil
}

// notes say it for people, but for the keys by their names: those are in Named.
func (o OvertakenEvents) notes() []string {
	if o.Events == 0 && o.Unknown == 0 {
		return []string{"no newer event of their keys is published: they go out in their places"}
	}
	var notes []string
	if o.Events > 0 {
		notes = append(notes, fmt.Sprintf("newer events of their keys are published already for %d of these events, of %s: restored, they come behind them", o.Events, o.keys()))
	}
	if o.RowsGone > 0 {
		notes = append(notes, fmt.Sprintf("whether newer events of their keys are published already for %d of these events is not known: settled rows of these keys may have been deleted. Restored, they come behind those that are", o.RowsGone))
	}
	if rest := o.Unknown - o.RowsGone; rest > 0 {
		notes = append(notes, fmt.Sprintf("newer events of their keys may be published already for %d more; there are too many newer rows to look through. Restored, they would come behind them", rest))
	}
	return notes
}

func (o OvertakenEvents) keys() string {
	switch {
	case o.KeysCapped:
		return fmt.Sprintf("more than %d keys", o.Keys)
	case o.Keys == 1:
		return "1 key"
	}
	return fmt.Sprintf("%d keys", o.Keys)
}
