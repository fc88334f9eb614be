package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Bulk is a verb on everything that a filter finds.
type Bulk struct {
	// Verb is one of retry, skip, dead and restore, with Events; of unpark and skip, with Keys; or replay, with Events.
	Verb Verb
	// Events or Keys say to what; the other one is nil.
	Events *EventFilter
	Keys   *KeyFilter
	// Reason is needed for skip, dead and replay.
	Reason string

	// Only are the events that the filter names by their ids, once they were found; the [Service] sets it. The rest of the filter is then empty.
	Only []Target
}

// MarshalJSON is what the audit and the job keep of it.
func (b Bulk) MarshalJSON() ([]byte, error) {
	if b.Keys != nil {
		return json.Marshal(map[string]any{"keys": b.Keys})
	}
	return json.Marshal(map[string]any{"events": b.Events})
}

// filter is the filter as text.
func (b Bulk) filter() []byte {
	text, err := b.MarshalJSON()
	if err != nil {
		return []byte("{}")
	}
	return text
}

// Plan is what a bulk change would touch.
type Plan struct {
	// Count is how many events or keys.
	Count int64 `json:"count"`
	// Through is the highest id of what was found: newer events are not meant.
	Through int64 `json:"through,string,omitempty"`
	// Topics are those of what was found, with the number of each, by name.
	Topics []TopicCount `json:"topics"`
	// AlreadyDone are named events that need nothing any more, such as one to retry that is published.
	AlreadyDone int64 `json:"already_done"`
	// Missing are the ids that were named and that nothing has.
	Missing []string `json:"missing,omitempty"`
	// Refused are named events to which this cannot be done where they are.
	Refused []FailedFor `json:"refused,omitempty"`
	// Overtaken is of a restore: what is known of newer events of the same keys. Only [Service.Plan] looks for them, and [Service.Act] of one event, whose key it does not name.
	Overtaken *OvertakenEvents `json:"overtaken,omitempty"`
	// Largest is of a retry, an unpark and a restore: the largest records that were refused for their size. Only [Service.Plan] looks for them.
	Largest []TopicSize `json:"largest,omitempty"`
	// Notes are what to think of before one agrees.
	Notes []string `json:"notes,omitempty"`
}

// TopicCount is a number of events or keys of a topic.
type TopicCount struct {
	Topic string `json:"topic"`
	Count int64  `json:"count"`
}

// Confirmed is what somebody has agreed to.
type Confirmed struct {
	// Count and Through are those of the [Plan]. If there is more by now nothing is changed, and the error has [CodeUnconfirmed].
	Count, Through int64
	// Any agrees to whatever there is.
	Any bool
}

// Unconfirmed is the cause of an error with [CodeUnconfirmed].
type Unconfirmed struct{ Plan Plan }

func (u *Unconfirmed) Error() string { return fmt.Sprintf("%d to touch", u.Plan.Count) }

// bulkVerbs says what each verb can be applied to.
var bulkVerbs = map[Verb]struct{ events, keys, reason bool }{
	VerbRetry:   {events: true},
	VerbSkip:    {events: true, keys: true, reason: true},
	VerbDead:    {events: true, reason: true},
	VerbRestore: {events: true},
	VerbUnpark:  {keys: true},
	VerbReplay:  {events: true, reason: true},
}

// checked returns the request with what follows from the verb filled in.
func (b Bulk) checked() (Bulk, error) {
	verb, known := bulkVerbs[b.Verb]
	switch {
	case !known:
		return b, Refuse(CodeInvalid, "%s cannot be done to many: want retry, skip, dead, restore, unpark or replay", b.Verb)
	case (b.Events == nil) == (b.Keys == nil):
		return b, Refuse(CodeInvalid, "%s: want a filter of events or one of keys", b.Verb)
	case b.Events != nil && !verb.events:
		return b, Refuse(CodeInvalid, "%s is for keys, not for events", b.Verb)
	case b.Keys != nil && !verb.keys:
		return b, Refuse(CodeInvalid, "%s is for events, not for keys", b.Verb)
	case verb.reason && strings.TrimSpace(b.Reason) == "":
		return b, Refuse(CodeInvalid, "%s needs a reason: it is kept with what is done", b.Verb)
	case !storable(b.Reason):
		return b, Refuse(CodeInvalid, "the reason is no UTF-8, or holds a NUL")
	}
	if b.Keys != nil {
		q, err := KeyQuery{KeyFilter: *b.Keys}.normalized()
		b.Keys = &q.KeyFilter
		return b, err
	}
	return b.checkedEvents()
}

func (b Bulk) checkedEvents() (Bulk, error) {
	q, err := EventQuery{EventFilter: *b.Events}.normalized()
	if err != nil {
		return b, err
	}
	f := q.EventFilter
	if len(f.Refs) > 0 {
		named := EventFilter{State: StateAny, Refs: f.Refs}
		if !sameFilter(f, named) {
			return b, Refuse(CodeInvalid, "%s: name events by their ids, or filter them: not both", b.Verb)
		}
	}
	if f.State, err = b.Verb.state(f.State); err != nil {
		return b, err
	}
	b.Events = &f
	return b, nil
}

func sameFilter(a, b EventFilter) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// state narrows the state of a filter to what the verb is for.
func (v Verb) state(asked State) (State, error) {
	unpublished := []string{string(StateParked), string(StatePending), string(StateWaiting)}
	of := map[Verb][]string{
		VerbRetry:   {string(StateParked), string(StateWaiting)},
		VerbSkip:    unpublished,
		VerbDead:    unpublished,
		VerbRestore: {string(StateDead)},
		VerbReplay:  {string(StatePublished)},
	}[v]
	if asked == StateAny {
		if v == VerbRetry {
			// Whatever has failed.
			return StateAny, nil
		}
		return State(of[0]), nil
	}
	if !slices.Contains(of, string(asked)) {
		return "", Refuse(CodeInvalid, "%s is not for events that are %s, but for %s", v, asked, strings.Join(of, ", "))
	}
	return asked, nil
}

// Plan counts what a bulk change would touch, and changes nothing. progress, which may be nil, is told how far the count is.
func (s *Service) Plan(ctx context.Context, a Actor, b Bulk, progress func(Progress)) (Plan, error) {
	if err := a.may(b.Verb); err != nil {
		return Plan{}, err
	}
	b, err := b.checked()
	if err != nil {
		return Plan{}, err
	}
	b, p, err := s.plan(ctx, b, progress)
	if err == nil {
		err = s.largest(ctx, b, &p)
	}
	if err != nil || b.Verb != VerbRestore || p.Count == 0 {
		return p, err
	}
	found, err := s.overtaken(ctx, b, p.Count)
	if err != nil {
		return Plan{}, err
	}
	p.Overtaken, p.Notes = &found, append(found.notes(), p.Notes...)
	return p, nil
}

// plan counts, and returns the request with the events that it names.
func (s *Service) plan(ctx context.Context, b Bulk, progress func(Progress)) (Bulk, Plan, error) {
	if progress == nil {
		progress = func(Progress) {}
	}
	var p Plan
	var err error
	if b.Events != nil && len(b.Events.Refs) > 0 {
		b, p, err = s.planNamed(ctx, b)
	} else {
		p, err = s.planFilter(ctx, b, progress)
	}
	if err != nil {
		return b, Plan{}, err
	}
	p.Notes = append(append(p.Notes, b.notes()...), letterNotes(b.Only...)...)
	if b.Verb == VerbReplay {
		notes, err := s.replayable(ctx, p)
		if err != nil {
			return b, Plan{}, err
		}
		p.Notes = append(p.Notes, notes...)
	}
	return b, p, nil
}

func (s *Service) planFilter(ctx context.Context, b Bulk, progress func(Progress)) (Plan, error) {
	var p Plan
	topics, letters := map[string]int64{}, map[string]int64{}
	for at := (Cursor{}); !at.End; {
		m, err := s.store.Match(ctx, b, at, matchAtOnce)
		if err != nil {
			return Plan{}, fmt.Errorf("count what would be touched: %w", err)
		}
		p.Count += m.Count
		for t, n := range m.Topics {
			topics[t] += n
		}
		for t, n := range m.Letters {
			letters[t] += n
		}
		at = m.Next
		p.Through = max(p.Through, m.Last)
		progress(Progress{Done: p.Count})
	}
	p.Topics, p.Notes = topicCounts(topics), sentNotes(letters)
	if b.Events == nil {
		p.Through = 0
	}
	return p, nil
}

// planNamed looks the named events up. Those that are published need no retry; those of which the verb cannot be done are refused later one by one.
func (s *Service) planNamed(ctx context.Context, b Bulk) (Bulk, Plan, error) {
	found, missing, err := s.store.Find(ctx, b.Events.Refs)
	if err != nil {
		return b, Plan{}, fmt.Errorf("look for the events: %w", err)
	}
	var p Plan
	topics, refused := map[string]int64{}, map[string][]string{}
	b.Only = []Target{}
	for _, t := range found {
		if t.alreadyDone(b.Verb) {
			p.AlreadyDone++
			continue
		}
		if why := t.refused(b.Verb); why != "" {
			refused[why] = append(refused[why], strconv.FormatInt(t.ID, 10))
			continue
		}
		b.Only = append(b.Only, t)
		topics[t.Topic]++
	}
	for _, r := range missing {
		p.Missing = append(p.Missing, r.String())
	}
	slices.SortFunc(b.Only, func(a, b Target) int { return cmp.Compare(a.ID, b.ID) })
	p.Count, p.Topics, p.Refused = int64(len(b.Only)), topicCounts(topics), refusals(refused)
	return b, p, nil
}

// refusals are why events cannot, the most frequent first, with the ids of the first.
func refusals(ids map[string][]string) []FailedFor {
	counts := make(map[string]int64, len(ids))
	for why, named := range ids {
		counts[why] = int64(len(named))
	}
	list := failures(counts)
	for i, f := range list {
		list[i].IDs = ids[f.Text][:min(len(ids[f.Text]), mostNamed)]
	}
	return list
}

// alreadyDone tells that nothing is left to do.
func (t Target) alreadyDone(v Verb) bool {
	switch v {
	case VerbRetry:
		return t.State == StatePublished
	case VerbRestore:
		return t.State != StateDead
	case VerbSkip, VerbDead:
		return t.State == StateDead
	}
	return false
}

// refused says why a verb cannot be done to an event that is where it is; "" when it can.
func (t Target) refused(v Verb) string {
	switch {
	case t.State == StateDead && v != VerbRestore:
		return "it is dead: outbox events restore puts it back"
	case t.State == StatePublished && v != VerbReplay:
		return "it is published already: outbox replay publishes it again"
	case t.State == StatePending && v == VerbReplay:
		return "it is not published yet: only settled events are replayed"
	}
	return ""
}

func topicCounts(topics map[string]int64) []TopicCount {
	counts := make([]TopicCount, 0, len(topics))
	for _, t := range slices.Sorted(maps.Keys(topics)) {
		counts = append(counts, TopicCount{t, topics[t]})
	}
	return counts
}

func (b Bulk) notes() []string {
	switch b.Verb {
	case VerbReplay:
		return []string{
			"consumers that keep an inbox skip what they have handled, by its id, unless their inbox has forgotten it, as one does whose Retain is shorter than these events are old; the others handle it again",
			"replayed events come behind those of their keys that were published since",
			fmt.Sprintf("the header x-outbox-replay makes each record up to %d bytes larger than the relay's was: a max.message.bytes that is exactly a topic's largest record is too low", MaxReplayMark),
		}
	case VerbRestore:
		if b.mayFail() {
			return []string{"one that had failed, such as for MESSAGE_TOO_LARGE, fails again if the cause is still there: mend it first"}
		}
	case VerbSkip, VerbDead:
		var notes []string
		if b.Events != nil && b.Events.State == StatePending && b.Events.Error == "" && b.Only == nil {
			notes = append(notes, "these are all that match of what is unpublished, also those that have not failed and wait for their turn; --state parked or --state waiting takes only those that have failed")
		}
		return append(notes, "the events are kept in outbox.dead_event; outbox events restore puts them back, and one that had failed, such as for MESSAGE_TOO_LARGE, fails again then unless its cause is mended")
	}
	return nil
}

// mayFail tells of a restore whether some of the events may have been given up for an error.
func (b Bulk) mayFail() bool {
	return b.Only == nil || slices.ContainsFunc(b.Only, Target.failed)
}

// agreed compares what there is with what somebody has agreed to.
func (c Confirmed) agreed(b Bulk, p Plan) error {
	if c.Any || p.Count <= c.Count {
		return nil
	}
	return &Error{Code: CodeUnconfirmed, Text: fmt.Sprintf("%s would touch %d, and %d are confirmed: nothing was changed", b.Verb, p.Count, c.Count), Err: &Unconfirmed{p}}
}

// PlanOf returns the plan that an error with [CodeUnconfirmed] asks to confirm.
func PlanOf(err error) (Plan, bool) {
	u, ok := errors.AsType[*Unconfirmed](err)
	if !ok {
		return Plan{}, false
	}
	return u.Plan, true
}

// Run does a bulk change as a job, and returns when everything is carried out, or ctx ends: the job is then cancelled, and the report tells what
// had happened by then. The report is valid beside an error, as far as it goes. Replay is [Service.Replay].
func (s *Service) Run(ctx context.Context, a Actor, b Bulk, c Confirmed, progress func(Progress)) (Report, error) {
	if b.Verb == VerbReplay {
		return Report{}, Refuse(CodeInvalid, "replay needs a publisher")
	}
	return s.runBulk(ctx, a, b, c, progress, func(ctx context.Context, b Bulk, j *job) error {
		return (&asking{job: j, bulk: b, by: a.Name}).run(ctx)
	})
}

// runBulk counts, compares the count with what was confirmed, and has the work done as a job.
func (s *Service) runBulk(ctx context.Context, a Actor, b Bulk, c Confirmed, progress func(Progress), work func(context.Context, Bulk, *job) error) (Report, error) {
	b, err := b.checked()
	if err != nil {
		return Report{}, err
	}
	if c.Through > 0 && b.Events != nil && len(b.Events.Refs) == 0 && b.Events.MaxID == 0 {
		b.Events.MaxID = c.Through
	}
	var report Report
	err = s.audited(ctx, a, b.Verb, b, b.Reason, func(audit int64) (change, error) {
		planned, p, err := s.plan(ctx, b, progress)
		if err == nil {
			err = c.agreed(b, p)
		}
		if err != nil {
			return change{}, err
		}
		if planned.Events != nil && planned.Only == nil && planned.Events.MaxID == 0 {
			planned.Events.MaxID = p.Through
		}
		report, err = s.runJob(ctx, a, audit, planned, p, progress, work)
		return change{affected: report.Done, job: report.Job, outcome: report.summary()}, err
	})
	return report, err
}

func (s *Service) runJob(ctx context.Context, a Actor, audit int64, b Bulk, p Plan, progress func(Progress), work func(context.Context, Bulk, *job) error) (Report, error) {
	if p.Count == 0 {
		return p.decided(b.Verb), nil
	}
	j, err := s.startJob(ctx, a, audit, b, p, progress)
	if err != nil {
		return Report{}, err
	}
	defer j.keepSeen(ctx)()
	return j.end(ctx, work(ctx, b, j))
}

// decided reports what is named and needs nothing, cannot, or is not there: no job has to do anything about it, but it counts in the job that does the rest.
func (p Plan) decided(v Verb) Report {
	r := Report{Verb: v, State: JobDone, AlreadyDone: p.AlreadyDone, NotFound: int64(len(p.Missing)), Missing: p.Missing, Reasons: append([]FailedFor{}, p.Refused...)}
	for _, f := range p.Refused {
		r.Failed += f.Count
	}
	r.Total = r.AlreadyDone + r.NotFound + r.Failed
	return r
}
