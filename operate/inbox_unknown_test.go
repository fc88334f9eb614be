package operate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// register has as many consumers as it says.
type register struct {
	crowd
	InboxLookups
	consumers int
}

func (r *register) InboxConsumers(context.Context, time.Duration) (all []InboxConsumer, err error) {
	for i := range r.consumers {
		all = append(all, InboxConsumer{Name: fmt.Sprintf("c-%02d", i)})
	}
	return all, nil
}

func TestAConsumerThatNobodyIsIsSaidToBeSoWithTenNamesAtMost(t *testing.T) {
	t.Parallel()
	for consumers, want := range map[int]string{0: "nor does any other", 2: `those that do are "c-00", "c-01"`, 12: `"c-09", and 2 more`} {
		s, err := New(&register{consumers: consumers}, nil, Config{})
		if err != nil {
			t.Fatal(err)
		}
		text := s.UnknownConsumer(t.Context(), boss, "bill")
		if !strings.HasPrefix(text, `no consumer "bill" remembers events`) || !strings.HasSuffix(strings.TrimSuffix(text, ": outbox inbox list"), want) || strings.Contains(text, "c-10") {
			t.Errorf("of %d: %q", consumers, text)
		}
		if text := s.UnknownConsumer(t.Context(), boss, "c-00"); (text == "") != (consumers > 0) {
			t.Errorf("of %d: c-00 is said to be unknown: %q", consumers, text)
		}
	}
}

func TestLettersOfOneEventAreCountedAsOne(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 0, 1)
	for i, id := range []string{"e-1", "e-1", "e-2", "", ""} {
		o.add("shop.order-dlt", 0, i, func(r *LetterRecord) { r.EventID, r.Consumer = id, []string{"billing", "search"}[i%2] })
	}
	plan, err := s.PlanRedrive(t.Context(), boss, all(), o, nil)
	if err != nil || plan.Count != 5 || plan.Events != 4 {
		t.Errorf("%+v, %v, want 5 letters of 4 events", plan, err)
	}
	by := Redrive{LetterSelection: LetterSelection{Topics: []string{"shop.order"}, LetterFilter: LetterFilter{FailedBy: "search"}}}
	if plan, err = s.PlanRedrive(t.Context(), boss, by, o, nil); err != nil || plan.Count != 2 || plan.Events != 2 {
		t.Errorf("%+v, %v, want the two that search has given up", plan, err)
	}
}
