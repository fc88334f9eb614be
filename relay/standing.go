package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// A relay is counted by the others only when it has shown itself: a process that crashes again and again must not take their lanes away, and one that cannot
// publish must not keep lanes from one that can.

// reportEvery is how often a relay says what it has shown, once it is tried.
func (r *Relay) reportEvery() time.Duration { return engine.ReportEvery(r.cfg.LeaseTTL) }

// report is what the relay can say of itself now.
func (r *Relay) report(s Standing) Report {
	rep := Report{Standing: s}
	if at := r.proved.Load(); at != nil {
		rep.Proved = max(time.Microsecond, r.cfg.now().Sub(*at))
	}
	if silent := r.unheard(); silent >= engine.WorthReporting {
		rep.Silent = silent
	}
	return rep
}

// unheard is for how long Kafka has answered nothing: neither events that are outstanding nor the question that is asked while none are.
func (r *Relay) unheard() (silent time.Duration) {
	if g := r.counters.gate.Load(); g != nil && r.counters.lanes.Load() > 0 {
		silent = g.silentFor()
	}
	if since := r.unanswered.Load(); since != nil {
		silent = max(silent, r.cfg.now().Sub(*since))
	}
	return silent
}

// tryReport reports while the relay waits for lanes.
func (r *Relay) tryReport(ctx context.Context, s Standing) error {
	attempt, cancel := r.life.Attempt(ctx)
	defer cancel()
	if err := r.source.Report(attempt, r.owner, r.report(s)); err != nil {
		return err
	}
	r.standing = s
	return nil
}

// showUp reports when it is time to: at each look until this relay has worked with its lanes, and at once when Kafka falls silent or answers again: whoever looks at an
// incident must not be told of an outage that is over.
func (s *share) showUp(ctx context.Context, now time.Time) error {
	silent := s.unheard() >= engine.WorthReporting
	if s.standing == StandingTried && silent == s.silent && now.Sub(s.reported) < s.reportEvery() {
		return nil
	}
	standing := StandingAlive
	if s.standing == StandingTried || s.works() {
		standing = StandingTried
	}
	report := s.report(standing)
	err := s.keeper.bounded(ctx, func(ctx context.Context) error { return s.source.Report(ctx, s.owner, report) })
	if err != nil {
		return fmt.Errorf("report to the other relays: %w", err)
	}
	s.standing, s.reported, s.silent = standing, now, report.Silent > 0
	return nil
}

// works tells that the term has begun and that Kafka takes what it publishes, if there was anything.
func (t *term) works() bool {
	if !t.begun.Load() {
		return false
	}
	_, outstanding := t.gate.load()
	return outstanding == 0 || t.counters.published.Load() > t.published
}

// noteProof remembers that Kafka has just acknowledged something, or that the brokers have answered.
func (r *Relay) noteProof() {
	now := r.cfg.now()
	r.proved.Store(&now)
	if r.unanswered.Load() != nil {
		r.unanswered.Store(nil)
	}
}

// noteUnanswered remembers that the brokers did not answer a question that was asked at the time.
func (r *Relay) noteUnanswered(asked time.Time) { r.unanswered.CompareAndSwap(nil, &asked) }

// standBy shows a relay that cannot work now: else nobody would see that it is there, and why it does nothing. What it shows is worth no failure.
func (r *Relay) standBy(ctx context.Context) {
	attempt, cancel := r.life.Attempt(ctx)
	defer cancel()
	rep := r.report(StandingNew)
	rep.Silent = r.unheard()
	r.registered, r.lease, r.standing = true, Claim{Owner: r.owner}, StandingNew
	if err := r.source.StandBy(attempt, r.owner, r.cfg.LeaseTTL, rep); err != nil {
		r.cfg.Logger.Debug("show that the relay stands by", "error", err)
	}
}

// showCutOff has a relay stand by whose brokers do not answer. One that has resigned still has its lanes, and is seen with them until it hands them back.
func (r *Relay) showCutOff(ctx context.Context) {
	if r.unanswered.Load() != nil && !r.resigned {
		r.standBy(ctx)
	}
}

// askFor has the prober ask for a topic until something is published: a relay could ask for none else while everything is parked.
func (r *Relay) askFor(topic string) { r.topic.CompareAndSwap(nil, &topic) }

// noteTopic remembers a topic that can be published to.
func (r *Relay) noteTopic(name string) {
	if last := r.topic.Load(); last == nil || *last != name {
		r.topic.Store(&name)
	}
}

// prober asks the brokers whether they are there while nothing is outstanding whose acknowledgement would show it: so that a relay that is cut off knows
// whom to leave its lanes to. It asks for a topic that this relay has published to, or that it knows of a parked key or a failed event; one without any cannot ask, and has only the proof of its start.
type prober struct {
	*term
	asked time.Time
}

func (p *prober) ask(ctx context.Context) {
	now, topic := p.cfg.now(), p.topic.Load()
	if topic == nil || now.Sub(p.asked) < p.reportEvery() {
		return
	}
	if at := p.proved.Load(); at != nil && now.Sub(*at) < p.reportEvery() {
		return
	}
	if _, outstanding := p.gate.load(); outstanding > 0 {
		return
	}
	p.asked = now
	ctx, cancel := context.WithTimeout(ctx, p.cfg.LeaseTTL/3)
	defer cancel()
	if _, err := p.publisher.CheckTopics(ctx, []string{*topic}); err != nil {
		p.cfg.Logger.Debug("ask the brokers whether they are there", "error", err)
		p.noteUnanswered(now)
		return
	}
	p.noteProof()
}

// errResigned ends the term of a relay that Kafka does not answer while it answers another one. The client is destroyed as when a lease is lost, so that
// nothing of it arrives later, and the lanes are handed back when nothing can be on its way any more. It claims again when it has proved that it can publish.
var errResigned = errors.New("another relay can publish: lanes are left to it")

// outdone tells that Kafka has answered nothing for so long, while another relay had an answer well after that began, that the other one should have the lanes.
// Without the other's answer the brokers are away for everybody, and to move lanes would help nobody. The half leaves out an outage that does not begin for
// all relays in the same moment.
func (s *share) outdone(v View, silent time.Duration) bool {
	return !s.cfg.Once && silent >= s.cfg.StallTimeout && v.Proved > 0 && v.Proved <= silent-s.cfg.StallTimeout/2
}

// mostVain bounds how often the time doubles for which a relay that has resigned stands back.
const mostVain = 6

// noteResignation has the relay stand back for a while, for twice as long after each term in vain. A proof is not everything: brokers that answer
// questions and acknowledge nothing would have two relays resign in turns, and one that they hate would take a lane again and again.
func (t *term) noteResignation() {
	if t.counters.published.Load() > t.published {
		t.vain = 0
	}
	t.vain = min(t.vain+1, mostVain)
	t.holdBack = t.cfg.now().Add(t.cfg.StallTimeout << (t.vain - 1))
}

// leftLying is how many looks in a row have to find free lanes for nobody else to take them.
const leftLying = 3

// standBack waits until the relay may claim again after a resignation, or until lanes are left lying. It only stands by meanwhile, so that nobody makes room
// for it.
func (r *Relay) standBack(ctx context.Context) error {
	var shown time.Time
	for free := 0; free < leftLying && r.cfg.now().Before(r.holdBack); {
		if now := r.cfg.now(); now.Sub(shown) >= r.reportEvery() {
			r.standBy(ctx)
			shown = now
		}
		r.counters.lastTurn.Store(r.cfg.now().UnixNano())
		v, err := r.tryLook(ctx)
		if err != nil {
			return fmt.Errorf("claim lease: %w", err)
		}
		free++
		if v.Free == 0 {
			free = 0
		}
		r.noteWaiting(ctx, v)
		select {
		case <-ctx.Done():
			return &engine.StopError{Err: r.left()}
		case <-time.After(r.cfg.LookInterval):
		}
	}
	return nil
}

// handOver gives back the lanes of a relay that has resigned, after the pause in which something of it could still arrive.
func (r *Relay) handOver(ctx context.Context) {
	if !r.resigned {
		return
	}
	r.resigned, r.registered = false, true
	r.leave(ctx)
}
