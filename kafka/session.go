package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/relay"
)

// session is the life of one client, and of those that take its place for topics that have changed.
type session struct {
	cfg    Config
	lookup *lookup
	net    *network
	// rejections bounds what the log says of rejected records.
	rejections *rejectionLog
	// limits is what each topic's batches may hold, for the client to read: topic name to int32.
	limits sync.Map
	// plan chooses partitions; it keeps state for records without a key, which do not occur here, and is guarded by mu.
	plan kgo.TopicPartitioner

	// ctx ends with the session; it bounds the looks at topics.
	ctx    context.Context //nolint:containedctx // the session is what the context is the life of
	cancel context.CancelCauseFunc
	// wake tells the loop, and look the looker, that there is work.
	wake, look chan struct{}
	// over is closed when every event is done and the client is closed.
	over  chan struct{}
	tasks sync.WaitGroup

	queue queue
	// telling is held while done is called. It is the publisher's, so that two sessions do not tell at the same time.
	telling *sync.Mutex

	mu     sync.Mutex
	topics map[string]*topic
	// producers are the clients in use; the first lives as long as the session. newest, when not nil, is for topics that have none.
	producers []*producer
	newest    *producer
	live      map[*call]struct{}
	// staged are records to be handed to the client at the end of this turn.
	staged []*item
	sends  uint64
	// outcomes are to be told by the loop.
	outcomes []outcome
	// ended tells that the loop takes nothing more.
	ended bool
}

type outcome struct {
	item *item
	err  error
}

func newSession(c Config, telling *sync.Mutex, late func() bool) (*session, error) {
	n := newNetwork(c)
	n.late = late
	s := &session{
		cfg: c, net: n, rejections: newRejectionLog(c.Logger, c.now), plan: planner(), telling: telling,
		wake: make(chan struct{}, 1), look: make(chan struct{}, 1), over: make(chan struct{}),
		topics: map[string]*topic{}, live: map[*call]struct{}{},
	}
	first, err := s.newProducer()
	if err != nil {
		return nil, err
	}
	s.lookup = &lookup{client: first.client, admin: kadm.NewClient(first.client), create: c.CreateTopics, log: c.Logger}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	n.expired = func() { s.kill(errLate) }
	s.tasks.Go(s.lookLoop)
	go s.loop()
	return s, nil
}

// batchMaxBytes is asked by the client when it loads a topic's partitions; by then the topic was looked at.
func (s *session) batchMaxBytes(topic string) int32 {
	if limit, ok := s.limits.Load(topic); ok {
		return limit.(int32)
	}
	return int32(clientLimit(s.cfg.MaxMessageBytes))
}

// prove asks the brokers whether this client can publish, within the time that a request may take.
func (s *session) prove(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.produceTimeout()+s.cfg.requestOverhead(), errors.New("no answer in time"))
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	if err := s.lookup.client.Ping(ctx); err != nil {
		return s.proofError(ctx, "reach kafka at", err)
	}
	if _, _, err := s.lookup.client.ProducerID(ctx); err != nil {
		return s.proofError(ctx, "get a producer id from kafka at", err)
	}
	return nil
}

func (s *session) proofError(ctx context.Context, doing string, err error) error {
	if cause := context.Cause(s.ctx); cause != nil {
		return s.cfg.outageError(doing, s.cfg.brokerList(), cause)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if t := s.cfg.tokens; t != nil && ctx.Err() != nil && t.waiting() {
		err = fmt.Errorf("%w: the token endpoint %s has not answered yet", err, t.oauth.TokenURL)
	}
	return s.cfg.outageError(doing, s.cfg.brokerList(), err)
}

// alive tells whether the session can be used.
func (s *session) alive() bool { return s.ctx.Err() == nil }

// idle tells that nothing is outstanding.
func (s *session) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live) == 0
}

// kill silences the client at once and lets the loop do the rest. It may be called from anywhere.
func (s *session) kill(cause error) {
	s.net.destroy()
	s.cancel(cause)
	poke(s.wake)
}

// poke leaves a signal in a channel of capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// publish takes a call. It returns false when the session has ended and cannot tell any outcome.
func (s *session) publish(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.live[c] = struct{}{}
	var t *topic
	for i := range c.items {
		it := &c.items[i]
		t = s.topicOf(it.rec.Topic, t)
		it.topic = t
		s.admit(it)
	}
	s.flush()
	return true
}

// topicOf finds the topic, or begins to know it. last is the one found before, most often the same.
func (s *session) topicOf(name string, last *topic) *topic {
	if last != nil && last.name == name {
		return last
	}
	t := s.topics[name]
	if t == nil {
		t = &topic{name: name, illegal: outbox.CheckTopic(name)}
		if t.illegal == nil {
			s.topics[name] = t
		}
	}
	return t
}

// loop turns what the client's promises bring into outcomes, and tells them.
func (s *session) loop() {
	refresh := time.NewTicker(s.cfg.refresh)
	defer refresh.Stop()
	defer close(s.over)
	for {
		select {
		case <-s.ctx.Done():
			s.end()
			return
		case <-refresh.C:
			s.refreshTopics()
		case <-s.wake:
		}
		s.turn()
	}
}

func (s *session) turn() {
	s.mu.Lock()
	for _, r := range s.queue.take() {
		s.settle(r)
	}
	s.flush()
	told := s.takeOutcomes()
	s.mu.Unlock()
	s.tell(told)
}

func (s *session) takeOutcomes() []outcome {
	o := s.outcomes
	s.outcomes = nil
	return o
}

func (s *session) tell(outcomes []outcome) {
	s.telling.Lock()
	defer s.telling.Unlock()
	for _, o := range outcomes {
		o.item.call.done(o.item.event, o.err)
	}
}

// end closes the clients and makes everything outstanding unknown. What was acked before counts as acked.
func (s *session) end() {
	s.mu.Lock()
	closing := slices.Clone(s.producers)
	s.mu.Unlock()
	for _, p := range closing {
		if !s.cfg.lenient {
			p.client.Close()
		}
	}
	s.tasks.Wait()
	s.rejections.close()
	s.mu.Lock()
	for _, r := range s.queue.take() {
		if r.err == nil {
			s.finish(r.item, nil)
		}
	}
	cause := context.Cause(s.ctx)
	for c := range s.live {
		for i := range c.items {
			it := &c.items[i]
			s.finish(it, unknownError(it.rec.Topic, cause))
		}
	}
	s.ended = true
	told := s.takeOutcomes()
	s.mu.Unlock()
	s.tell(told)
}

// finish decides an event's outcome, once. The loop tells it.
func (s *session) finish(it *item, err error) {
	if it.finished {
		return
	}
	it.finished = true
	it.call.left--
	if it.call.left == 0 {
		delete(s.live, it.call)
	}
	s.outcomes = append(s.outcomes, outcome{it, err})
	if len(s.outcomes) == 1 {
		poke(s.wake)
	}
}

// settle takes what came back for one record.
func (s *session) settle(r result) {
	it := r.item
	it.part.outstanding--
	it.topic.outstanding--
	switch {
	case r.err == nil:
		s.finish(it, nil)
		s.learn(it.topic)
	case !s.alive():
		// end decides it
	default:
		s.fail(it, r.err)
	}
	if it.part.outstanding == 0 && it.part.gated {
		s.next(it.part)
	}
	s.whenIdle(it.topic)
}

func (s *session) fail(it *item, err error) {
	switch verdict := rule(err).verdict; verdict {
	case rejected:
		it.part.close()
		it.part.failed = append(it.part.failed, failure{it, err})
		s.learn(it.topic)
	case topicGone, topicRefused:
		it.topic.stale = it.topic.stale || verdict == topicGone
		s.failTopic(it.topic, it, topicError(it.topic.name, err))
	default:
		s.cfg.Logger.Error("kafka producer given up", "topic", it.topic.name, "partition", it.part.id,
			"code", codeOf(err, codeUnexpected), "note", rule(err).advice)
		s.kill(fmt.Errorf("give up the client after partition %d of topic %s: %w", it.part.id, it.topic.name, s.cfg.sent.discreet(err)))
	}
}

var _ relay.Publisher = (*Publisher)(nil)
