package operate

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// measured is a crowd that knows sizes.
type measured struct {
	*crowd
	asked []string
}

func (m *measured) LargestOf(_ context.Context, verb Verb, topics []string) ([]TopicSize, error) {
	m.asked = append(m.asked, string(verb)+" "+strings.Join(topics, ","))
	return []TopicSize{{topics[0], 1_048_601}}, nil
}

func TestAPlanSaysHowFarALimitHasToBeRaised(t *testing.T) {
	t.Parallel()
	const note = "the largest record that topic shop.order has refused for its size has 1048601 bytes"
	for verb, wants := range map[Verb]bool{VerbRetry: true, VerbRestore: true, VerbSkip: false, VerbUnpark: true} {
		store := &measured{crowd: &crowd{matches: 3, overtaken: OvertakenNo}}
		b := Bulk{Verb: verb, Events: &EventFilter{}, Reason: "x"}
		if verb == VerbUnpark {
			b.Events, b.Keys = nil, &KeyFilter{}
		}
		s, err := New(store, nil, Config{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Plan(t.Context(), ann, b, nil)
		if err != nil || strings.Contains(strings.Join(p.Notes, "\n"), note) != wants || (len(p.Largest) == 1) != wants || slices.Contains(store.asked, string(verb)+" shop.order") != wants {
			t.Errorf("%s: asked %q, plan %+v, %v", verb, store.asked, p, err)
		}
	}
}
