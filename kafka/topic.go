package kafka

import (
	"time"
)

// A topic whose limit was looked at this recently is believed when it makes an event too large; else it is looked at again first.
const limitFresh = 5 * time.Second

// topic is what a session knows of one topic. It is guarded by the session's mutex.
type topic struct {
	name string
	// illegal is why no topic can have this name; nil when one can.
	illegal error
	// ready tells that events may go to the partitions. While it is not, they wait in pending, in order.
	ready   bool
	pending []*item
	// info is what the events go by: what a look found when the topic was idle.
	info Topic
	// limit is the topic's max.message.bytes, or what is assumed.
	limit int
	// lookedAt is when info was last confirmed.
	lookedAt time.Time
	// parts are the partitions, as the records are planned for them.
	parts []partition
	// outstanding counts records that the client has; gated counts partitions that are held back.
	outstanding int
	gated       int
	// via is the client that has the topic; nil when none has it.
	via *producer
	// known tells that the client has had an answer for a record of the topic, and so has its partitions. Until then it gets one record
	// alone: what it takes for partitions that it does not have it would buffer later, in its own time, between two failures even.
	known bool
	// stale tells that the client's idea of the topic is wrong. Once the topic is idle, it leaves the client, and then it is looked at again.
	stale bool
	// asked tells that a look at the topic is due or under way.
	asked bool
}

// partition is guarded by the session's mutex.
type partition struct {
	id          int32
	topic       *topic
	outstanding int
	// gated tells that new events wait here, because what failed is being sent again or a record must be alone.
	gated   bool
	waiting []*item
	// failed are the records that the broker rejected, in the order in which they were produced.
	failed []failure
	// segments are what is to be sent one after the other, each when the one before is done.
	segments [][]*item
}

type failure struct {
	item *item
	err  error
}

func (t *topic) idle() bool { return t.outstanding == 0 && t.gated == 0 }

// adopt takes over what a look found. The topic must be idle.
func (t *topic) adopt(info Topic, assumed int) {
	t.info = info
	t.limit = info.MaxMessageBytes
	if t.limit == 0 {
		t.limit = assumed
	}
	if len(t.parts) == info.Partitions {
		return
	}
	t.parts = make([]partition, info.Partitions)
	for i := range t.parts {
		t.parts[i] = partition{id: int32(i), topic: t}
	}
}

// differs tells whether the client has to be told about the other look.
func (t *topic) differs(other Topic) bool {
	return t.info.id != other.id || t.info.Partitions != other.Partitions || t.info.MaxMessageBytes != other.MaxMessageBytes
}

func (p *partition) close() {
	if !p.gated {
		p.gated = true
		p.topic.gated++
	}
}

func (p *partition) open() {
	if p.gated {
		p.gated = false
		p.topic.gated--
	}
}
