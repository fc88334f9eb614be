package operate

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"
)

// Publisher publishes settled events again. Package kafka implements it.
type Publisher interface {
	// Open reaches the brokers, or says why not.
	Open(ctx context.Context) error
	// Republish publishes the events in order and returns when each is acknowledged or has failed: errs has one entry for each, nil when it is in Kafka. Each
	// record is the one that a relay makes, with one header more, x-outbox-replay, that holds the mark. When ctx ends it waits some seconds more for
	// what is on its way. err tells that the client is gone: some of errs are of events that may be in Kafka or not.
	Republish(ctx context.Context, events []Settled, mark string) (errs []error, err error)
	// Close ends the client.
	Close()
}

// The rates of a replay, in events a second.
const (
	DefaultReplayRate = 1_000
	MaxReplayRate     = 1_000_000
)

// MaxReplayMark is by how many bytes the header x-outbox-replay makes a record larger at most: 17 and the digits of the job's id, and one more in each of the lengths that Kafka writes before it.
const MaxReplayMark = 38

// Replay publishes settled events again, under their ids, in the order of their ids, marked by the header x-outbox-replay with the id of the job. It
// runs in the caller's process, as a job. What is paused is not published again either: a paused source or topic refuses or ends it, with [CodeConflict], and events of paused keys
// fail. rate is in events a second; 0 is [DefaultReplayRate]. Unpublished events are never touched.
func (s *Service) Replay(ctx context.Context, a Actor, b Bulk, rate int, c Confirmed, p Publisher, progress func(Progress)) (Report, error) {
	if b.Verb != VerbReplay {
		return Report{}, Refuse(CodeInvalid, "%s is no replay", b.Verb)
	}
	if rate == 0 {
		rate = DefaultReplayRate
	}
	if rate < 0 || rate > MaxReplayRate {
		return Report{}, Refuse(CodeInvalid, "rate %d: want 1 to %d events a second", rate, MaxReplayRate)
	}
	return s.runBulk(ctx, a, b, c, progress, func(ctx context.Context, b Bulk, j *job) error {
		if err := p.Open(ctx); err != nil {
			return fmt.Errorf("nothing was published: %w", err)
		}
		defer p.Close()
		return (&replaying{job: j, bulk: b, publisher: p, pace: pace{rate: rate}}).run(ctx)
	})
}

// replayPage is how many events are published at once at most.
const replayPage = 500

// replaying is a replay that runs.
type replaying struct {
	*job
	bulk      Bulk
	publisher Publisher
	pace      pace
	// page are the events of the page that failed, missed those of all pages before.
	page   []int64
	missed unreplayed
	// sent counts what was tried; last is the id up to which everything was.
	sent, last int64
	// pauses are what was paused when it was last looked at.
	pauses []Pause
	looked time.Time
}

func (r *replaying) run(ctx context.Context) error {
	defer func() {
		if r.cancelled && r.last != 0 && r.sent < r.planned {
			r.report.LastID, r.report.Note = r.last, r.howToGoOn()
		}
	}()
	for at := (Cursor{}); !at.End && r.sent < r.planned; {
		if ctx.Err() != nil {
			r.cancelled = true
		}
		if r.cancelled {
			return nil
		}
		page, err := r.store.Settled(ctx, r.bulk, at, int(min(int64(r.pace.page(replayPage)), r.planned-r.sent)))
		if ctx.Err() != nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the next events: %w; %s", err, r.howToGoOn())
		}
		at = page.Next
		before := r.sent
		if err := r.publish(ctx, page.Events); err != nil {
			return err
		}
		r.pace.rest(ctx, r.sent-before)
	}
	return nil
}

func (r *replaying) publish(ctx context.Context, events []Settled) error {
	r.page = nil
	free, tried, stop := r.unpaused(ctx, events)
	errs, lost := r.publisher.Republish(ctx, free, strconv.FormatInt(r.id, 10))
	for i, err := range errs {
		if err != nil {
			r.failedEvent(free[i].ID, err.Error())
		} else {
			r.report.Done++
		}
	}
	r.sent += int64(tried)
	if err := cmp.Or(lost, stop); err != nil && ctx.Err() != nil {
		r.cancelled = true
		return nil
	}
	if lost != nil {
		return fmt.Errorf("%w; %s", lost, r.howToGoOn())
	}
	if tried > 0 {
		r.last = events[tried-1].ID
		r.nameFailed()
		r.place = r.ifKilled()
	}
	if stop != nil {
		return fmt.Errorf("%w; %s", stop, r.howToGoOn())
	}
	detached, cancel := detached(ctx)
	defer cancel()
	return r.step(detached, r.report.Done, r.report.Failed)
}

func (r *replaying) howToGoOn() string {
	if r.last == 0 {
		return "run it again when that is mended"
	}
	return fmt.Sprintf("everything up to id %d was tried: go on with %s", r.last, r.rest())
}

// ifKilled is for who finds a job whose process was killed: it may have done more than it has written down.
func (r *replaying) ifKilled() string {
	text := fmt.Sprintf("everything up to id %d was tried, and some behind it may be: go on with %s", r.last, r.rest())
	if r.report.Again != "" {
		text += "; " + r.report.Again
	}
	return text
}

// rest names the events behind the last that were tried.
func (r *replaying) rest() string {
	if r.bulk.Only != nil {
		return "the larger ids"
	}
	return fmt.Sprintf("--min-id %d", r.last+1)
}
