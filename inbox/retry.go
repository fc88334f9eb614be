package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// failed decides on a record that could not be handled. Unsettled, it is tried again after wait. An error has [ErrUnavailable] in it.
func (r *Runner) failed(ctx context.Context, it *item, cause error) (settled bool, wait time.Duration, err error) {
	attempts, err := r.handling.Failed(ctx, it.Record, cause)
	switch {
	case errors.Is(err, ErrUnavailable):
		return false, 0, err
	case err != nil:
		return false, r.uncounted(ctx, it, err, cause), nil
	}
	it.failed = attempts
	r.count(func(s *Stats) { s.Failures++ })
	letter := r.letter(it.Record, attempts, cause)
	topic, delay := r.nextStop(it.Record, attempts, cause)
	switch {
	case topic != "":
		if delay > 0 {
			letter.NotBefore = letter.FailedAt.Add(delay)
		}
		settled, wait = r.sendOn(ctx, it, topic, letter, cause)
		return settled, wait, nil
	case r.cfg.Retry.GiveUp == Skip && r.exhausted(it.Record, attempts, cause):
		r.say("record skipped: the policy gives it up", it, attempts, cause)
		r.count(func(s *Stats) { s.Skipped++ })
		r.forget(ctx, it)
		return true, 0, nil
	}
	wait = r.cfg.Retry.wait(attempts, r.cfg.random)
	if IsPermanent(cause) {
		wait = r.cfg.Retry.MaxBackoff
	}
	if attempts == 1 || attempts == r.cfg.Retry.Attempts {
		r.say("record not handled: its key waits", it, attempts, cause, "again_in", wait.Round(time.Millisecond).String())
	}
	return false, wait, nil
}

// uncounted is how long the key of a record waits whose failure could not be written down: what is in the way may be this record's alone, and then no other one has to wait.
func (r *Runner) uncounted(ctx context.Context, it *item, err, cause error) (wait time.Duration) {
	it.failed++
	wait = r.cfg.Retry.wait(it.failed, r.cfg.random)
	if ctx.Err() == nil {
		r.lines.say(slog.LevelError, "record not handled, and its failure not written down: its key waits", "record", it.Place().String(),
			"error", fmt.Errorf("%w; it has failed by: %v", err, forLog(cause)), "again_in", wait.Round(time.Millisecond).String())
	}
	return wait
}

// exhausted tells that no attempt is left here. A retry topic has one.
func (r *Runner) exhausted(record *Record, attempts int, cause error) bool {
	_, again := r.stage(record)
	return IsPermanent(cause) || again || attempts >= r.cfg.Retry.Attempts
}

// nextStop is the topic that a record goes to; "" when it stays.
func (r *Runner) nextStop(record *Record, attempts int, cause error) (topic string, delay time.Duration) {
	if !r.exhausted(record, attempts, cause) {
		return "", 0
	}
	origin := r.origin(record)
	if next, _ := r.stage(record); next < len(r.cfg.Retry.Topics) && !IsPermanent(cause) {
		return RetryTopic(origin, r.cfg.Retry.Topics[next]), r.cfg.Retry.Topics[next]
	}
	if r.cfg.Retry.GiveUp == DeadLetter || isForLetter(cause) {
		return DeadLetterTopic(origin), 0
	}
	return "", 0
}

// stage is the index of the retry topic that comes next, and whether the record is in one already.
func (r *Runner) stage(record *Record) (next int, again bool) {
	for i, d := range r.cfg.Retry.Topics {
		if strings.HasSuffix(record.Topic, RetryTopic("", d)) {
			return i + 1, true
		}
	}
	return 0, false
}

// origin is the topic that the names of the others are made of.
func (r *Runner) origin(record *Record) string {
	if next, again := r.stage(record); again {
		return strings.TrimSuffix(record.Topic, RetryTopic("", r.cfg.Retry.Topics[next-1]))
	}
	return record.Topic
}

// letter says of the record's failure. What an earlier one says of its first place stays.
func (r *Runner) letter(record *Record, attempts int, cause error) Letter {
	l := Letter{Topic: record.Topic, Partition: record.Partition, Offset: record.Offset, Timestamp: record.Timestamp}
	if _, again := r.stage(record); again {
		if before := ReadLetter(record); before.Topic != "" {
			l, attempts = before, before.Attempts+attempts
		}
	}
	l.Consumer, l.Attempts, l.Error, l.FailedAt, l.NotBefore = r.handling.Consumer(), attempts, cause.Error(), r.cfg.now(), time.Time{}
	return l
}

// sendOn sends a record to another topic, because of an error. When that fails its key waits: it is nowhere else.
func (r *Runner) sendOn(ctx context.Context, it *item, topic string, l Letter, cause error) (settled bool, wait time.Duration) {
	if err := r.log.Send(ctx, topic, it.Record, letterHeaders(it.Record, l)); err != nil {
		wait := r.cfg.Retry.wait(it.failed, r.cfg.random)
		r.lines.say(slog.LevelError, "record not sent on: its key waits", "record", it.Place().String(), "topic", topic, "error", err, "again_in", wait.Round(time.Millisecond).String())
		return false, wait
	}
	r.count(func(s *Stats) {
		if l.NotBefore.IsZero() {
			s.DeadLettered++
		} else {
			s.Retried++
		}
	})
	r.say("record sent on", it, l.Attempts, cause, "to", topic)
	r.forget(ctx, it)
	return true, 0
}

// forget removes the count of a record's failures. One that stays is removed by retention.
func (r *Runner) forget(ctx context.Context, it *item) {
	if err := r.handling.Settled(ctx, it.Record); err != nil {
		r.lines.say(slog.LevelWarn, "a settled record is still written down as failed", "record", it.Place().String(), "error", err)
	}
}

func (r *Runner) count(f func(*Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.stats)
}

func (r *Runner) say(what string, it *item, attempts int, cause error, more ...any) {
	args := []any{"record", it.Place().String(), "attempts", attempts, "error", forLog(cause)}
	var p *panicError
	if errors.As(cause, &p) {
		args = append(args, "stack", string(p.stack))
	}
	r.lines.say(slog.LevelError, what, append(args, more...)...)
}

// notBefore is when a record of a retry topic is to be tried; zero for any other, and for another consumer's. What the record says is the time of the member that
// sent it, whose clock may be wrong: it is never believed beyond the topic's delay.
func (r *Runner) notBefore(it *item) time.Time {
	next, again := r.stage(it.Record)
	if !again || r.foreign(it.Record) {
		return time.Time{}
	}
	says, latest := ReadLetter(it.Record).NotBefore, it.arrived.Add(r.cfg.Retry.Topics[next-1])
	if says.After(latest) {
		return latest
	}
	return says
}
