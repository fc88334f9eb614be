package relay

import (
	"strings"
	"testing"
	"time"
)

// The missing topic answers first, while the acknowledgement of the other one is on its way.
func TestAMissingTopicBesideTheFirstPublicationOnlyWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.firstPublished = time.Time{}
		w.kafka.setMissing(keyC.Topic, true)
		w.table.insert(keyC)
		w.table.insert(keyA)
		answer := newHeld()
		r := w.relay(Config{})
		r.publisher.hold = answer.of(keyA)
		r.start()
		w.until("held", func() bool { return r.Stats().HeldTopics[keyC.Topic] != nil })
		answer.letGo()
		w.until("published", func() bool { return w.table.open() == 1 })
		if n := r.log.count("topic held"); n != 1 {
			t.Errorf("said %d times that the topic is held, want once", n)
		}
		r.wantStopped()
	})
}

func TestAReasonDoesNotNameTheTopicAgain(t *testing.T) {
	t.Parallel()
	if code, reason := ReasonOf(failure(ClassEvent)); strings.Contains(reason, "topic ") || code == "" {
		t.Errorf("code %q, reason %q; want a code, and no topic in the reason", code, reason)
	}
}
