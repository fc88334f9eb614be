package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// redriving is a redrive that runs.
type redriving struct {
	*job
	redrive Redrive
	by      string
	kafka   LetterTopics
	keeper  LetterKeeper
	way     *way
	// held are the keys of which a letter has failed.
	held map[heldLetter]struct{}
	// due is when the next page may go out by the rate; zero before the first.
	due time.Time
}

// heldLetter is a key of a dead-letter topic, and where its letters go.
type heldLetter struct{ from, to, key string }

// mostHeld bounds what is kept of failures: where so many fail, something else is wrong.
const mostHeld = 10_000

var (
	errRedriveCancelled = errors.New("cancelled")
	errManyFailed       = fmt.Errorf("letters of %d keys have failed: mend the cause, and run it again", mostHeld)
)

// run sends what is there before the ends of the plan.
func (r *redriving) run(ctx context.Context, through []LetterRef) error {
	ranges, err := r.redrive.ranges(ctx, r.kafka, through)
	if err != nil {
		return err
	}
	if err := r.keeper.MarkRedriven(ctx, nil, r.by); err != nil {
		return fmt.Errorf("nothing was sent: %w", err)
	}
	for _, at := range ranges {
		// What was sent back and is not there any more needs no remembering. That it is remembered longer harms nobody.
		if p, err := r.kafka.Partitions(ctx, at.Topic); err == nil {
			t := letterTopic{at.Topic, p}
			if found, ok := t.partition(at.Partition); ok {
				_ = r.keeper.ForgetRedriven(ctx, at.Topic, at.Partition, found.First)
			}
		}
	}
	r.place = "it was sending letters: run the same redrive again; what is written down as sent is left out, and up to a page of letters may be sent twice"
	err = walkLetters(ctx, r.kafka, ranges, r.redrive.LetterFilter, min(max(r.redrive.Rate/10, 1), letterPage), func(page []*LetterRecord, _ int64) error {
		if ctx.Err() != nil || r.cancelled {
			return errRedriveCancelled
		}
		return r.send(ctx, page)
	})
	const onward = "run the same redrive again to go on: what was sent is left out"
	if r.cancelled = r.cancelled || errors.Is(err, errRedriveCancelled) || err != nil && ctx.Err() != nil; r.cancelled {
		r.report.Note, err = onward, nil
	}
	if err != nil {
		err = fmt.Errorf("%w; %s", err, onward)
	}
	return err
}

// send sends a page, and remembers what is in Kafka, whatever else has happened.
func (r *redriving) send(ctx context.Context, page []*LetterRecord) error {
	sorted, err := r.way.sort(ctx, r.keeper, page)
	if err != nil {
		return err
	}
	r.report.AlreadyDone += sorted.redriven
	for why, n := range sorted.refused {
		r.failed(why, n)
	}
	out := r.free(sorted.out)
	errs, lost := r.kafka.Resend(ctx, out)
	var sent []*LetterRecord
	for i, err := range errs {
		if err == nil {
			sent = append(sent, out[i].LetterRecord)
			continue
		}
		r.failed(err.Error(), 1)
		if out[i].Key != nil {
			r.held[heldOf(out[i])] = struct{}{}
		}
	}
	detached, cancel := detached(ctx)
	defer cancel()
	marked := error(nil)
	if len(sent) > 0 {
		marked = r.keeper.MarkRedriven(detached, sent, r.by)
	}
	r.report.Done += int64(len(sent))
	if marked != nil {
		marked = fmt.Errorf("%d letters were sent and could not be written down as sent, the next redrive sends them again: %w", len(sent), marked)
	}
	if err := cmp.Or(marked, lost); err != nil {
		return err
	}
	if len(r.held) > mostHeld {
		return errManyFailed
	}
	if err := r.step(detached, r.report.Done+r.report.AlreadyDone, r.report.Failed); err != nil {
		return err
	}
	r.pace(ctx, len(out))
	return nil
}

func heldOf(l Resent) heldLetter { return heldLetter{l.Topic, l.To, string(l.Key)} }

// free leaves those out of whose key one has failed.
func (r *redriving) free(letters []Resent) []Resent {
	free := letters[:0:0]
	for _, l := range letters {
		if _, held := r.held[heldOf(l)]; held && l.Key != nil {
			r.failed("held back: one before it of its key has failed", 1)
			continue
		}
		free = append(free, l)
	}
	return free
}

// pace rests as long as n letters take by the rate, from the end of the first page on.
func (r *redriving) pace(ctx context.Context, n int) {
	if r.due.IsZero() {
		r.due = time.Now()
	}
	if late := time.Now().Add(-catchUp); r.due.Before(late) {
		r.due = late
	}
	r.due = r.due.Add(time.Duration(n) * time.Second / time.Duration(r.redrive.Rate))
	rest(ctx, time.Until(r.due))
}
