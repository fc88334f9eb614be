package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// share keeps a relay's lanes at its fair share of the source's; the package comment shows the states of a lane. It runs on one goroutine, the only one that
// talks about leases, so that a renewal never names a lane that is being given back.
type share struct {
	*term
	// leaving are lanes that are to be given back, until when; unread those of them that were never read.
	leaving, unread []int32
	until           time.Time
	// reported is when this relay last said what it has shown, silent whether it said that Kafka answers nothing.
	reported time.Time
	silent   bool
	// retry is when lanes that did not drain may be tried again.
	retry time.Time
}

const (
	// lookEvery is how often lanes to be given back are looked at.
	lookEvery = 50 * time.Millisecond
	// leaveLimit is how long a lane may take to drain: all its keys wait meanwhile. slowKey is how long a key may be without an answer for its lane
	// to look as if it could.
	leaveLimit = 2 * time.Second
	slowKey    = time.Second
	// leaveAgain is how long lanes are kept that did not drain: they cannot for as long as brokers are away.
	leaveAgain = 30 * time.Second
)

// keep renews the leases and shares the lanes out until ctx ends.
func (t *term) keep(ctx context.Context) error {
	s := &share{term: t}
	looked := t.cfg.now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(s.pause(looked))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		var err error
		now := t.cfg.now()
		switch {
		case t.keeper.dueIn() <= 0:
			err = t.keeper.renew(ctx)
		case t.stopping.Load():
		case now.Sub(looked) >= t.cfg.LookInterval:
			looked = now
			err = s.look(ctx, now)
		case len(s.leaving) > 0:
			err = s.giveBack(ctx, now)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// pause is the time until there is something to do: the next renewal, the next look, or a look at the lanes that are to be left.
func (s *share) pause(looked time.Time) time.Duration {
	next := s.cfg.LookInterval - s.cfg.now().Sub(looked)
	if len(s.leaving) > 0 {
		next = min(next, lookEvery)
	}
	if s.stopping.Load() {
		next = s.cfg.LookInterval
	}
	return max(0, min(next, s.keeper.dueIn()))
}

// look asks what is paused, requested and stopped, and how the lanes are shared out, and takes or begins to leave what differs from the fair share. A newcomer is left one
// lane to be tried with: only when it works with that does it get the rest.
func (s *share) look(ctx context.Context, now time.Time) error {
	if err := s.showUp(ctx, now); err != nil {
		return err
	}
	var v View
	err := s.keeper.bounded(ctx, func(ctx context.Context) (err error) {
		v, err = s.source.Look(ctx, s.owner)
		return err
	})
	if err != nil {
		return fmt.Errorf("look at the lanes: %w", err)
	}
	s.free.Store(int64(v.Free))
	if v.Requests {
		s.requested.set()
	}
	if err := s.learnPauses(ctx, v.Pauses); err != nil {
		return err
	}
	if err := s.keeper.bounded(ctx, s.learnStopped); err != nil {
		return err
	}
	if silent := s.gate.silentFor(); s.outdone(v, silent) {
		return fmt.Errorf("nothing acknowledged for %s: %w", engine.Rounded(silent), errResigned)
	}
	held := s.keeper.current().Lanes
	over := len(held) - Share(s.info.Lanes, v.Relays)
	if v.Newcomer && v.Free == 0 && len(held) > Share(s.info.Lanes, v.Relays+1) {
		over = max(over, 1)
	}
	switch {
	case len(s.leaving) > 0:
	case over > 0 && !now.Before(s.retry):
		s.leave(held, over, now)
	case over < 0 && v.Free > 0 && !(v.Newcomer && v.Free == 1):
		return s.take(ctx)
	}
	return nil
}

// leave begins to leave some of the lanes, those that look as if they could drain. Lanes that were claimed a moment ago and are not read yet are left
// without more ado, in one step with the gate's: housekeeping must not hand them to the gate afterwards.
func (s *share) leave(held []int32, n int, now time.Time) {
	slow := s.gate.slow(held, now.Add(-slowKey))
	lanes := slices.DeleteFunc(slices.Clone(held), func(l int32) bool { return slices.Contains(slow, l) })
	lanes = lanes[max(0, len(lanes)-n):]
	if len(lanes) == 0 {
		s.stay(slow, now)
		return
	}
	defer func() { s.giveBackUntried(lanes) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving, s.until = lanes, now.Add(min(s.cfg.DrainTimeout, leaveLimit))
	s.unread = slices.DeleteFunc(slices.Clone(s.gained), func(l int32) bool { return !slices.Contains(lanes, l) })
	s.gained = slices.DeleteFunc(s.gained, func(l int32) bool { return slices.Contains(lanes, l) })
	s.gate.leave(lanes)
}

// stay says that lanes are kept which another relay should have, and tries again later.
func (s *share) stay(lanes []int32, now time.Time) {
	s.cfg.Logger.Warn("lanes kept that another relay should have: they do not drain", "table", s.info.Name, "lanes", lanes,
		"again_in", leaveAgain.String(), "note", "Kafka does not acknowledge their events, or they cannot be settled")
	s.retry = now.Add(leaveAgain)
}

// take claims free lanes. They are read when their parked keys are known.
func (s *share) take(ctx context.Context) error {
	held := s.keeper.current()
	var now Claim
	ok, err := s.keeper.prolong(ctx, "claim", func(ctx context.Context) (err error) {
		now, err = s.source.Claim(ctx, s.owner, s.cfg.LeaseTTL, held)
		return err
	})
	if !ok || err != nil {
		return err
	}
	gained := slices.DeleteFunc(slices.Clone(now.Lanes), func(l int32) bool { return slices.Contains(held.Lanes, l) })
	// First they are to be read, then they are this relay's: with Config.Once nothing may seem to be done in between.
	s.mu.Lock()
	s.gained = append(s.gained, gained...)
	s.mu.Unlock()
	s.careful.add(now.Abandoned)
	s.keeper.adopt(now)
	s.noteLanes(now)
	if len(gained) == 0 {
		return nil
	}
	s.counters.taken.Add(int64(len(gained)))
	s.cfg.Logger.Info("lanes taken", "table", s.info.Name, "which", ranges(gained), "gained", len(gained), "lanes", len(now.Lanes), "of", s.info.Lanes)
	s.toGain.set()
	return nil
}

// giveBack releases what has drained of the lanes that are to be left, and keeps the rest when the time is over.
func (s *share) giveBack(ctx context.Context, now time.Time) error {
	busy := s.gate.busy(s.leaving)
	drained := slices.DeleteFunc(slices.Clone(s.leaving), func(l int32) bool { return slices.Contains(busy, l) })
	if len(drained) > 0 {
		going, staying := s.keeper.current().split(drained)
		s.keeper.adopt(staying)
		s.noteLanes(staying)
		s.gate.forget(drained)
		err := s.keeper.bounded(ctx, func(ctx context.Context) error { return s.source.Release(ctx, going) })
		if err != nil {
			return fmt.Errorf("give lanes back: %w", err)
		}
		s.counters.returned.Add(int64(len(drained)))
		s.cfg.Logger.Info("lanes given back", "table", s.info.Name, "which", ranges(drained), "given", len(drained), "lanes", len(staying.Lanes), "of", s.info.Lanes)
		s.leaving = busy
	}
	if len(s.leaving) > 0 && !now.Before(s.until) {
		s.stay(s.leaving, now)
		s.comeBack()
	}
	return nil
}

// comeBack takes up again the lanes that are still to be left. Those whose parked keys were never read go through housekeeping.
func (s *share) comeBack() {
	var read, unread []int32
	for _, l := range s.leaving {
		if slices.Contains(s.unread, l) {
			unread = append(unread, l)
		} else {
			read = append(read, l)
		}
	}
	s.leaving, s.unread = nil, nil
	s.gate.gain(read)
	if len(unread) == 0 {
		return
	}
	s.mu.Lock()
	s.gained = append(s.gained, unread...)
	s.mu.Unlock()
	s.toGain.set()
}

// split takes lanes out of a claim.
func (c Claim) split(lanes []int32) (out, rest Claim) {
	out.Owner, rest.Owner = c.Owner, c.Owner
	for i, l := range c.Lanes {
		part := &rest
		if slices.Contains(lanes, l) {
			part = &out
		}
		part.Lanes, part.Epochs = append(part.Lanes, l), append(part.Epochs, c.Epochs[i])
	}
	return out, rest
}
