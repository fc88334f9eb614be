package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// fakeLane is one lane's lease.
type fakeLane struct {
	owner   Owner
	epoch   int64
	expires time.Time
}

func (l fakeLane) taken() bool { return l.expires.After(time.Now()) }

// fakeRelay is one relay's registration.
type fakeRelay struct {
	until, seen time.Time
	standing    Standing
	// proved is when it showed that it can publish; zero: never.
	proved time.Time
	// silent is for how long Kafka was silent at the last report.
	silent time.Duration
}

func (r *fakeRelay) alive() bool { return r != nil && r.until.After(time.Now()) }

// register is what a claim does.
func (f *fakeTable) register(id uuid.UUID, ttl time.Duration) *fakeRelay {
	r := f.relays[id]
	if r == nil {
		r = &fakeRelay{}
		f.relays[id] = r
	}
	r.until, r.seen = time.Now().Add(ttl), time.Now()
	return r
}

// tried returns how many relays share the lanes: owner, and the others that are alive and tried.
func (f *fakeTable) tried(owner Owner) int {
	n := 1
	for id, r := range f.relays {
		if id != owner.ID && r.alive() && r.standing == StandingTried {
			n++
		}
	}
	return n
}

// newcomer tells whether another relay waits to be tried, and none is.
func (f *fakeTable) newcomer(owner Owner) (waits bool) {
	for id, r := range f.relays {
		if id == owner.ID || !r.alive() || r.standing == StandingTried {
			continue
		}
		if slices.ContainsFunc(f.lanes, func(l fakeLane) bool { return l.owner.ID == id && l.taken() }) {
			return false
		}
		waits = waits || r.standing == StandingAlive && time.Since(r.seen) < 2*time.Second
	}
	return waits
}

// provedAgo is how long ago another relay could publish; 0: never.
func (f *fakeTable) provedAgo(owner Owner) time.Duration {
	ago := time.Duration(0)
	for id, r := range f.relays {
		if d := time.Since(r.proved); id != owner.ID && r.alive() && r.standing >= StandingAlive && !r.proved.IsZero() && (ago == 0 || d < ago) {
			ago = max(d, time.Microsecond)
		}
	}
	return ago
}

func (s *fakeSource) Report(ctx context.Context, owner Owner, r Report) error {
	return s.call(ctx, "report", func() error {
		me := s.table.relays[owner.ID]
		if me == nil {
			return nil
		}
		me.seen, me.standing, me.silent = time.Now(), max(me.standing, r.Standing), r.Silent
		if at := time.Now().Add(-r.Proved); r.Proved > 0 && at.After(me.proved) {
			me.proved = at
		}
		return nil
	})
}

func (s *fakeSource) StandBy(ctx context.Context, owner Owner, ttl time.Duration, r Report) error {
	return s.call(ctx, "stand by", func() error {
		me := s.table.register(owner.ID, ttl)
		me.standing, me.silent = StandingNew, r.Silent
		if at := time.Now().Add(-r.Proved); r.Proved > 0 && at.After(me.proved) {
			me.proved = at
		}
		return nil
	})
}

func (s *fakeSource) Claim(ctx context.Context, owner Owner, ttl time.Duration, held Claim) (c Claim, err error) {
	err = s.call(ctx, "claim", func() error {
		if err := s.owns(held); err != nil {
			return err
		}
		f, until := s.table, time.Now().Add(ttl)
		me := f.register(owner.ID, ttl)
		s.owner = owner
		mine, most := 0, Share(len(f.lanes), f.tried(owner))
		if me.standing < StandingTried && f.tried(owner) > 1 {
			most = min(most, 1)
		}
		for i := range f.lanes {
			if f.lanes[i].owner == owner {
				mine++
			}
		}
		c.Owner = owner
		for i := range f.lanes {
			l := &f.lanes[i]
			if l.owner != owner {
				if l.taken() || mine >= most {
					continue
				}
				if l.owner != (Owner{}) {
					c.Abandoned = append(c.Abandoned, int32(i))
				}
				l.owner = owner
				l.epoch++
				mine++
			} else if len(held.Lanes) == 0 {
				l.epoch++
			}
			l.expires = until
			c.Lanes, c.Epochs = append(c.Lanes, int32(i)), append(c.Epochs, l.epoch)
		}
		return nil
	})
	return c, err
}

func (s *fakeSource) Look(ctx context.Context, owner Owner) (v View, err error) {
	err = s.call(ctx, "look", func() error {
		f := s.table
		v.Relays, v.Newcomer, v.Proved, v.Requests = f.tried(owner), f.newcomer(owner), f.provedAgo(owner), len(f.requests) > 0
		v.Pauses = f.pausesName()
		for _, l := range f.lanes {
			switch {
			case !l.taken():
				v.Free++
			case l.owner != owner:
				v.Holder, v.Expires = l.owner, time.Until(l.expires)
			}
		}
		return nil
	})
	return v, err
}

func (s *fakeSource) owns(c Claim) error {
	for _, lane := range c.Lanes {
		if err := s.ownsLane(c, lane); err != nil {
			return err
		}
	}
	return nil
}

func (s *fakeSource) ownsLane(c Claim, lane int32) error {
	l := s.table.lanes[lane]
	if i := slices.Index(c.Lanes, lane); i < 0 || l.owner.ID != c.Owner.ID || l.epoch != c.Epochs[i] {
		return ErrLeaseLost
	}
	return nil
}

func (s *fakeSource) Renew(ctx context.Context, c Claim, ttl time.Duration) error {
	return s.call(ctx, "renew", func() error {
		if err := s.owns(c); err != nil {
			return err
		}
		until := time.Now().Add(ttl)
		if me := s.table.relays[c.Owner.ID]; me != nil {
			me.until, me.seen = until, time.Now()
		}
		for _, lane := range c.Lanes {
			s.table.lanes[lane].expires = until
		}
		return nil
	})
}

func (s *fakeSource) Release(ctx context.Context, c Claim) error {
	return s.call(ctx, "release", func() error {
		if s.owns(c) == nil {
			s.table.free(c.Owner, c.Lanes)
		}
		return nil
	})
}

func (s *fakeSource) Leave(ctx context.Context, c Claim) error {
	return s.call(ctx, "leave", func() error {
		f := s.table
		if s.owns(c) == nil {
			f.free(c.Owner, c.Lanes)
		}
		for _, l := range f.lanes {
			if l.owner == c.Owner {
				return nil
			}
		}
		delete(f.relays, c.Owner.ID)
		return nil
	})
}

func (f *fakeTable) free(owner Owner, lanes []int32) {
	for _, lane := range lanes {
		f.lanes[lane].owner, f.lanes[lane].expires = Owner{}, time.Time{}
	}
}

func (s *fakeSource) ParkedKeys(ctx context.Context, lanes []int32) (parked []ParkedKey, err error) {
	err = s.call(ctx, "parked", func() error {
		for _, p := range s.table.parked {
			if slices.Contains(lanes, s.table.lane(p.Key)) {
				parked = append(parked, p)
			}
		}
		return nil
	})
	return parked, err
}

func (s *fakeSource) Park(ctx context.Context, c Claim, keys []ParkedKey) (gone []Key, err error) {
	err = s.call(ctx, "park", func() error {
		seen := map[Key]bool{}
		for _, p := range keys {
			if seen[p.Key] {
				return fmt.Errorf("key %v is given twice", p.Key)
			}
			seen[p.Key] = true
			if err := s.ownsLane(c, s.table.lane(p.Key)); err != nil {
				return err
			}
		}
		for _, p := range keys {
			if s.table.row(p.Event).published {
				gone = append(gone, p.Key)
				continue
			}
			s.table.parked[p.Key] = p
			if p.Code != CodeAggregateParked {
				s.table.fail(FailedEvent{Key: p.Key, Event: p.Event, EventType: p.EventType, Code: p.Code, Reason: p.Reason}).due = time.Time{}
			}
		}
		return nil
	})
	return gone, err
}

func (s *fakeSource) HoldTopics(ctx context.Context, owner Owner, change HeldChange) error {
	return s.call(ctx, "hold", func() error {
		if change.Anew {
			s.table.held = nil
		}
		s.table.held = append(slices.DeleteFunc(slices.Clone(s.table.held), func(h HeldTopic) bool { return slices.Contains(change.Released, h.Topic) }), change.Held...)
		return nil
	})
}

// Requests carries out a few requests at each call. Those whose keys are not ready are left for the next round, as is what was asked of their keys later.
func (s *fakeSource) Requests(ctx context.Context, c Claim, ready func([]Key) []Key) (done Carried, err error) {
	const atOnce = 3
	f := s.table
	f.mu.Lock()
	var mine []fakeRequest
	var keys []Key
	for _, r := range f.requests {
		if slices.Contains(c.Lanes, f.lane(r.key)) && !slices.Contains(s.left, r.key) && len(mine) < atOnce {
			mine, keys = append(mine, r), append(keys, r.key)
		}
	}
	f.mu.Unlock()
	idle := ready(keys)
	err = s.call(ctx, "requests", func() error {
		for _, r := range mine {
			at := slices.Index(f.requests, r)
			switch {
			case at < 0:
				continue
			case !slices.Contains(idle, r.key):
				s.left = append(s.left, r.key)
				continue
			case s.ownsLane(c, f.lane(r.key)) != nil:
				return ErrLeaseLost
			}
			f.requests = slices.Delete(f.requests, at, at+1)
			s.carryOut(r, &done)
			done.Done++
		}
		if done.More = len(mine) == atOnce; !done.More {
			s.left = nil
		}
		return nil
	})
	if err != nil {
		s.left = nil
	}
	return done, err
}

func (s *fakeSource) carryOut(r fakeRequest, done *Carried) {
	f := s.table
	p, parked := f.parked[r.key]
	switch r.verb {
	case "retry":
		for _, failing := range f.failing {
			if failing.Key == r.key && !failing.due.IsZero() {
				failing.due = time.Now()
			}
		}
	case "discard":
		if parked {
			f.row(p.Event).published = true
		}
	case "skip":
		row := f.row(r.ref)
		if row.published || row.event.EventID != r.ref.EventID {
			return
		}
		row.published, row.dead, row.everDead = true, true, true
		if parked = parked && p.Event == r.ref; !parked {
			done.Changed = append(done.Changed, r.key)
			return
		}
	case "restore":
		if row := f.row(r.ref); row.dead {
			row.published, row.dead = false, false
			done.Changed = append(done.Changed, r.key)
		}
		return
	}
	if parked {
		delete(f.parked, r.key)
		done.Released = append(done.Released, r.key)
	}
}

func (s *fakeSource) Pauses(ctx context.Context) (p Pauses, err error) {
	err = s.call(ctx, "pauses", func() error {
		p = Pauses{Name: s.table.pausesName(), All: slices.Clone(s.table.pauses)}
		return nil
	})
	return p, err
}

func (f *fakeTable) pausesName() string { return fmt.Sprint(f.pauses) }

// setPaused pauses or resumes one scope.
func (f *fakeTable) setPaused(p Pause, paused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.Index(f.pauses, p)
	switch {
	case paused && at < 0:
		f.pauses = append(slices.Clone(f.pauses), p)
	case !paused && at >= 0:
		f.pauses = slices.Delete(slices.Clone(f.pauses), at, at+1)
	}
}

// silent is what the relay last reported of Kafka's silence.
func (f *fakeTable) silent(owner uuid.UUID) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.relays[owner]; r != nil {
		return r.silent
	}
	return 0
}

// lastProof is how long ago Kafka answered the relay, as far as it has said.
func (f *fakeTable) lastProof(owner uuid.UUID) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.relays[owner].proved)
}
