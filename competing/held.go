package competing

import (
	"maps"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

// held are the keys and topics that are left out of the passes for a while, because what was tried of them has failed.
type held struct {
	now        func() time.Time
	key, topic backoff

	mu     sync.Mutex
	keys   map[relay.Key]hold
	topics map[string]hold
}

// hold is one of them.
type hold struct {
	// until is when it is tried again; the zero time is never.
	until    time.Time
	failures int
	err      error
}

// maxHeldKeys bounds what every statement carries. Where more keys fail, something is wrong with their topics.
const maxHeldKeys = 1000

// backoff is how long a hold lasts: first, then twice as long each time, up to so many times as long.
type backoff struct {
	first time.Duration
	times int
}

func (b backoff) after(failures int) time.Duration {
	return b.first * time.Duration(min(1<<min(failures-1, 16), b.times))
}

func (b backoff) longest() time.Duration { return b.first * time.Duration(b.times) }

func newHeld(c Config) *held {
	return &held{
		now:    c.now,
		key:    backoff{c.RetryInterval, 60},
		topic:  backoff{c.TopicCheckInterval, 16},
		keys:   map[relay.Key]hold{},
		topics: map[string]hold{},
	}
}

func (h hold) active(now time.Time) bool { return h.until.IsZero() || now.Before(h.until) }

// stale tells that nothing was heard of it since it could be tried again: its events are gone, or somebody else has published them.
func (h hold) stale(now time.Time, longest time.Duration) bool {
	return !h.until.IsZero() && now.Sub(h.until) > longest
}

// active returns what is to be left out now.
func (h *held) active() (keys []relay.Key, topics []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	maps.DeleteFunc(h.keys, func(_ relay.Key, one hold) bool { return one.stale(now, h.key.longest()) })
	maps.DeleteFunc(h.topics, func(_ string, one hold) bool { return one.stale(now, h.topic.longest()) })
	for k, one := range h.keys {
		if one.active(now) {
			keys = append(keys, k)
		}
	}
	for t, one := range h.topics {
		if one.active(now) {
			topics = append(topics, t)
		}
	}
	return keys, topics
}

// failKey holds a key whose event has failed, and returns for how long; 0 when it is held already.
func (h *held) failKey(k relay.Key, err error) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.keys[k]; !known && len(h.keys) >= maxHeldKeys {
		return holdOne(h.topics, k.Topic, h.topic, h.now(), err)
	}
	return holdOne(h.keys, k, h.key, h.now(), err)
}

// failTopic holds a topic, and returns for how long; 0 when it is held already.
func (h *held) failTopic(topic string, err error) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return holdOne(h.topics, topic, h.topic, h.now(), err)
}

func holdOne[K comparable](in map[K]hold, k K, b backoff, now time.Time, err error) time.Duration {
	one, known := in[k]
	if known && one.active(now) {
		return 0
	}
	one.failures++
	wait := b.after(one.failures)
	in[k] = hold{now.Add(wait), one.failures, err}
	return wait
}

// keepKey holds a key for good.
func (h *held) keepKey(k relay.Key, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[k] = hold{failures: 1, err: err}
}

// acked forgets what was wrong with the event's key and topic.
func (h *held) acked(e *relay.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.topics, e.Topic)
	delete(h.keys, e.Key())
}

// count returns how many keys are held, tried again or not since, and why each such topic is.
func (h *held) count() (keys int, topics map[string]error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	topics = make(map[string]error, len(h.topics))
	for t, one := range h.topics {
		topics[t] = one.err
	}
	return len(h.keys), topics
}
