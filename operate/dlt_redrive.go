package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Redrive says which letters to send back, and how.
type Redrive struct {
	LetterSelection
	// To is the topic that they go to; "" sends each to its original one.
	To string `json:"to,omitempty"`
	// Again sends those as well that were sent back already.
	Again bool `json:"again,omitempty"`
	// Rate is in letters a second; 0 is [DefaultReplayRate].
	Rate int `json:"rate,omitempty"`
	// Consumer, unless "", is whose inbox is asked in the plan how many it has handled already.
	Consumer string `json:"consumer,omitempty"`
	// Reason is for the audit.
	Reason string `json:"-"`
}

func (r Redrive) check() error {
	switch {
	case r.Rate < 0 || r.Rate > MaxReplayRate:
		return Refuse(CodeInvalid, "rate %d: want 1 to %d letters a second", r.Rate, MaxReplayRate)
	case !storable(r.Reason):
		return Refuse(CodeInvalid, "the reason is no UTF-8, or holds a NUL")
	}
	if why := r.noTarget(r.To); why != "" {
		return Refuse(CodeInvalid, "%s", why)
	}
	return r.LetterSelection.check()
}

// RedrivePlan is what a redrive would do. Count, Redriven and those of Refused add up to Letters.
type RedrivePlan struct {
	// Letters is how many were found, Count how many of them would be sent.
	Letters int64 `json:"letters"`
	Count   int64 `json:"count"`
	// Events is how many events those to be sent are: several consumers may have given up the same. A letter without an event id counts as one.
	Events int64 `json:"events"`
	// Redriven were sent back already, and are left out.
	Redriven int64 `json:"redriven"`
	// Handled is how many of those to be sent the consumer's inbox has handled already: it will skip them. Nil when no consumer was named.
	Handled *int64 `json:"handled,omitempty"`
	// Topics are where they would go, Errors why they had failed, with numbers and ids left out, the most frequent first; at most 20 and
	// "others".
	Topics []TopicCount `json:"topics"`
	Errors []FailedFor  `json:"errors"`
	// Refused are those that cannot be sent, by why.
	Refused []FailedFor `json:"refused,omitempty"`
	// Through are the ends of the partitions as they were: what came later is not meant.
	Through []LetterRef `json:"through"`
	// Notes are what to think of before one agrees.
	Notes []string `json:"notes,omitempty"`
}

// PlanRedrive says what [Service.Redrive] would do. It reads everything that the selection ranges over, a page at a time.
func (s *Service) PlanRedrive(ctx context.Context, a Actor, r Redrive, k LetterTopics, progress func(Progress)) (RedrivePlan, error) {
	if err := a.may(VerbRedrive); err != nil {
		return RedrivePlan{}, err
	}
	if err := r.check(); err != nil {
		return RedrivePlan{}, err
	}
	keeper, err := s.letters(ctx, k)
	if err != nil {
		return RedrivePlan{}, err
	}
	p, err := planRedrive(ctx, r, nil, k, keeper, progress)
	if err == nil && p.Handled != nil && *p.Handled == 0 {
		if unknown := s.UnknownConsumer(ctx, a, r.Consumer); unknown != "" {
			p.Notes = append(p.Notes, unknown)
		}
	}
	return p, err
}

func planRedrive(ctx context.Context, r Redrive, through []LetterRef, k LetterTopics, keeper LetterKeeper, progress func(Progress)) (RedrivePlan, error) {
	ranges, err := r.ranges(ctx, k, through)
	if err != nil {
		return RedrivePlan{}, err
	}
	p := RedrivePlan{Through: []LetterRef{}}
	for _, at := range ranges {
		p.Through = append(p.Through, LetterRef{at.Topic, at.Partition, at.To})
	}
	c := &redriveCount{plan: &p, topics: map[string]int64{}, errors: textTally{}, refused: textTally{}, way: newWay(r, k), events: newEventSet()}
	err = walkLetters(ctx, k, ranges, r.LetterFilter, letterPage, func(page []*LetterRecord) error {
		if err := c.add(ctx, keeper, r, page); err != nil {
			return err
		}
		if progress != nil {
			progress(Progress{Done: p.Letters})
		}
		return nil
	})
	if err != nil {
		return RedrivePlan{}, fmt.Errorf("count the letters: %w", err)
	}
	p.Topics, p.Errors, p.Refused = topicCounts(c.topics), c.errors.sorted(), c.refused.sorted()
	p.Notes = r.notes(p, c.old)
	return p, nil
}

// redriveCount makes a plan.
type redriveCount struct {
	plan            *RedrivePlan
	topics          map[string]int64
	errors, refused textTally
	way             *way
	events          *eventSet
	// old is how many of those to be sent are of a time that inboxes have forgotten.
	old int64
}

func (c *redriveCount) add(ctx context.Context, keeper LetterKeeper, r Redrive, page []*LetterRecord) error {
	c.plan.Letters += int64(len(page))
	sorted, err := c.way.sort(ctx, keeper, page)
	if err != nil {
		return err
	}
	c.plan.Redriven += sorted.redriven
	c.old += sorted.old(time.Now().Add(-usuallyRemembered))
	for why, n := range sorted.refused {
		c.refused.add(why, n)
	}
	var ids []string
	for _, out := range sorted.out {
		c.topics[out.To]++
		c.errors.add(errorText(out.Error), 1)
		c.events.add(out.EventID)
		if out.EventID != "" {
			ids = append(ids, out.EventID)
		}
	}
	c.plan.Count += int64(len(sorted.out))
	c.plan.Events = c.events.n
	if r.Consumer == "" {
		return nil
	}
	if c.plan.Handled == nil {
		c.plan.Handled = new(int64)
	}
	handled, err := keeper.Handled(ctx, r.Consumer, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, is := handled[id]; is {
			*c.plan.Handled++
		}
	}
	return nil
}

// varying are the parts of an error in which many that are alike differ: ids, and numbers of two digits and more. A single digit is more often part of a name.
var varying = regexp.MustCompile(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9]{2,}`)

// errorText is the beginning of an error without what varies, for counts.
func errorText(s string) string {
	if s == "" {
		return "no error is said"
	}
	s, _, _ = strings.Cut(s, "\n")
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return varying.ReplaceAllString(s, "…")
}

// usuallyRemembered is for how long an inbox remembers events unless it is told otherwise.
const usuallyRemembered = 90 * 24 * time.Hour

func (r Redrive) notes(p RedrivePlan, old int64) []string {
	if p.Count == 0 {
		return nil
	}
	notes := []string{
		"they come behind what was sent of their keys since; a consumer that keeps an inbox skips those that it has handled, by their event ids, and the others handle them again",
	}
	if old > 0 {
		notes = append(notes, fmt.Sprintf(
			"%d of them are older than %d days, and inboxes remember no longer, unless Config.Retain says otherwise: other consumers of the topic, which have handled them when they were new, may handle them again; --to sends them to another topic",
			old, usuallyRemembered/(24*time.Hour)))
	}
	if p.Redriven > 0 {
		notes = append(notes, fmt.Sprintf("%d were sent back already, and are left out; --again sends them as well", p.Redriven))
	}
	return notes
}

// RedriveConfirmed is what somebody has agreed to: a plan's Count and Through. Any agrees to whatever there is.
type RedriveConfirmed struct {
	Count   int64
	Through []LetterRef
	Any     bool
}

// RedrivePlanOf returns the plan that an error with [CodeUnconfirmed] asks to confirm.
func RedrivePlanOf(err error) (RedrivePlan, bool) {
	u, ok := errors.AsType[*unconfirmedRedrive](err)
	if !ok {
		return RedrivePlan{}, false
	}
	return u.plan, true
}

type unconfirmedRedrive struct{ plan RedrivePlan }

func (u *unconfirmedRedrive) Error() string { return fmt.Sprintf("%d to send", u.plan.Count) }

// Redrive sends letters back, in the order of each partition, under their event ids, so that inboxes skip what they have handled. It runs in the caller's process, as a job. Each that is in
// Kafka is remembered in the database after that: a second redrive leaves it out, unless Again is set. A process that dies in between leaves some that are sent and not remembered: the next
// redrive sends them again. Letters that cannot be sent count as failed, and so do those of a key behind one that has failed; the others go.
func (s *Service) Redrive(ctx context.Context, a Actor, r Redrive, c RedriveConfirmed, k LetterTopics, progress func(Progress)) (Report, error) {
	if r.Rate == 0 {
		r.Rate = DefaultReplayRate
	}
	if err := r.check(); err != nil {
		return Report{}, err
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	var report Report
	err := s.audited(ctx, a, VerbRedrive, r, r.Reason, func(audit int64) (change, error) {
		keeper, err := s.letters(ctx, k)
		if err != nil {
			return change{}, err
		}
		p, err := planRedrive(ctx, r, c.Through, k, keeper, progress)
		if err == nil && !c.Any && p.Count > c.Count {
			err = &Error{Code: CodeUnconfirmed, Text: fmt.Sprintf("redrive would send %d, and %d are confirmed: nothing was sent", p.Count, c.Count), Err: &unconfirmedRedrive{p}}
		}
		if err != nil {
			return change{}, err
		}
		report, err = s.redrive(ctx, a, audit, r, p, k, keeper, progress)
		return change{affected: report.Done, job: report.Job, outcome: report.summary()}, err
	})
	return report, err
}

func (s *Service) redrive(ctx context.Context, a Actor, audit int64, r Redrive, p RedrivePlan, k LetterTopics, keeper LetterKeeper, progress func(Progress)) (Report, error) {
	if p.Letters == 0 {
		return Report{Verb: VerbRedrive, State: JobDone, Reasons: []FailedFor{}}, nil
	}
	filter, err := json.Marshal(r)
	if err != nil {
		return Report{}, fmt.Errorf("write down the filter: %w", err)
	}
	id, err := s.store.StartJob(ctx, JobStart{Audit: audit, Verb: VerbRedrive, Filter: filter, Actor: a.Name, Reason: r.Reason, Total: p.Letters})
	if err != nil {
		return Report{}, fmt.Errorf("write down the job; nothing was sent: %w", err)
	}
	j := &job{
		store: s.store, id: id, progress: progress, reasons: reasons{}, reported: time.Now(),
		report: Report{Job: id, Verb: VerbRedrive, Total: p.Letters},
	}
	defer j.keepSeen(ctx)()
	if err := s.alone(ctx, id, p); err != nil {
		return j.end(ctx, err)
	}
	return j.end(ctx, (&redriving{job: j, redrive: r, by: a.Name, kafka: k, keeper: keeper, way: newWay(r, k), pace: pace{rate: r.Rate}, held: map[heldLetter]struct{}{}}).run(ctx, p.Through))
}
