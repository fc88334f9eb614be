package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// renewals is how often a relay renews its lease while it lasts.
const renewals = 3

// ending is a way in which a relay stops working.
type ending struct {
	name   string
	signal syscall.Signal
	// repeats tells that what was in flight may come again.
	repeats bool
	target  string
	met     func(took time.Duration, ttl time.Duration) bool
}

func endings() []ending {
	within := func(took, ttl time.Duration) bool { return took <= ttl }
	return []ending{
		{"clean stop (SIGTERM)", syscall.SIGTERM, false, "below 1 s", func(took, _ time.Duration) bool { return took < time.Second }},
		{"crash (SIGKILL)", syscall.SIGKILL, true, "within one lease", within},
		{"freeze (SIGSTOP)", syscall.SIGSTOP, true, "within one lease", within},
	}
}

// takeover measures how long the keys of a relay that stops wait for the next one.
func (b *bench) takeover(ctx context.Context) (all []Measure, err error) {
	found := map[string][]gap{}
	err = b.withProgram(ctx, func(p program) error {
		for pair := range b.pairs {
			// A lease that was renewed just now lasts longer than one that is about to be: the runs are spread evenly over the time between two renewals.
			after := opening + time.Duration(2*pair+1)*b.leaseTTL/time.Duration(renewals*2*b.pairs)
			for _, e := range endings() {
				g, err := b.takeoverOnce(ctx, p, e, after)
				if err != nil {
					return fmt.Errorf("%s: %w", e.name, err)
				}
				found[e.name] = append(found[e.name], g)
				b.say("takeover %d/%d  %-22s first record %6.2f s, every lane %6.2f s, longest wait %6.2f s", pair+1, b.pairs, e.name,
					g.first.Seconds(), g.every.Seconds(), g.wait.Seconds())
			}
		}
		return nil
	})
	for _, e := range endings() {
		if gaps := found[e.name]; len(gaps) > 0 {
			all = append(all, e.measures(gaps, b.leaseTTL)...)
		}
	}
	return all, err
}

// measures are the figures of an ending.
func (e ending) measures(gaps []gap, ttl time.Duration) []Measure {
	one := func(name string, of func(gap) time.Duration) Measure {
		var values []float64
		for _, g := range gaps {
			values = append(values, of(g).Seconds())
		}
		return alone(Measure{Name: "takeover: " + e.name + ", " + name, Unit: "s", Better: lower}, values)
	}
	first := one("first record by the next", func(g gap) time.Duration { return g.first })
	target := e.target
	if e.repeats {
		target += fmt.Sprintf(" (%s)", ttl)
	}
	first.aim(target, e.met(time.Duration(first.Ours.Median*float64(time.Second)), ttl))
	return []Measure{
		first,
		one("longest wait of an event", func(g gap) time.Duration { return g.wait }),
	}
}

// takeoverOnce ends one of two relays some time after the writers have begun to write, and returns what that was like at the topic.
func (b *bench) takeoverOnce(ctx context.Context, p program, e ending, after time.Duration) (g gap, err error) {
	s := b.stand
	err = s.withTopic(ctx, func(topic string) error {
		if err := errors.Join(s.table.clear(ctx), s.table.rest(ctx)); err != nil {
			return err
		}
		l, err := s.listen(ctx, topic)
		if err != nil {
			return err
		}
		defer l.Close()
		team, err := p.startTeam(ctx, 2, "--lease-ttl", b.leaseTTL.String())
		if err != nil {
			return err
		}
		defer team.kill()
		done, at, victim, err := b.endOne(ctx, team, e, after, topic, l)
		if err != nil {
			return err
		}
		if g, err = l.gap(done, at, victim); err != nil {
			return err
		}
		if err := team[1].stop(ctx); err != nil {
			return err
		}
		return s.verifyTakeover(ctx, topic, e.repeats)
	})
	return g, err
}

// endOne lets the writers write, ends the first relay, and goes on until the second one has published events of every lane. It returns what was
// committed, when the signal was sent, and who the first relay was.
func (b *bench) endOne(ctx context.Context, t team, e ending, after time.Duration, topic string, l *listener) (done commits, at time.Time, v victim, err error) {
	w, err := b.stand.openWriters(ctx, b.writers, topic)
	if err != nil {
		return nil, at, v, err
	}
	defer w.Close()
	stop := make(chan struct{})
	written := make(chan error, 1)
	go func() {
		var err error
		done, err = w.each(func(one *writer) error { return one.writeUntil(ctx, stop, b.interval()) })
		written <- err
	}()
	at, v, err = b.signalUnderLoad(ctx, t, e, after, l)
	if err == nil {
		err = b.awaitNext(ctx, t[1], v, at, l)
	}
	close(stop)
	if err := errors.Join(err, <-written); err != nil {
		return nil, at, v, err
	}
	return done, at, v, l.await(ctx, len(done))
}

// signalUnderLoad sends the first relay its signal when the load has been on for that long and the topic shows who publishes which lane.
func (b *bench) signalUnderLoad(ctx context.Context, t team, e ending, after time.Duration, l *listener) (at time.Time, v victim, err error) {
	if err := pause(ctx, after); err != nil {
		return at, v, err
	}
	lanes, of, err := b.stand.lanesOf(ctx, t[0].pid())
	if err != nil {
		return at, v, err
	}
	v = victim{lanes: lanes, of: of}
	err = poll(ctx, arrivalLimit, func() (bool, error) {
		v.producers = l.producers(v)
		return len(v.producers) > 0, t.alive()
	})
	if err != nil {
		return at, v, fmt.Errorf("wait for records of the relay that will be ended: %w", err)
	}
	at = time.Now()
	return at, v, t[0].signal(e.signal)
}

// awaitNext returns when the topic holds a record by another relay of each of the victim's lanes.
func (b *bench) awaitNext(ctx context.Context, next *process, v victim, at time.Time, l *listener) error {
	err := poll(ctx, 4*b.leaseTTL+stopLimit, func() (bool, error) {
		return len(l.taken(v, at)) == len(v.lanes), next.alive()
	})
	if err != nil {
		return fmt.Errorf("wait until the other relay has taken over: %w", err)
	}
	return nil
}

// interval is the time between two transactions of one writer.
func (b *bench) interval() time.Duration {
	return time.Duration(b.writers) * time.Second / time.Duration(b.rate)
}

// verifyTakeover is verify, in which events may come again after a crash.
func (s *stand) verifyTakeover(ctx context.Context, topic string, repeats bool) error {
	l, err := s.table.ledger(ctx)
	if err != nil {
		return err
	}
	if !repeats {
		return s.verify(ctx, topic, s.table, l)
	}
	a, err := s.audit(ctx, topic, l)
	if err != nil {
		return err
	}
	a.repeated = 0
	return a.verdict()
}

// lanesOf reads which lanes the relay of a process has, and how many there are in all. Relays are registered by host and process id.
func (s *stand) lanesOf(ctx context.Context, pid int) (lanes map[int]bool, of int, err error) {
	const sql = `SELECT s.lanes, array_agg(l.lane)
FROM outbox.source s JOIN outbox.lane l ON l.source = s.id JOIN outbox.relay r ON r.source = s.id AND r.owner = l.owner
WHERE s.table_schema = 'public' AND s.table_name = $1 AND split_part(r.name, ':', -1) = $2 GROUP BY s.lanes`
	var held []int
	if err := s.pool.QueryRow(ctx, sql, s.table.name, fmt.Sprint(pid)).Scan(&of, &held); err != nil {
		return nil, 0, fmt.Errorf("read the lanes of the relay %d: %w", pid, err)
	}
	lanes = map[int]bool{}
	for _, lane := range held {
		lanes[lane] = true
	}
	return lanes, of, nil
}
