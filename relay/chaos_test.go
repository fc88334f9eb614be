package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// chaos is a world in which everything fails now and then: statements before and after they took effect, renewals that hang, brokers that are slow, refuse
// events of each class, or lose their topic; clients that are destroyed with records that land late; relays that are cut off from the brokers
// for longer than others wait; relays that stop and others that take over, lane by lane.
type chaos struct {
	*world
	seed uint64
	mu   sync.Mutex
	rand *rand.Rand
	calm bool
	// resigned counts the terms that ended because another relay could publish.
	resigned int
	// delivered is the last event of each key that came for the first time.
	delivered map[Key]int64
	seen      map[Ref]int
}

func (c *chaos) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(n)
}

// odds is true once in n, until the calm.
func (c *chaos) odds(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.calm && c.rand.IntN(n) == 0
}

func (c *chaos) settleDown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calm = true
}

// landed checks each record: the events of a key come for the first time in the order of their ids, and none comes again once it is settled,
// unless another relay settled it late.
func (c *chaos) landed(e *Event) {
	c.seen[e.Ref()]++
	if c.table.everDead(e.Ref()) {
		// It may come after newer events of its key, and out of a client that was destroyed before it was given up.
		return
	}
	if c.seen[e.Ref()] == 1 {
		if last := c.delivered[e.Key()]; e.ID < last {
			c.t.Errorf("seed %d: key %v turned: event %d came after %d", c.seed, e.Key(), e.ID, last)
		}
		c.delivered[e.Key()] = e.ID
	}
	if c.table.settledInTime(e.Ref()) {
		c.t.Errorf("seed %d: event %d came again after it was settled", c.seed, e.ID)
	}
}

func (c *chaos) before(ctx context.Context, op string) error {
	delay := time.Duration(c.draw(3000)) * time.Microsecond
	switch {
	case op == "renew" && c.odds(8), op == "look" && c.odds(200):
		delay = time.Minute
	case op != "read" && op != "look" && c.odds(60), c.odds(2000):
		return errBroken
	case c.odds(3000):
		return ErrServerChanged
	case op == "settle" && c.odds(10):
		delay = time.Second
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(delay):
		return nil
	}
}

func (c *chaos) after(_ context.Context, op string) error {
	<-time.After(time.Duration(c.draw(3000)) * time.Microsecond)
	if op != "read" && op != "look" && c.odds(60) || c.odds(2000) {
		return errBroken
	}
	return nil
}

func (c *chaos) latency(*Event) time.Duration {
	if c.odds(300) {
		return 20 * time.Second
	}
	return time.Duration(c.draw(4000)) * time.Microsecond
}

func (c *chaos) fail(e *Event) error {
	switch {
	case c.odds(400):
		return failure(ClassHeld)
	case c.odds(1000):
		return failure(ClassUnknown)
	case c.odds(1000):
		return errors.New("unclassified")
	case c.odds(150):
		return failure(ClassEvent)
	}
	return nil
}

func (c *chaos) onDestroy(*Event) time.Duration {
	return time.Duration(c.draw(2*int(testDelay))) - testDelay
}

func (c *chaos) newRelay(i int) *running {
	r := c.relay(Config{Name: fmt.Sprint("relay ", i), MaxInFlight: 60, SweepInterval: 2 * time.Second, StartTimeout: -1, DrainTimeout: 3 * time.Second, StallTimeout: 3 * time.Second})
	r.source.before.set(c.before)
	r.source.after.set(c.after)
	r.publisher.latency, r.publisher.fail, r.publisher.onDestroy = c.latency, c.fail, c.onDestroy
	r.network = between(r)
	reach := r.publisher.onOpen
	r.publisher.onOpen = func(ctx context.Context) error {
		if c.odds(10) {
			return failure(ClassOutage)
		}
		return reach(ctx)
	}
	return r.start()
}

// write commits a few events, some of them late; those of a key one after the other.
func (c *chaos) write(open map[Key]*fakeRow) {
	key := Key{fmt.Sprint("topic ", c.draw(3)), fmt.Sprint("key ", c.draw(4))}
	if row := open[key]; row != nil {
		c.table.commit(row)
		delete(open, key)
		return
	}
	row := c.table.reserve(key)
	if c.odds(10) {
		open[key] = row
		return
	}
	c.table.commit(row)
}

// operate releases parked keys, changes topics, gives events up and restores them, and pauses and resumes at random; nothing stays paused in the calm.
func (c *chaos) operate() {
	c.pauseSome()
	c.giveUpSome()
	for _, key := range c.table.parkedKeys() {
		c.table.request("retry", key)
	}
	for i := range 3 {
		c.kafka.setMissing(fmt.Sprint("topic ", i), c.odds(6))
	}
}

// cutOff cuts a relay off from the brokers for up to fifteen seconds.
func (c *chaos) cutOff(r *running) {
	if r.network.state() == nil {
		r.network.cut()
		time.AfterFunc(time.Duration(c.draw(15000))*time.Millisecond, r.network.heal)
	}
}

func (c *chaos) end(r *running) {
	r.cancel()
	<-r.ended
	c.resigned += r.log.count(errResigned.Error())
}

// pauseSome changes what is paused.
func (c *chaos) pauseSome() {
	all := []Pause{{Scope: PauseSource}}
	for i := range 3 {
		all = append(all, Pause{Scope: PauseTopic, Topic: fmt.Sprint("topic ", i)}, Pause{Scope: PauseKey, Topic: fmt.Sprint("topic ", i), PartitionKey: fmt.Sprint("key ", i)})
	}
	for _, p := range all {
		c.table.setPaused(p, c.odds(5))
	}
}

// giveUpSome asks to give up some unpublished events, and to restore those that were.
func (c *chaos) giveUpSome() {
	for _, e := range c.table.givenUp() {
		c.table.requestEvent("restore", e)
	}
	for range 3 {
		if e := c.table.someUnpublished(c.draw); e != nil && c.odds(2) {
			c.table.requestEvent("skip", e)
		}
	}
}

func (c *chaos) run() {
	open := map[Key]*fakeRow{}
	c.table.lanes = make([]fakeLane, 1+c.draw(6))
	relays := []*running{c.newRelay(0), c.newRelay(1), c.newRelay(2)}
	for i := range 1200 {
		c.write(open)
		after(time.Duration(c.draw(60)) * time.Millisecond)
		if i%100 == 0 {
			c.operate()
		}
		if c.odds(200) {
			one := c.draw(3)
			c.end(relays[one])
			relays[one] = c.newRelay(i)
		}
		if c.odds(60) {
			c.cutOff(relays[c.draw(3)])
		}
		relays[c.draw(3)].Stats()
	}
	c.settleDown()
	for _, row := range open {
		c.table.commit(row)
	}
	c.operate()
	c.until(fmt.Sprintf("everything published, seed %d", c.seed), func() bool {
		if c.table.requestsOpen() == 0 {
			c.operate()
		}
		return c.table.open() == 0 && len(c.table.givenUp()) == 0
	})
	for _, r := range relays {
		c.end(r)
	}
	for _, row := range c.table.rows {
		if c.seen[row.event.Ref()] == 0 {
			c.t.Errorf("seed %d: event %d is settled and was never in Kafka", c.seed, row.event.ID)
		}
	}
}

// TestFaultsLoseNothingAndTurnNoKey repeats with the seed in OUTBOX_TEST_SEED.
func TestFaultsLoseNothingAndTurnNoKey(t *testing.T) {
	t.Parallel()
	first, histories := rand.Uint64(), 25
	if s := os.Getenv("OUTBOX_TEST_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, histories = seed, 1
	}
	resigned := 0
	for seed := first; seed < first+uint64(histories); seed++ {
		synctest.Test(t, func(t *testing.T) {
			c := &chaos{
				world: &world{t: t, table: newFakeTable(), kafka: newFakeKafka()}, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)),
				delivered: map[Key]int64{}, seen: map[Ref]int{},
			}
			c.kafka.landed = c.landed
			c.run()
			resigned += c.resigned
		})
		if t.Failed() {
			return
		}
	}
	if resigned == 0 && histories > 1 {
		t.Error("no relay left its lanes to another one that could publish: the faults hit nothing")
	}
	t.Logf("seed %d: %d relays left their lanes to another one", first, resigned)
}
