package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A page of letters is small, however large what they had was: the client keeps a batch as long as a slice of it is in use.
func TestAListKeepsNothingOfTheRecordsBuffers(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 0, 1)
	buffer := []byte("key 1, and behind it a megabyte")
	o.add("shop.order-dlt", 0, 1, func(r *LetterRecord) { r.Key = buffer[:5] })
	p, err := s.Letters(t.Context(), Actor{}, LetterQuery{LetterSelection: LetterSelection{Topics: []string{"shop.order"}}}, o)
	if err != nil || len(p.Letters) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	if clear(buffer); string(p.Letters[0].Key) != "key 1" {
		t.Errorf("the page holds a slice of the record's buffer: its key is %q", p.Letters[0].Key)
	}
}

func TestStackTracesInHeadersBoundAPageToo(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 0, 1)
	trace := LetterHeader{"kafka_dlt-exception-stacktrace", make([]byte, letterPageBytes/4)}
	for i := range 20 {
		o.add("shop.order-dlt", 0, i, func(r *LetterRecord) { r.Headers = []LetterHeader{trace} })
	}
	report, err := s.Redrive(t.Context(), boss, all(), RedriveConfirmed{Any: true}, o, nil)
	if err != nil || report.Done != 20 || o.mostRead > 4 {
		t.Errorf("%+v, %v; %d letters were in memory at once", report, err, o.mostRead)
	}
}

// Whoever interrupts a redrive must hear that a page was sent which the next one sends again.
func TestAStoppedRedriveTellsWhatCouldNotBeWrittenDown(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o, s := newOffice(t, 1200, 1)
	o.onSend = func() {
		cancel()
		o.markFails = errors.New("the database is away")
	}
	report, err := s.Redrive(ctx, boss, all(), RedriveConfirmed{Any: true}, o, nil)
	if err == nil || !strings.Contains(err.Error(), "500 letters were sent and could not be written down") || !strings.Contains(report.Note, "the database is away") || report.State != JobFailed {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestLettersThatAreNamedAskForTheirPartitionOnce(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 1000, 2)
	var refs []LetterRef
	for i := range int64(500) {
		refs = append(refs, LetterRef{"shop.order-dlt", int32(i % 2), i / 2})
	}
	report, err := s.Redrive(t.Context(), boss, Redrive{LetterSelection: LetterSelection{Refs: refs}}, RedriveConfirmed{Any: true}, o, nil)
	if err != nil || report.Done != 500 || o.asked > 10 {
		t.Errorf("%+v, %v: Kafka was asked %d times what the topic has", report, err, o.asked)
	}
}

func TestTheAuditOfAPurgeCountsWhatWasDeleted(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 20, 2)
	o.stays = map[int32]error{1: errors.New("no leader")}
	done, err := s.PurgeLetters(t.Context(), boss, LetterPurge{Topics: []string{"shop.order"}, All: true}, LetterPurgeConfirmed{Any: true, Lost: 20}, o, nil)
	if err == nil || done.Partitions[1].Error != "no leader" {
		t.Fatalf("%+v, %v", done, err)
	}
	if got := fmt.Sprint(o.ended); !strings.Contains(got, "10 letters deleted, 10 of them not sent back; then: partition 1 of shop.order-dlt: no leader") {
		t.Errorf("the audit says %s", got)
	}
}

func TestATopicOfSuffixOnlyIsNobodysDeadLetterTopic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		topic, name string
		force, want bool
	}{
		{"a-dlt", "a", false, true}, {"a-dlt", "a", true, false}, {"a", "a", true, true}, {"a.DLT", "a", false, true}, {"a-dlt", "a-dlt", false, true}, {"-dlt", "a", false, false}, {"ab-dlt", "a", false, false},
	} {
		if got := isOf(c.topic, c.name, c.force); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// What a header names is no better than what a person does.
func TestALetterWhoseOriginalIsNoTargetIsRefusedByThePlanAndTheRun(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 2, 1)
	for i, topic := range []string{"shop.other-dlt", "__consumer_offsets"} {
		o.topics[topic] = [][]*LetterRecord{nil}
		o.add("shop.order-dlt", 0, 10+i, func(r *LetterRecord) { r.Original = &LetterRef{topic, 0, 1} })
	}
	plan, err := s.PlanRedrive(t.Context(), boss, all(), o, nil)
	if got := fmt.Sprint(plan.Refused); err != nil || plan.Count != 2 || !strings.Contains(got, "shop.other-dlt is a dead-letter topic") || !strings.Contains(got, "__consumer_offsets is called like a topic of Kafka's own") {
		t.Errorf("%+v, %v", plan, err)
	}
	report, err := s.Redrive(t.Context(), boss, all(), RedriveConfirmed{Any: true}, o, nil)
	if err != nil || report.Done != 2 || report.Failed != 2 || len(o.topics["__consumer_offsets"][0])+len(o.topics["shop.other-dlt"][0]) != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	to := all()
	if to.To = "__consumer_offsets"; CodeOf(to.check()) != CodeInvalid {
		t.Errorf("--to: %v", to.check())
	}
}

// Whoever has handled an event when it was new has forgotten that by now.
func TestARedriveOfOldLettersSaysThatInboxesHaveForgotten(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 3, 1)
	plan, err := s.PlanRedrive(t.Context(), boss, all(), o, nil)
	if err != nil || strings.Contains(fmt.Sprint(plan.Notes), "inboxes remember no longer") {
		t.Errorf("%+v, %v", plan, err)
	}
	for i, at := range []time.Duration{91, 89, 91} {
		o.add("shop.order-dlt", 0, 10+i, func(r *LetterRecord) {
			r.At = time.Now()
			if r.OriginalAt = r.At.Add(-at * 24 * time.Hour); i == 2 {
				r.At, r.OriginalAt = r.OriginalAt, time.Time{}
			}
		})
	}
	plan, err = s.PlanRedrive(t.Context(), boss, all(), o, nil)
	if err != nil || plan.Count != 6 || !strings.Contains(fmt.Sprint(plan.Notes), "2 of them are older than 90 days") {
		t.Errorf("%+v, %v", plan, err)
	}
}

// forgetter has an inbox that forgets nothing.
type forgetter struct{ crowd }

func (*forgetter) CountForget(context.Context, Forget) (int64, bool, error) { return 0, false, nil }

func (*forgetter) Forget(context.Context, Forget, func(int64)) (int64, error) {
	return 0, errors.New("the database was asked")
}

func TestTextsThatNoDatabaseHoldsAreNotAskedFor(t *testing.T) {
	t.Parallel()
	s, err := New(&forgetter{}, nil, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		f      Forget
		reason string
	}{
		"consumer": {Forget{Consumer: "bill\x00ing", All: true}, ""}, "an id": {Forget{Consumer: "billing", EventIDs: []string{"a", "\xff"}}, ""},
		"the reason": {Forget{Consumer: "billing", All: true}, "\xff"},
	} {
		if _, err := s.Forget(t.Context(), boss, c.f, c.reason, nil); CodeOf(err) != CodeInvalid || !strings.Contains(err.Error(), "no UTF-8, or holds a NUL") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
