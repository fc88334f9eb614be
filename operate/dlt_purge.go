package operate

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// LetterPurge says what to delete of dead-letter topics. Kafka deletes from the beginning of a partition only: what is before an offset.
type LetterPurge struct {
	// Topics with Before: what is before the first record of that time or a later one, in each partition. A zero Before with All set is everything that is there.
	Topics []string  `json:"topics,omitempty"`
	Before time.Time `json:"before,omitzero"`
	All    bool      `json:"all,omitempty"`
	// Through are letters: each goes, with all that is before it in its partition.
	Through []LetterRef `json:"through,omitempty"`
	// FailedBy, unless "", is the consumer whose letters may go: in each partition it ends in front of the first one of another. Kafka deletes no letter alone.
	FailedBy string `json:"failed_by,omitempty"`
	// Force takes every topic for a dead-letter topic.
	Force bool `json:"force,omitempty"`
	// Reason is for the audit.
	Reason string `json:"-"`
}

func (p LetterPurge) check() error {
	switch {
	case len(p.Topics)+len(p.Through) == 0:
		return Refuse(CodeInvalid, "purge letters: name topics, or letters as TOPIC/PARTITION/OFFSET")
	case len(p.Topics) > 0 && len(p.Through) > 0:
		return Refuse(CodeInvalid, "purge letters: name topics or letters, not both")
	case len(p.Through) > 0 && (p.All || !p.Before.IsZero() || p.FailedBy != ""):
		return Refuse(CodeInvalid, "purge letters: letters that are named say how far it goes; leave time, consumer and all out")
	case len(p.Through) > MaxLetterRefs:
		return Refuse(CodeInvalid, "%d letters are named; at most %d can be", len(p.Through), MaxLetterRefs)
	case len(p.Topics) > 0 && p.All == !p.Before.IsZero():
		return Refuse(CodeInvalid, "purge letters: say up to which time, or all of them")
	case !storable(p.Reason):
		return Refuse(CodeInvalid, "the reason is no UTF-8, or holds a NUL")
	}
	return nil
}

// LetterPurgePlan is what a purge would delete.
type LetterPurgePlan struct {
	Partitions []PurgedPartition `json:"partitions"`
	// Letters are all that would go; Lost those of them that would be nowhere then: nobody has sent them back, nor are they Kept, which are those whose events the relay has given up and
	// outbox.dead_event has still.
	Letters int64 `json:"letters"`
	Lost    int64 `json:"lost"`
	Kept    int64 `json:"kept"`
	// Stops are the letters of other consumers than the request's, in front of which it ends.
	Stops []PurgeStop `json:"stops,omitempty"`
	// Errors are why the lost ones had failed, the most frequent first; at most 20 and "others".
	Errors []FailedFor `json:"errors"`
}

// PurgeStop is a letter that a purge leaves, and with it all that is behind it in its partition. Consumer is "" where no header says whose it is.
type PurgeStop struct {
	LetterRef
	Consumer string `json:"consumer,omitempty"`
}

// errStops ends a walk in front of another consumer's letter.
var errStops = errors.New("a letter of another consumer")

// PurgedPartition is a partition of which everything before an offset goes.
type PurgedPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Before    int64  `json:"before"`
	Letters   int64  `json:"letters"`
	Lost      int64  `json:"lost"`
	// Error is why it was not deleted; of a plan it is "".
	Error string `json:"error,omitempty"`
}

// LetterPurgeConfirmed is what somebody has agreed to.
type LetterPurgeConfirmed struct {
	// Letters is how many go, or with Any however many that are; Lost is how many of them may be lost, and has to be the number.
	Letters int64
	Any     bool
	Lost    int64
	// Plan, unless nil, has the offsets that were agreed to.
	Plan *LetterPurgePlan
}

// PlanLetterPurge says what [Service.PurgeLetters] would delete. It reads all of it.
func (s *Service) PlanLetterPurge(ctx context.Context, a Actor, p LetterPurge, k LetterTopics, progress func(Progress)) (LetterPurgePlan, error) {
	if err := a.may(VerbPurge); err != nil {
		return LetterPurgePlan{}, err
	}
	if err := p.check(); err != nil {
		return LetterPurgePlan{}, err
	}
	keeper, err := s.letters(ctx, k)
	if err != nil {
		return LetterPurgePlan{}, err
	}
	return planLetterPurge(ctx, p, k, keeper, nil, progress)
}

func planLetterPurge(ctx context.Context, p LetterPurge, k LetterTopics, keeper LetterKeeper, agreed *LetterPurgePlan, progress func(Progress)) (LetterPurgePlan, error) {
	ranges, err := p.ranges(ctx, k)
	if err != nil {
		return LetterPurgePlan{}, err
	}
	plan, errs := LetterPurgePlan{Partitions: []PurgedPartition{}}, textTally{}
	for _, r := range ranges {
		if r.To = agreed.end(r); r.From >= r.To {
			continue
		}
		part := PurgedPartition{Topic: r.Topic, Partition: r.Partition, Before: r.To}
		err := walkLetters(ctx, k, []LetterRange{r}, LetterFilter{}, letterPage, func(page []*LetterRecord) error {
			page, stop := p.own(page)
			if stop != nil {
				part.Before = stop.Offset
				plan.Stops = append(plan.Stops, PurgeStop{stop.LetterRef, stop.Consumer})
			}
			if len(page) == 0 && stop != nil {
				return errStops
			}
			if len(page) == 0 {
				return nil
			}
			redriven, err := keeper.RedrivenOf(ctx, page)
			if err != nil {
				return err
			}
			kept, err := keeper.KeptOf(ctx, page)
			if err != nil {
				return err
			}
			for _, l := range page {
				_, sent := redriven[l.LetterRef]
				_, keeps := kept[l.LetterRef]
				switch {
				case keeps && !sent:
					plan.Kept++
				case !sent:
					part.Lost++
					errs.add(errorText(l.Error), 1)
				}
			}
			part.Letters += int64(len(page))
			if progress != nil {
				progress(Progress{Done: plan.Letters + part.Letters})
			}
			if stop != nil {
				return errStops
			}
			return nil
		})
		if errors.Is(err, errStops) {
			err = nil
			if part.Letters == 0 {
				continue
			}
		}
		if err != nil {
			return LetterPurgePlan{}, fmt.Errorf("count the letters: %w", err)
		}
		plan.Letters, plan.Lost = plan.Letters+part.Letters, plan.Lost+part.Lost
		plan.Partitions = append(plan.Partitions, part)
	}
	plan.Errors = errs.sorted()
	return plan, nil
}

// own returns the letters in front of the first one of another consumer, and that; nil when there is none.
func (p LetterPurge) own(page []*LetterRecord) ([]*LetterRecord, *LetterRecord) {
	for i, l := range page {
		if p.FailedBy != "" && l.Consumer != p.FailedBy {
			return page[:i], l
		}
	}
	return page, nil
}

// end is the range's end, as far as it was agreed to.
func (p *LetterPurgePlan) end(r LetterRange) int64 {
	if p == nil {
		return r.To
	}
	for _, part := range p.Partitions {
		if part.Topic == r.Topic && part.Partition == r.Partition {
			return part.Before
		}
	}
	return 0
}

// ranges are from the beginning of each partition.
func (p LetterPurge) ranges(ctx context.Context, k LetterTopics) ([]LetterRange, error) {
	selection := LetterSelection{Topics: p.Topics, Refs: p.Through, Force: p.Force}
	found, err := selection.ranges(ctx, k, nil)
	if err != nil {
		return nil, err
	}
	var all []LetterRange
	for _, r := range found {
		if n := len(all) - 1; n >= 0 && all[n].Topic == r.Topic && all[n].Partition == r.Partition {
			all[n].To = r.To
			continue
		}
		all = append(all, r)
	}
	from, before := map[string][]LetterPartition{}, map[string]map[int32]int64{}
	for i := range all {
		r := &all[i]
		if from[r.Topic] == nil {
			if from[r.Topic], err = k.Partitions(ctx, r.Topic); err != nil {
				return nil, err
			}
			if !p.Before.IsZero() {
				if before[r.Topic], err = k.OffsetsFrom(ctx, r.Topic, p.Before); err != nil {
					return nil, err
				}
			}
		}
		t := letterTopic{r.Topic, from[r.Topic]}
		if part, ok := t.partition(r.Partition); ok {
			r.From = part.First
		}
		if at, given := before[r.Topic][r.Partition]; given {
			r.To = min(r.To, at)
		}
	}
	return all, nil
}

type unconfirmedPurge struct{ plan LetterPurgePlan }

func (u *unconfirmedPurge) Error() string {
	return fmt.Sprintf("%d to delete, %d of them to lose", u.plan.Letters, u.plan.Lost)
}

// LetterPurgePlanOf returns the plan that an error with [CodeUnconfirmed] asks to confirm.
func LetterPurgePlanOf(err error) (LetterPurgePlan, bool) {
	u, ok := errors.AsType[*unconfirmedPurge](err)
	if !ok {
		return LetterPurgePlan{}, false
	}
	return u.plan, true
}

// PurgeLetters deletes letters for good. Those that nobody has sent back are lost: unless their very number was agreed to, nothing is deleted. What is in the result was deleted also beside an
// error, but for the partitions that have one.
func (s *Service) PurgeLetters(ctx context.Context, a Actor, p LetterPurge, c LetterPurgeConfirmed, k LetterTopics, progress func(Progress)) (done LetterPurgePlan, err error) {
	if err := p.check(); err != nil {
		return LetterPurgePlan{}, err
	}
	err = s.audited(ctx, a, VerbPurge, p, p.Reason, func(int64) (change, error) {
		keeper, err := s.letters(ctx, k)
		if err != nil {
			return change{}, err
		}
		plan, err := planLetterPurge(ctx, p, k, keeper, c.Plan, progress)
		if err == nil {
			err = c.agreed(plan)
		}
		if err != nil {
			return change{}, err
		}
		done = plan
		deleted, lost, err := deleteLetters(ctx, keeper, k, &done)
		return change{affected: deleted, outcome: fmt.Sprintf("done: %d letters deleted, %d of them not sent back", deleted, lost)}, err
	})
	return done, err
}

func (c LetterPurgeConfirmed) agreed(p LetterPurgePlan) error {
	var text string
	switch {
	case p.Lost > 0 && p.Lost != c.Lost:
		text = fmt.Sprintf("purge would lose %d letters that nobody has sent back, and %d are agreed to: nothing was deleted", p.Lost, c.Lost)
	case !c.Any && p.Letters > c.Letters:
		text = fmt.Sprintf("purge would delete %d letters, and %d are confirmed: nothing was deleted", p.Letters, c.Letters)
	default:
		return nil
	}
	return &Error{Code: CodeUnconfirmed, Text: text, Err: &unconfirmedPurge{p}}
}

// deleteLetters deletes by topic, and writes into the plan what has failed. lost are those of the deleted that nobody has sent back.
func deleteLetters(ctx context.Context, keeper LetterKeeper, k LetterTopics, plan *LetterPurgePlan) (deleted, lost int64, err error) {
	offsets := map[string]map[int32]int64{}
	for _, p := range plan.Partitions {
		if offsets[p.Topic] == nil {
			offsets[p.Topic] = map[int32]int64{}
		}
		offsets[p.Topic][p.Partition] = p.Before
	}
	failed := map[string]map[int32]error{}
	var errs []error
	for topic, before := range offsets {
		var err error
		if failed[topic], err = k.DeleteBefore(ctx, topic, before); err != nil {
			failed[topic] = map[int32]error{}
			for n := range before {
				failed[topic][n] = err
			}
		}
	}
	for i := range plan.Partitions {
		p := &plan.Partitions[i]
		if err := failed[p.Topic][p.Partition]; err != nil {
			p.Error = err.Error()
			errs = append(errs, fmt.Errorf("partition %d of %s: %w", p.Partition, p.Topic, err))
			continue
		}
		deleted, lost = deleted+p.Letters, lost+p.Lost
		detached, cancel := detached(ctx)
		// What is remembered of records that are gone harms nobody: the next one forgets it.
		_ = keeper.ForgetRedriven(detached, p.Topic, p.Partition, p.Before)
		cancel()
	}
	return deleted, lost, errors.Join(errs...)
}
