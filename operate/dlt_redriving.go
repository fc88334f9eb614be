package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	pace pace
}

// heldLetter is a key of a dead-letter topic, and where its letters go.
type heldLetter struct{ from, to, key string }

// mostHeld bounds what is kept of failures: where so many fail, something else is wrong.
const mostHeld = 10_000

var (
	errRedriveCancelled = errors.New("cancelled")
	errUnmarked         = errors.New("letters were sent and could not be written down as sent, the next redrive sends them again")
	errManyFailed       = fmt.Errorf("letters of %d keys have failed: mend the cause, and run it again", mostHeld)
)

// onward says how to go on behind what was sent and written down.
const onward = "run the same redrive again to go on: what was sent is left out"

// run sends what is there before the ends of the plan.
func (r *redriving) run(ctx context.Context, through []LetterRef) error {
	ranges, err := r.redrive.ranges(ctx, r.kafka, through)
	if err != nil {
		return err
	}
	if err := r.keeper.MarkRedriven(ctx, nil, r.by); err != nil {
		return fmt.Errorf("nothing was sent: %w", err)
	}
	r.forgetGone(ctx, ranges)
	r.place = "it was sending letters: run the same redrive again; what is written down as sent is left out, and up to a page of letters may be sent twice"
	err = walkLetters(ctx, r.kafka, ranges, r.redrive.LetterFilter, r.pace.page(letterPage), func(page []*LetterRecord) error {
		if ctx.Err() != nil || r.cancelled {
			return errRedriveCancelled
		}
		return r.send(ctx, page)
	})
	r.cancelled = r.cancelled || errors.Is(err, errRedriveCancelled) || err != nil && ctx.Err() != nil
	switch {
	case errors.Is(err, errUnmarked):
		return fmt.Errorf("%w; %s", err, onward)
	case r.cancelled:
		r.report.Note = onward
		return nil
	case err != nil:
		return fmt.Errorf("%w; %s", err, onward)
	}
	return nil
}

// forgetGone forgets what was sent back and is not there any more. That something is remembered longer harms nobody, so that no error does.
func (r *redriving) forgetGone(ctx context.Context, ranges []LetterRange) {
	for i, at := range ranges {
		if i > 0 && at.Topic == ranges[i-1].Topic && at.Partition == ranges[i-1].Partition {
			continue // another letter of the same partition
		}
		partitions, err := r.kafka.Partitions(ctx, at.Topic)
		if err != nil {
			continue
		}
		t := letterTopic{at.Topic, partitions}
		if found, ok := t.partition(at.Partition); ok {
			_ = r.keeper.ForgetRedriven(ctx, at.Topic, at.Partition, found.First)
		}
	}
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
	detached, cancel := detached(ctx)
	defer cancel()
	if err := cmp.Or(r.mark(detached, r.sent(out, errs)), lost); err != nil {
		return err
	}
	if len(r.held) > mostHeld {
		return errManyFailed
	}
	if err := r.step(detached, r.report.Done+r.report.AlreadyDone, r.report.Failed); err != nil {
		return err
	}
	r.pace.rest(ctx, int64(len(out)))
	return nil
}

// sent are the letters that are in Kafka. Of the others the keys are held from now on.
func (r *redriving) sent(out []Resent, errs []error) (sent []*LetterRecord) {
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
	return sent
}

// mark writes down that letters were sent.
func (r *redriving) mark(ctx context.Context, sent []*LetterRecord) error {
	if len(sent) == 0 {
		return nil
	}
	r.report.Done += int64(len(sent))
	if err := r.keeper.MarkRedriven(ctx, sent, r.by); err != nil {
		return fmt.Errorf("%d %w: %w", len(sent), errUnmarked, err)
	}
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
