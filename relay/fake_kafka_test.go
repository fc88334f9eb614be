package relay

import (
	"context"
	"errors"
	"sync"
	"time"
)

// fakeKafka keeps what was produced, in order.
type fakeKafka struct {
	mu      sync.Mutex
	log     []*Event
	missing map[string]bool
	// looks counts how often each topic was asked for.
	looks map[string]int
	// landed is told of every record, under mu.
	landed func(*Event)
}

func newFakeKafka() *fakeKafka {
	return &fakeKafka{missing: map[string]bool{}, looks: map[string]int{}}
}

func (k *fakeKafka) land(e *Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.log = append(k.log, e)
	if k.landed != nil {
		k.landed(e)
	}
}

// of returns the ids of the key's records, in the order of the log.
func (k *fakeKafka) of(key Key) (ids []int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.log {
		if e.Key() == key {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (k *fakeKafka) size() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.log)
}

func (k *fakeKafka) setMissing(topic string, missing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.missing[topic] = missing
}

func (k *fakeKafka) look(topic string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looks[topic]++
}

func (k *fakeKafka) looksAt(topic string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.looks[topic]
}

func (k *fakeKafka) check(topic string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.missing[topic] {
		return nil
	}
	return &PublishError{Class: ClassTopic, Code: "UNKNOWN_TOPIC_OR_PARTITION", Topic: topic, Err: errors.New("create it")}
}

var _ Publisher = (*fakePublisher)(nil)

// fakePublisher publishes to a fakeKafka; each key of a call on a goroutine of its own.
type fakePublisher struct {
	fakeLetters
	kafka    *fakeKafka
	maxDelay time.Duration
	// hold returns what an event's answer waits for; nil: nothing.
	hold func(*Event) <-chan struct{}
	// latency is how long an answer takes.
	latency func(*Event) time.Duration
	// fail is an event's failure, if not nil.
	fail func(*Event) error
	// onDestroy tells after how long the events of a key land that were outstanding when the client was destroyed; negative: never.
	onDestroy func(*Event) time.Duration
	// onOpen is Open's error, and that of CheckTopics; it may block.
	onOpen func(context.Context) error

	mu     sync.Mutex
	client *fakeClient
	// silent is from when on nothing is sent; zero: never.
	silent time.Time
	// opened and destroyed count clients.
	opened, destroyed int
	// largestLook is the largest number of topics that CheckTopics was asked for at once.
	largestLook int
	// handed counts the events handed over.
	handed int
	doneMu sync.Mutex
	// scriptMu is held while fail is asked.
	scriptMu sync.Mutex
}

type fakeClient struct {
	closed chan struct{}
	keys   sync.WaitGroup
}

var errNoClient error = &PublishError{Class: ClassUnknown, Code: "CLIENT_CLOSED", Err: errors.New("the client was destroyed")}

func (p *fakePublisher) MaxDelay() time.Duration { return p.maxDelay }

func (p *fakePublisher) Open(ctx context.Context) error {
	if p.onOpen != nil {
		if err := p.onOpen(ctx); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == nil || p.client.isClosed() {
		p.client = &fakeClient{closed: make(chan struct{})}
		p.opened++
	}
	return nil
}

func (c *fakeClient) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

func (p *fakePublisher) Publish(events []*Event, done func(*Event, error)) {
	p.mu.Lock()
	p.handed += len(events)
	c := p.client
	if c == nil || c.isClosed() || !p.silent.IsZero() && !time.Now().Before(p.silent) {
		p.mu.Unlock()
		for _, e := range events {
			p.answer(done, e, errNoClient)
		}
		return
	}
	defer p.mu.Unlock()
	keys := map[Key][]*Event{}
	for _, e := range events {
		keys[e.Key()] = append(keys[e.Key()], e)
	}
	for _, events := range keys {
		c.keys.Go(func() { p.send(c, events, done) })
	}
}

func (p *fakePublisher) send(c *fakeClient, events []*Event, done func(*Event, error)) {
	var failed error
	for i, e := range events {
		err := p.sendOne(c, e, failed)
		if err == errNoClient {
			p.strand(events[i:])
			for _, e := range events[i:] {
				p.answer(done, e, err)
			}
			return
		}
		if failed == nil {
			failed = err
		}
		p.answer(done, e, err)
	}
}

// strand lets events of a key whose client was destroyed land later, in order, or not at all.
func (p *fakePublisher) strand(events []*Event) {
	if p.onDestroy == nil {
		return
	}
	if d := p.onDestroy(events[0]); d >= 0 {
		time.AfterFunc(d, func() {
			for _, e := range events {
				p.kafka.land(e)
			}
		})
	}
}

func (p *fakePublisher) sendOne(c *fakeClient, e *Event, failed error) error {
	if failed != nil && ClassOf(failed) != ClassEvent {
		return failed
	}
	if failed != nil {
		return &PublishError{Class: ClassHeld, Code: "HELD", Topic: e.Topic, Err: errors.New("an earlier event of the key has failed")}
	}
	if !p.await(c, e) {
		return errNoClient
	}
	if err := p.kafka.check(e.Topic); err != nil {
		return err
	}
	if p.fail != nil {
		p.scriptMu.Lock()
		err := p.fail(e)
		p.scriptMu.Unlock()
		if err != nil {
			return err
		}
	}
	p.kafka.land(e)
	return nil
}

// await returns false when the client is destroyed before the answer's time has come.
func (p *fakePublisher) await(c *fakeClient, e *Event) bool {
	p.mu.Lock()
	script := p.hold
	p.mu.Unlock()
	var hold <-chan struct{}
	if script != nil {
		hold = script(e)
	}
	if hold != nil {
		select {
		case <-c.closed:
			return false
		case <-hold:
		}
	}
	if p.latency != nil {
		timer := time.NewTimer(p.latency(e))
		defer timer.Stop()
		select {
		case <-c.closed:
			return false
		case <-timer.C:
		}
	}
	return !c.isClosed()
}

// letGo makes all later answers come at once.
func (p *fakePublisher) letGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = nil
}

func (p *fakePublisher) answer(done func(*Event, error), e *Event, err error) {
	p.doneMu.Lock()
	defer p.doneMu.Unlock()
	done(e, err)
}

func (p *fakePublisher) CheckTopics(ctx context.Context, topics []string) (map[string]error, error) {
	if p.onOpen != nil {
		if err := p.onOpen(ctx); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	p.largestLook = max(p.largestLook, len(topics))
	p.mu.Unlock()
	found := map[string]error{}
	for _, topic := range topics {
		p.kafka.look(topic)
		found[topic] = p.kafka.check(topic)
	}
	return found, nil
}

func (p *fakePublisher) SilentFrom(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = t
}

func (p *fakePublisher) Destroy() {
	p.mu.Lock()
	c := p.client
	if c != nil && !c.isClosed() {
		close(c.closed)
		p.destroyed++
	}
	p.mu.Unlock()
	if c != nil {
		c.keys.Wait()
	}
}

func (p *fakePublisher) counts() (opened, destroyed, handed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened, p.destroyed, p.handed
}
