package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// office is Kafka with topics of letters, and the database that remembers which were sent back.
type office struct {
	crowd
	topics   map[string][][]*LetterRecord
	first    map[LetterRange]int64
	redriven map[LetterRef]string
	kept     map[LetterRef]struct{}
	handled  map[string]struct{}
	gone     map[string]error
	sent     []string
	// failing are values that Kafka does not take.
	failing map[string]error
	// onSend is called before each call.
	onSend    func()
	loseAt    int
	calls     int
	markFails error
	read      int64
	mostRead  int
	asked     int
	deleted   []string
	// stays says why partitions are not deleted.
	stays map[int32]error
}

func (o *office) Open(context.Context) error { return nil }
func (o *office) Close()                     {}

func (o *office) Partitions(_ context.Context, topic string) (all []LetterPartition, err error) {
	if _, there := o.topics[topic]; !there {
		return nil, Refuse(CodeNotFound, "there is no topic %s", topic)
	}
	o.asked++
	for n, records := range o.topics[topic] {
		all = append(all, LetterPartition{Number: int32(n), First: o.first[LetterRange{Topic: topic, Partition: int32(n)}], Next: int64(len(records))})
	}
	return all, nil
}

func (o *office) OffsetsFrom(_ context.Context, topic string, t time.Time) (map[int32]int64, error) {
	found := map[int32]int64{}
	for n, records := range o.topics[topic] {
		i := slices.IndexFunc(records, func(r *LetterRecord) bool { return !r.At.Before(t) })
		if i < 0 {
			i = len(records)
		}
		found[int32(n)] = int64(i)
	}
	return found, nil
}

func (o *office) Read(ctx context.Context, ranges []LetterRange, fn func(*LetterRecord) error) error {
	for _, r := range ranges {
		for _, record := range o.topics[r.Topic][r.Partition][max(r.From, o.first[LetterRange{Topic: r.Topic, Partition: r.Partition}]):r.To] {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			o.read++
			again := *record
			if err := fn(&again); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *office) Targets(_ context.Context, topics []string) (map[string]error, error) {
	found := map[string]error{}
	for _, t := range topics {
		found[t] = o.gone[t]
	}
	return found, nil
}

func (o *office) Resend(_ context.Context, records []Resent) (errs []error, lost error) {
	if o.onSend != nil {
		o.onSend()
	}
	if o.calls++; o.calls == o.loseAt {
		return make([]error, 0), errors.New("the client is gone")
	}
	o.mostRead = max(o.mostRead, len(records))
	failed := map[string]bool{}
	for _, r := range records {
		key := r.To + "/" + string(r.Key)
		err := o.failing[string(r.Value)]
		if failed[key] {
			err = errors.New("not sent: an earlier one of its key has failed")
		}
		if errs = append(errs, err); err != nil {
			failed[key] = true
			continue
		}
		o.sent = append(o.sent, fmt.Sprintf("%s/%d %s", r.To, r.Into, r.Value))
	}
	return errs, nil
}

func (o *office) DeleteBefore(_ context.Context, topic string, offsets map[int32]int64) (map[int32]error, error) {
	for n, at := range offsets {
		if o.stays[n] != nil {
			continue
		}
		o.deleted = append(o.deleted, fmt.Sprintf("%s/%d before %d", topic, n, at))
		o.first[LetterRange{Topic: topic, Partition: n}] = at
	}
	return o.stays, nil
}

func (o *office) RedrivenOf(_ context.Context, letters []*LetterRecord) (map[LetterRef]Redriven, error) {
	found := map[LetterRef]Redriven{}
	for _, l := range letters {
		if by, is := o.redriven[l.LetterRef]; is {
			found[l.LetterRef] = Redriven{By: by}
		}
	}
	return found, nil
}

func (o *office) KeptOf(_ context.Context, letters []*LetterRecord) (map[LetterRef]struct{}, error) {
	found := map[LetterRef]struct{}{}
	for _, l := range letters {
		if _, is := o.kept[l.LetterRef]; is {
			found[l.LetterRef] = struct{}{}
		}
	}
	return found, nil
}

func (o *office) MarkRedriven(ctx context.Context, letters []*LetterRecord, by string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if o.markFails != nil && len(letters) > 0 {
		return o.markFails
	}
	for _, l := range letters {
		o.redriven[l.LetterRef] = by
	}
	return nil
}

func (o *office) ForgetRedriven(_ context.Context, topic string, partition int32, before int64) error {
	maps.DeleteFunc(o.redriven, func(r LetterRef, _ string) bool {
		return r.Topic == topic && r.Partition == partition && r.Offset < before
	})
	return nil
}

func (o *office) Handled(_ context.Context, _ string, ids []string) (map[string]struct{}, error) {
	found := map[string]struct{}{}
	for _, id := range ids {
		if _, is := o.handled[id]; is {
			found[id] = struct{}{}
		}
	}
	return found, nil
}

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// newOffice has a dead-letter topic of shop.order with n letters over its partitions, of seven keys, a second apart.
func newOffice(t *testing.T, n, partitions int) (*office, *Service) {
	t.Helper()
	o := &office{
		topics: map[string][][]*LetterRecord{"shop.order": {nil}, "shop.order-dlt": make([][]*LetterRecord, partitions)}, first: map[LetterRange]int64{},
		redriven: map[LetterRef]string{}, handled: map[string]struct{}{}, gone: map[string]error{}, failing: map[string]error{},
	}
	for i := range n {
		o.add("shop.order-dlt", i%partitions, i, func(*LetterRecord) {})
	}
	s, err := New(o, nil, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return o, s
}

func (o *office) add(topic string, partition, i int, change func(*LetterRecord)) {
	records := &o.topics[topic][partition]
	r := &LetterRecord{Value: fmt.Append(nil, i), DeadLetter: DeadLetter{
		LetterRef: LetterRef{topic, int32(partition), int64(len(*records))}, At: noon.Add(time.Duration(i) * time.Second), Key: fmt.Append(nil, "key ", i%7), EventID: fmt.Sprint("e-", i),
		Type: "order.placed.v1", Form: LetterOfConsumer, Error: fmt.Sprint("error ", i%3), Original: &LetterRef{"shop.order", int32(partition), int64(i)},
	}}
	change(r)
	*records = append(*records, r)
}

var boss = Actor{Name: "ann", Role: Admin}

func all() Redrive {
	return Redrive{LetterSelection: LetterSelection{Topics: []string{"shop.order"}}, Rate: MaxReplayRate}
}

func TestALetterIsNamedWhole(t *testing.T) {
	t.Parallel()
	if r, err := ParseLetterRef("shop.order-dlt/2/17"); err != nil || r != (LetterRef{"shop.order-dlt", 2, 17}) || r.String() != "shop.order-dlt/2/17" {
		t.Errorf("%v, %v", r, err)
	}
	for _, text := range []string{"", "shop.order-dlt", "shop.order-dlt/", "shop.order-dlt/1", "shop.order-dlt/1/", "/1/2", "t/-1/2", "t/1/-2", "t/1/2/3", "t/1.5/2", "t/4294967296/1", "t/1/99999999999999999999", "t/ 1/2"} {
		if r, err := ParseLetterRef(text); CodeOf(err) != CodeInvalid || !strings.Contains(err.Error(), "want TOPIC/PARTITION/OFFSET") {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
}

// Whoever follows the cursors to the end sees each letter once, in each partition from the newest to the oldest, whatever the size of page and window.
func TestTheListOfLettersLeavesNothingOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, window int }{{1, 1}, {3, 2}, {2, 10}, {7, 5}, {50, 3}, {500, 1000}, {5, 1000}} {
		o, s := newOffice(t, 0, 3)
		for i := range 100 {
			// The times of a partition need not rise.
			o.add("shop.order-dlt", i*i%3, i, func(r *LetterRecord) { r.At = noon.Add(time.Duration(i*37%50) * time.Minute) })
		}
		o.redriven[LetterRef{"shop.order-dlt", 0, 0}] = "ann"
		q := LetterQuery{LetterSelection: LetterSelection{Topics: []string{"shop.order"}, LetterFilter: LetterFilter{Error: "ERROR 1"}}, Limit: c.limit, Window: c.window}
		seen, last := map[LetterRef]bool{}, map[int32]int64{}
		for pages := 0; pages == 0 || q.After != ""; pages++ {
			p, err := s.Letters(t.Context(), Actor{}, q, o)
			if err != nil || pages > 500 || len(p.Letters) > c.limit {
				t.Fatalf("%+v: page %d has %d letters, %v", c, pages, len(p.Letters), err)
			}
			for _, l := range p.Letters {
				if before, has := last[l.Partition]; seen[l.LetterRef] || has && l.Offset > before || l.Error != "error 1" {
					t.Fatalf("%+v: %s comes behind offset %d", c, l.LetterRef, before)
				}
				seen[l.LetterRef], last[l.Partition] = true, l.Offset
			}
			q.After = p.Next
		}
		if len(seen) != 33 {
			t.Errorf("%+v: %d letters of 33 were listed", c, len(seen))
		}
	}
}

func TestAListHoldsNoMoreThanItsPages(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 200_000, 4)
	p, err := s.Letters(t.Context(), Actor{}, LetterQuery{LetterSelection: LetterSelection{Topics: []string{"shop.order"}}}, o)
	if err != nil || len(p.Letters) != DefaultPage || o.read != 4*DefaultLetterWindow || p.Letters[0].Offset != 49_999 || p.Looks[0] != (LetterLook{"shop.order-dlt", 0, 49_000, 50_000, 1000, 0, 50_000}) {
		t.Errorf("%d letters of %d that were read, %v: %+v", len(p.Letters), o.read, err, p.Looks)
	}
}

func TestATopicIsTakenForWhatItIs(t *testing.T) {
	t.Parallel()
	o, _ := newOffice(t, 1, 1)
	for _, name := range []string{"shop.payment", "shop.invoice.DLT", "shop.order-retry-1000", "sink-errors"} {
		o.topics[name] = make([][]*LetterRecord, 1)
		o.add(name, 0, 1, func(r *LetterRecord) {
			if name == "shop.payment" {
				r.Form = ""
			}
		})
	}
	for _, c := range []struct {
		name  string
		force bool
		want  string
		code  Code
	}{
		{"shop.order", false, "shop.order-dlt", ""}, {"shop.order-dlt", false, "shop.order-dlt", ""}, {"shop.order", true, "shop.order", ""}, {"shop.invoice", false, "shop.invoice.DLT", ""},
		{"sink-errors", false, "sink-errors", ""}, {"shop.payment", false, "", CodeConflict}, {"shop.payment", true, "shop.payment", ""}, {"shop.order-retry-1000", false, "", CodeConflict},
		{"shop.gone", false, "", CodeNotFound}, {"shop.gone-dlt", false, "", CodeNotFound}, {"shop.gone", true, "", CodeNotFound},
	} {
		got, err := findLetterTopic(t.Context(), o, c.name, c.force)
		if CodeOf(err) != c.code || c.code == "" && got.name != c.want {
			t.Errorf("%s, force %v: %s, %v", c.name, c.force, got.name, err)
		}
	}
}

func TestARedriveSendsEachLetterOnceInTheOrderOfItsPartition(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 1200, 2)
	report, err := s.Redrive(t.Context(), boss, all(), RedriveConfirmed{Any: true}, o, nil)
	if err != nil || report.Done != 1200 || report.Total != 1200 || len(o.sent) != 1200 || len(o.redriven) != 1200 || o.mostRead > letterPage {
		t.Fatalf("%+v, %v; %d sent, %d at once", report, err, len(o.sent), o.mostRead)
	}
	for i, sent := range o.sent {
		if want := fmt.Sprintf("shop.order/%d %d", i/600, i%600*2+i/600); sent != want {
			t.Fatalf("record %d is %s, want %s", i, sent, want)
		}
	}
	report, err = s.Redrive(t.Context(), boss, all(), RedriveConfirmed{Any: true}, o, nil)
	if err != nil || report.AlreadyDone != 1200 || len(o.sent) != 1200 {
		t.Errorf("the second time: %+v, %v, %d sent", report, err, len(o.sent))
	}
	again := all()
	again.Again, again.To, again.Error = true, "shop.other", "error 2"
	if report, err = s.Redrive(t.Context(), boss, again, RedriveConfirmed{Any: true}, o, nil); err != nil || report.Done != 400 || o.sent[1200] != "shop.other/-1 2" {
		t.Errorf("again: %+v, %v, %s", report, err, o.sent[1200])
	}
	if got := strings.Join(o.audited, "\n"); strings.Count(got, "ann redrive {") != 3 || !strings.Contains(got, `"error":"error 2"`) {
		t.Errorf("the audit has %s", got)
	}
}

// A process that dies between Kafka and the database sends that page again, and no other.
func TestARedriveThatDiesRepeatsAtMostAPage(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 1200, 1)
	o.onSend = func() {
		if len(o.sent) == 500 {
			o.markFails = errors.New("the database is away")
		}
	}
	report, err := s.Redrive(t.Context(), boss, all(), RedriveConfirmed{Any: true}, o, nil)
	if err == nil || !strings.Contains(err.Error(), "500 letters were sent and could not be written down") || !strings.Contains(err.Error(), "run the same redrive again to go on") || report.Done != 1000 || report.Untouched != 200 {
		t.Fatalf("%+v, %v", report, err)
	}
	o.onSend, o.markFails = nil, nil
	report, err = s.Redrive(t.Context(), boss, all(), RedriveConfirmed{Any: true}, o, nil)
	if err != nil || report.AlreadyDone != 500 || report.Done != 700 || len(o.sent) != 1700 || o.sent[1000] != o.sent[500] {
		t.Errorf("%+v, %v, %d sent", report, err, len(o.sent))
	}
}

func TestARedriveThatIsStoppedSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o, s := newOffice(t, 1200, 1)
	o.onSend = cancel
	report, err := s.Redrive(ctx, boss, all(), RedriveConfirmed{Any: true}, o, nil)
	if err != nil || report.State != JobCancelled || report.Done != 500 || len(o.redriven) != 500 || report.Untouched != 700 || !strings.Contains(report.Note, "run the same redrive again") {
		t.Errorf("%+v, %v; %d are remembered", report, err, len(o.redriven))
	}
	o.onSend, o.loseAt = nil, o.calls+2
	report, err = s.Redrive(t.Context(), boss, all(), RedriveConfirmed{Any: true}, o, nil)
	if err == nil || !strings.Contains(err.Error(), "the client is gone; run the same redrive again") || report.Done+report.AlreadyDone != 500 || report.State != JobFailed {
		t.Errorf("%+v, %v", report, err)
	}
	if !strings.Contains(o.place, "run the same redrive again") {
		t.Errorf("whoever finds the job of a process that was killed reads %q", o.place)
	}
}

func TestWhatCannotBeSentIsToldAndTheRestGoes(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 7, 1)
	o.gone["shop.gone"] = errors.New("UNKNOWN_TOPIC_OR_PARTITION shop.gone")
	o.add("shop.order-dlt", 0, 100, func(r *LetterRecord) { r.Original.Topic = "shop.gone" })
	o.add("shop.order-dlt", 0, 101, func(r *LetterRecord) { r.Original, r.Form = nil, "" })
	o.add("shop.order-dlt", 0, 102, func(r *LetterRecord) { r.Form = LetterOfRelay })
	o.add("shop.order-dlt", 0, 103, func(r *LetterRecord) { r.Original.Topic = "shop.order-dlt" })
	o.add("shop.order-dlt", 0, 3, func(r *LetterRecord) { r.Value = []byte("behind") })
	o.add("shop.order-dlt", 0, 3, func(r *LetterRecord) { r.Key = nil })
	o.failing["3"] = errors.New("MESSAGE_TOO_LARGE")
	o.handled["e-5"], o.handled["e-100"] = struct{}{}, struct{}{}
	request := all()
	request.Consumer, request.Rate = "billing", 10
	plan, err := s.PlanRedrive(t.Context(), boss, request, o, nil)
	if err != nil || plan.Letters != 13 || plan.Count != 9 || *plan.Handled != 1 || len(plan.Refused) != 4 || !slices.Equal(plan.Topics, []TopicCount{{"shop.order", 9}}) || len(plan.Errors) != 3 {
		t.Fatalf("%+v, %v", plan, err)
	}
	synctest.Test(t, func(t *testing.T) {
		report, err := s.Redrive(t.Context(), boss, request, RedriveConfirmed{Count: plan.Count, Through: plan.Through}, o, nil)
		if err != nil || report.Done != 6 || report.Failed != 7 || report.State != JobDone {
			t.Fatalf("%+v, %v", report, err)
		}
		reasons := fmt.Sprint(report.Reasons)
		for _, want := range []string{"shop.gone", "no header says", "outbox events restore", "from shop.order-dlt itself", "MESSAGE_TOO_LARGE", "held back: one before it of its key has failed"} {
			if !strings.Contains(reasons, want) {
				t.Errorf("the reasons lack %q: %s", want, reasons)
			}
		}
	})
}

func TestNoMoreIsSentThanWasAgreedTo(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 10, 2)
	plan, err := s.PlanRedrive(t.Context(), boss, all(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.add("shop.order-dlt", 0, 10, func(*LetterRecord) {})
	report, err := s.Redrive(t.Context(), boss, all(), RedriveConfirmed{Count: plan.Count, Through: plan.Through}, o, nil)
	if err != nil || report.Done != 10 || len(o.sent) != 10 {
		t.Errorf("%+v, %v", report, err)
	}
	_, err = s.Redrive(t.Context(), boss, all(), RedriveConfirmed{}, o, nil)
	if p, asks := RedrivePlanOf(err); CodeOf(err) != CodeUnconfirmed || !asks || p.Count != 1 || p.Redriven != 10 {
		t.Errorf("%v, %+v", err, p)
	}
	for name, act := range map[string]func(Actor) error{
		"redrive": func(a Actor) error {
			_, err := s.Redrive(t.Context(), a, all(), RedriveConfirmed{Any: true}, o, nil)
			return err
		},
		"purge": func(a Actor) error {
			_, err := s.PurgeLetters(t.Context(), a, LetterPurge{Topics: []string{"shop.order"}, All: true}, LetterPurgeConfirmed{Any: true}, o, nil)
			return err
		},
	} {
		role := Viewer
		if name == "purge" {
			role = Operator
		}
		if err := act(Actor{Name: "eve", Role: role}); CodeOf(err) != CodeForbidden {
			t.Errorf("%s by a %s: %v", name, role, err)
		}
	}
	if len(o.sent) != 10 || len(o.deleted) > 0 {
		t.Errorf("%d were sent and %v deleted", len(o.sent), o.deleted)
	}
	l, err := s.Letter(t.Context(), Actor{}, LetterRef{"shop.order", 0, 1}, false, o)
	if err != nil || !l.Withheld || l.Value != nil || l.Headers != nil || l.Redriven == nil {
		t.Errorf("a viewer sees %+v, %v", l, err)
	}
}

func TestLettersThatAreNamedAreSentAndNoOthers(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 10_000, 2)
	r := Redrive{LetterSelection: LetterSelection{Refs: []LetterRef{{"shop.order", 1, 4000}, {"shop.order-dlt", 0, 7}, {"shop.order-dlt", 0, 5}, {"shop.order", 0, 5}}}}
	report, err := s.Redrive(t.Context(), boss, r, RedriveConfirmed{Any: true}, o, nil)
	if err != nil || report.Done != 3 || !slices.Equal(o.sent, []string{"shop.order/0 10", "shop.order/0 14", "shop.order/1 8001"}) {
		t.Errorf("%+v, %v: %v", report, err, o.sent)
	}
	o.first[LetterRange{Topic: "shop.order-dlt"}] = 100
	for ref, want := range map[LetterRef]string{
		{"shop.order-dlt", 0, 7}: "was deleted: the first that is left is 100", {"shop.order-dlt", 0, 5000}: "yet: the last one is 4999", {"shop.order-dlt", 2, 0}: "has 2 partitions, and none of the number 2",
	} {
		r.Refs = []LetterRef{{"shop.order", 1, 1}, ref}
		if _, err := s.Redrive(t.Context(), boss, r, RedriveConfirmed{Any: true}, o, nil); CodeOf(err) != CodeNotFound || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if len(o.sent) != 3 {
		t.Errorf("%v were sent", o.sent)
	}
}

func TestAPurgeLosesNoLetterUnlessItsNumberWasNamed(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 20, 2)
	for i := range int64(10) {
		o.redriven[LetterRef{"shop.order-dlt", 0, i}] = "ann"
	}
	purge := LetterPurge{Topics: []string{"shop.order"}, Before: noon.Add(15 * time.Second)}
	for _, lost := range []int64{0, 6, 8} {
		_, err := s.PurgeLetters(t.Context(), boss, purge, LetterPurgeConfirmed{Any: true, Lost: lost}, o, nil)
		if p, asks := LetterPurgePlanOf(err); CodeOf(err) != CodeUnconfirmed || !asks || p.Lost != 7 || p.Letters != 15 || len(o.deleted) > 0 {
			t.Errorf("%d agreed to: %v, %+v, %v", lost, err, p, o.deleted)
		}
	}
	done, err := s.PurgeLetters(t.Context(), boss, purge, LetterPurgeConfirmed{Any: true, Lost: 7}, o, nil)
	slices.Sort(o.deleted)
	if err != nil || done.Letters != 15 || !slices.Equal(o.deleted, []string{"shop.order-dlt/0 before 8", "shop.order-dlt/1 before 7"}) || len(o.redriven) != 2 {
		t.Errorf("%+v, %v; deleted %v, remembered %v", done, err, o.deleted, o.redriven)
	}
	o.deleted = nil
	through := LetterPurge{Through: []LetterRef{{"shop.order", 0, 8}, {"shop.order", 0, 9}}}
	if done, err = s.PurgeLetters(t.Context(), boss, through, LetterPurgeConfirmed{Letters: 2}, o, nil); err != nil || done.Letters != 2 || !slices.Equal(o.deleted, []string{"shop.order-dlt/0 before 10"}) {
		t.Errorf("%+v, %v; deleted %v", done, err, o.deleted)
	}
}

func TestAPurgeOfOneConsumersLettersEndsInFrontOfAnothers(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 20, 2)
	for partition, letters := range o.topics["shop.order-dlt"] {
		for i, l := range letters {
			if l.Consumer = "billing"; partition == 0 && i == 4 || partition == 1 && i == 0 {
				l.Consumer = "shipping"
			}
		}
	}
	purge := LetterPurge{Topics: []string{"shop.order"}, All: true, FailedBy: "billing"}
	done, err := s.PurgeLetters(t.Context(), boss, purge, LetterPurgeConfirmed{Any: true, Lost: 4}, o, nil)
	stops := []PurgeStop{{LetterRef{"shop.order-dlt", 0, 4}, "shipping"}, {LetterRef{"shop.order-dlt", 1, 0}, "shipping"}}
	if err != nil || done.Letters != 4 || !slices.Equal(o.deleted, []string{"shop.order-dlt/0 before 4"}) || !slices.Equal(done.Stops, stops) {
		t.Errorf("%+v, %v; deleted %v", done, err, o.deleted)
	}
	if _, err := s.PlanLetterPurge(t.Context(), boss, LetterPurge{Through: []LetterRef{{"shop.order", 0, 8}}, FailedBy: "billing"}, o, nil); CodeOf(err) != CodeInvalid {
		t.Errorf("a consumer beside letters that are named: %v", err)
	}
}

func TestAPurgeLosesNoLetterWhoseEventIsAmongTheDeadOnes(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 10, 1)
	o.redriven[LetterRef{"shop.order-dlt", 0, 0}] = "ann"
	o.kept = map[LetterRef]struct{}{{"shop.order-dlt", 0, 0}: {}}
	for i := range int64(8) {
		o.kept[LetterRef{"shop.order-dlt", 0, 1 + i}] = struct{}{}
	}
	purge := LetterPurge{Topics: []string{"shop.order"}, All: true}
	p, err := s.PlanLetterPurge(t.Context(), boss, purge, o, nil)
	if err != nil || p.Letters != 10 || p.Kept != 8 || p.Lost != 1 || p.Partitions[0].Lost != 1 {
		t.Errorf("%+v, %v, want 8 of 10 kept and 1 lost", p, err)
	}
}

func TestRequestsOnLettersAreChecked(t *testing.T) {
	t.Parallel()
	o, s := newOffice(t, 1, 1)
	ref := []LetterRef{{"shop.order-dlt", 0, 0}}
	for name, do := range map[string]func() error{
		"no letters": func() error { _, err := s.PlanRedrive(t.Context(), boss, Redrive{}, o, nil); return err },
		"both": func() error {
			_, err := s.PlanRedrive(t.Context(), boss, Redrive{LetterSelection: LetterSelection{Topics: []string{"t"}, Refs: ref}}, o, nil)
			return err
		},
		"refs and a filter": func() error {
			_, err := s.PlanRedrive(t.Context(), boss, Redrive{LetterSelection: LetterSelection{Refs: ref, LetterFilter: LetterFilter{Error: "x"}}}, o, nil)
			return err
		},
		"no time": func() error {
			r := all()
			r.From, r.Until = noon, noon
			_, err := s.PlanRedrive(t.Context(), boss, r, o, nil)
			return err
		},
		"rate": func() error {
			r := all()
			r.Rate = -1
			_, err := s.PlanRedrive(t.Context(), boss, r, o, nil)
			return err
		},
		"to a dlt": func() error {
			r := all()
			r.To = "x-dlt"
			_, err := s.PlanRedrive(t.Context(), boss, r, o, nil)
			return err
		},
		"window": func() error {
			_, err := s.Letters(t.Context(), boss, LetterQuery{LetterSelection: all().LetterSelection, Window: -1}, o)
			return err
		},
		"limit": func() error {
			_, err := s.Letters(t.Context(), boss, LetterQuery{LetterSelection: all().LetterSelection, Limit: MaxPage + 1}, o)
			return err
		},
		"cursor": func() error {
			_, err := s.Letters(t.Context(), boss, LetterQuery{LetterSelection: all().LetterSelection, After: "e30"}, o)
			return err
		},
		"purge of what": func() error { _, err := s.PlanLetterPurge(t.Context(), boss, LetterPurge{}, o, nil); return err },
		"purge how far": func() error {
			_, err := s.PlanLetterPurge(t.Context(), boss, LetterPurge{Topics: []string{"shop.order"}}, o, nil)
			return err
		},
		"purge both ways": func() error {
			_, err := s.PlanLetterPurge(t.Context(), boss, LetterPurge{Topics: []string{"shop.order"}, All: true, Before: noon}, o, nil)
			return err
		},
	} {
		if err := do(); CodeOf(err) != CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
