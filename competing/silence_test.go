package competing_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/competing"
)

// seen is how many competing relays are alive, of which Kafka is silent to those with silent.
func (w *world) seen(silent bool) int {
	return w.count(`SELECT count(*) FROM outbox.relay WHERE mode = 'competing' AND expires_at > clock_timestamp() AND (silent_since IS NOT NULL) = $1`, silent)
}

// What is outstanding shows a silence, and so does a question while nothing is, or none could be; an answer ends it.
func TestACompetingRelayThatKafkaDoesNotAnswerIsSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key kmsg.Key
		// works tells that Kafka answers at first; then are the events that come when it does not any more.
		works bool
		then  int
	}{
		"with events outstanding": {key: kmsg.Produce, works: true, then: 10},
		"with nothing to do":      {key: kmsg.Metadata, works: true},
		"since it started":        {key: kmsg.InitProducerID},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.relay(competing.Config{StartTimeout: -1, LeaseTTL: 5 * time.Second})
			var heal, stop func()
			if c.works {
				w.fill(10)
				stop = w.start(r)
				w.eventually("it works", func() bool { return w.seen(false) == 1 && w.unpublished() == 0 })
				_, heal = w.silence(c.key)
				w.fill(c.then)
			} else {
				_, heal = w.silence(c.key)
				stop = w.start(r)
			}
			w.eventually("it is seen that Kafka is silent", func() bool { return w.seen(true) == 1 })
			heal()
			w.eventually("it is seen that Kafka answers", func() bool { return w.seen(false) == 1 })
			stop()
			if n := w.count(`SELECT count(*) FROM outbox.relay`); n != 0 {
				t.Errorf("%d relays are seen after the stop", n)
			}
		})
	}
}
