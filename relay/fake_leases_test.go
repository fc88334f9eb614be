package relay

import (
	"context"
	"time"
)

func (s *fakeSource) Claim(ctx context.Context, owner Owner, ttl time.Duration) (c Claim, err error) {
	err = s.call(ctx, "claim", func() error {
		f, now := s.table, time.Now()
		if f.owner.ID != owner.ID && f.expires.After(now) {
			c = Claim{Owner: f.owner, Expires: f.expires.Sub(now)}
			return nil
		}
		if f.owner.ID != owner.ID {
			f.epoch++
		}
		f.owner, f.expires = owner, now.Add(ttl)
		c = Claim{Owner: owner, Held: true, Lanes: []int32{0}, Epochs: []int64{f.epoch}}
		return nil
	})
	return c, err
}

func (s *fakeSource) owns(c Claim) error {
	if s.table.owner.ID != c.Owner.ID || s.table.epoch != c.Epochs[0] {
		return ErrLeaseLost
	}
	return nil
}

func (s *fakeSource) Renew(ctx context.Context, c Claim, ttl time.Duration) error {
	return s.call(ctx, "renew", func() error {
		if err := s.owns(c); err != nil {
			return err
		}
		s.table.expires = time.Now().Add(ttl)
		return nil
	})
}

func (s *fakeSource) Release(ctx context.Context, c Claim) error {
	return s.call(ctx, "release", func() error {
		if s.owns(c) == nil {
			s.table.expires = time.Time{}
		}
		return nil
	})
}

func (s *fakeSource) ParkedKeys(ctx context.Context) (parked []ParkedKey, err error) {
	err = s.call(ctx, "parked", func() error {
		for _, p := range s.table.parked {
			parked = append(parked, p)
		}
		return nil
	})
	return parked, err
}

func (s *fakeSource) Park(ctx context.Context, c Claim, p ParkedKey) error {
	return s.call(ctx, "park", func() error {
		if err := s.owns(c); err != nil {
			return err
		}
		s.table.parked[p.Key] = p
		return nil
	})
}

func (s *fakeSource) HoldTopics(ctx context.Context, c Claim, held []HeldTopic) error {
	return s.call(ctx, "hold", func() error {
		if err := s.owns(c); err != nil {
			return err
		}
		s.table.held = held
		return nil
	})
}

func (s *fakeSource) Requests(ctx context.Context, c Claim, ready func(Key) bool) (released []Key, err error) {
	err = s.call(ctx, "requests", func() error {
		f := s.table
		if err := s.owns(c); err != nil {
			return err
		}
		var open []fakeRequest
		for _, r := range f.requests {
			p, parked := f.parked[r.key]
			switch {
			case !ready(r.key):
				open = append(open, r)
				continue
			case parked && r.verb == "discard":
				f.row(p.Event).published = true
			}
			delete(f.parked, r.key)
			released = append(released, r.key)
		}
		f.requests = open
		return nil
	})
	return released, err
}
