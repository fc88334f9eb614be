//go:build integration && unix

package chaos_test

import (
	"bytes"
	"context"
	"os/exec"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/test/chaos/history"
	"github.com/outbox-relay/outbox/test/chaos/proxy"
)

// killBeforeTheAck kills a relay whose records no broker has seen.
func killBeforeTheAck(l *lab) {
	r := l.relays[0]
	for _, link := range r.kafka {
		link.Cut()
	}
	for _, s := range l.streams {
		l.mustWrite(s, 4)
	}
	l.while(func() bool { return l.unpublished() == 0 })
	over := l.begin(history.Fault{What: "kill -9", Repeats: true})
	r.kill()
	for _, link := range r.kafka {
		link.Reset() // what is on its way is lost with the network
		link.Heal()
	}
	over()
	r.start()
}

// rejectTheFirstOfTwo has the broker refuse an event while the next one of its key is ready to go, once in each topic: its limit is lowered while the event is on
// its way, for a relay that hears of it before sends nothing, and raised again.
func rejectTheFirstOfTwo(l *lab) {
	const large = 20_000
	link := l.relays[0].kafka[0]
	for _, s := range l.streams {
		link.Slow(600 * ms)
		sent := seen(link, l.lowering(s.Topic, large/5))
		if err := l.write(l.t.Context(), change{events: map[history.Stream]int{s: 1}, size: large}); err != nil {
			l.t.Fatal(err)
		}
		l.receive(sent, "the relay sends the large event")
		l.mustWrite(s, 1)
		l.await("the key is parked", func() bool {
			return l.count("SELECT count(*) FROM outbox.parked_key WHERE partition_key = $1", s.Key) == 1
		})
		link.Heal()
		l.while(func() bool {
			return l.count("SELECT count(*) FROM outbox_event WHERE partition_key = $1 AND published_at IS NULL", s.Key) == 1
		})
	}
	l.setTopics("max.message.bytes", "1000000")
	for _, s := range l.streams {
		l.command("keys", "unpark", "--topic", s.Topic, "--key", s.Key)
	}
}

// lowering looks for a large piece of data on its way up, and lowers the topic's limit before it goes on.
func (l *lab) lowering(topic string, large int) func(proxy.Direction, []byte) bool {
	var once sync.Once
	return func(d proxy.Direction, data []byte) bool {
		if d != proxy.Up || len(data) < large {
			return false
		}
		once.Do(func() { l.setSome([]string{topic}, "max.message.bytes", "5000") })
		return true
	}
}

// seen returns a channel that is closed when a piece of data that is wanted comes by, before it goes on.
func seen(link *proxy.Proxy, wanted func(proxy.Direction, []byte) bool) <-chan struct{} {
	found := make(chan struct{})
	var once sync.Once
	link.Watch(func(d proxy.Direction, data []byte) {
		if wanted(d, data) {
			once.Do(func() { close(found) })
		}
	})
	return found
}

func (l *lab) receive(c <-chan struct{}, what string) {
	l.t.Helper()
	select {
	case <-c:
	case <-time.After(waitLimit):
		l.t.Fatalf("waited in vain: %s", what)
	}
}

// command runs the healthy command as an operator would.
func (l *lab) command(args ...string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, shared.binary(l.t, healthy), args...)
	cmd.Env = append(cmd.Environ(), "DATABASE_URL="+l.server.URL(l.database))
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("outbox %v: %v\n%s", args, err, out)
	}
}

// fillHolesWhileReading commits, again and again, an event that a hole was seen for, and right after it the next one of its key. A slow
// database keeps the statements of the relay apart.
func fillHolesWhileReading(l *lab) {
	const rounds = 25
	l.relays[0].db.Slow(40 * ms)
	half := len(l.streams) / 2
	var all sync.WaitGroup
	for i := range half {
		late, filler := l.streams[i], l.streams[half+i]
		all.Go(func() {
			for range rounds {
				if err := l.fillHole(late, filler); err != nil {
					l.t.Error(err)
				}
			}
		})
	}
	all.Wait()
	l.relays[0].db.Heal()
}

func (l *lab) fillHole(late, filler history.Stream) error {
	ctx := l.t.Context()
	one := func(s history.Stream) change { return change{events: map[history.Stream]int{s: 1}} }
	c := one(late)
	var err error
	c.meanwhile = func() {
		if err = l.write(ctx, one(filler)); err == nil {
			l.await("the reader has passed the hole", func() bool {
				return l.count("SELECT count(*) FROM outbox_event WHERE partition_key = $1 AND published_at IS NULL", filler.Key) == 0
			})
		}
	}
	if writeErr := l.write(ctx, c); writeErr != nil || err != nil {
		return writeErr
	}
	return l.write(ctx, one(late))
}

// cutOffTheOwner cuts a relay off from the brokers while it has something to send, and from the database; when another one has published that and
// more, its network heals.
func cutOffTheOwner(l *lab) {
	owner, heir := l.relays[0], l.relays[1]
	s := l.streams[0]
	over := l.begin(history.Fault{What: "the owner is cut off", Repeats: true})
	for _, link := range owner.kafka {
		link.Cut()
	}
	sent := seen(owner.kafka[0], func(d proxy.Direction, data []byte) bool { return d == proxy.Up && bytes.Contains(data, []byte(s.Key)) })
	l.mustWrite(s, 5)
	l.receive(sent, "the owner hands the events to the network")
	owner.kafka[0].Watch(nil)
	owner.db.Cut()
	heir.start()
	l.settled("the events that the owner had")
	over()
	l.mustWrite(s, 5)
	l.settled("newer events")
	before := len(l.records(l.t.Context()))
	for _, link := range owner.kafka {
		link.Heal()
	}
	l.while(func() bool { return len(l.records(l.t.Context())) > before })
	owner.db.Heal()
}

// putBackTheClock cuts a relay off like cutOffTheOwner, while its wall clock goes back and back: also between the question and the answer of a renewal.
func putBackTheClock(l *lab) {
	owner := l.relays[0]
	owner.db.Slow(100 * ms)
	behind := time.Duration(0)
	defer owner.clock.jump(20*ms, func() time.Duration {
		behind += 10 * time.Minute
		return -behind
	})()
	<-time.After(leaseTTL - time.Second) // a renewal falls into this
	cutOffTheOwner(l)
}

// delayTheParking lets a broker refuse an event, and holds up what the relay has to say of it to the database until another relay has the lanes, the topic's
// limit is raised, and the event is published.
func delayTheParking(l *lab) {
	owner, heir := l.relays[0], l.relays[1]
	const large = 20_000
	l.setTopics("max.message.bytes", "5000")
	held := seen(owner.kafka[0], func(d proxy.Direction, data []byte) bool {
		if d != proxy.Up || len(data) < large/5 {
			return false
		}
		owner.db.Hold(proxy.Up)
		return true
	})
	if err := l.write(l.t.Context(), change{events: map[history.Stream]int{l.streams[0]: 1}, size: large}); err != nil {
		l.t.Fatal(err)
	}
	l.receive(held, "the relay sends the large event")
	owner.kafka[0].Watch(nil)
	l.await("the broker has refused it", func() bool { return owner.said.said("kafka rejected records") > 0 })
	l.setTopics("max.message.bytes", "1000000")
	heir.start()
	l.settled("the events that the owner had")
	owner.db.Heal()
	l.while(func() bool { return l.count("SELECT count(*) FROM outbox.parked_key") > 0 })
}

// joinWhileTheBrokersAreSilent starts a second relay while the first has events of every lane with brokers that do not answer. That is no fault: the
// lanes have to wait, and nothing may come twice.
func joinWhileTheBrokersAreSilent(l *lab) {
	owner, heir := l.relays[0], l.relays[1]
	for _, link := range owner.kafka {
		link.Cut()
	}
	for _, s := range l.streams {
		l.mustWrite(s, 3)
	}
	heir.start()
	l.await("the second relay is registered", func() bool { return l.count("SELECT count(*) FROM outbox.relay") == 2 })
	l.while(func() bool { return l.unpublished() < 3*len(l.streams) })
	for _, link := range owner.kafka {
		link.Heal()
	}
	l.settled("the events that the owner had")
	for _, s := range l.streams {
		l.mustWrite(s, 1)
	}
}

// inheritABacklog lets a relay gain the lanes of one that was killed, with many events in them, while the writers go on.
func inheritABacklog(l *lab) {
	owner, heir := l.relays[0], l.relays[1]
	heir.start()
	lanes := func() int { return l.count("SELECT count(DISTINCT owner) FROM outbox.lane") }
	l.await("both have lanes", func() bool { return lanes() == 2 })
	over := l.begin(history.Fault{What: "kill -9", Repeats: true})
	owner.kill()
	over()
	for _, s := range l.streams {
		l.mustWrite(s, 100)
	}
	l.await("the heir has every lane and nearly no backlog", func() bool {
		for _, s := range l.streams {
			l.mustWrite(s, 1)
		}
		return lanes() == 1 && l.unpublished() < 100
	})
}
