package kafka

import (
	"fmt"
	"testing"

	"github.com/outbox-relay/outbox/relay"
)

func TestEveryEventIsInKafkaInTheOrderOfItsKey(t *testing.T) {
	t.Parallel()
	brokers := anyBrokers(t)
	topic := makeTopic(t, brokers, 12)
	p := opened(t, Config{Brokers: brokers})
	o := newOutcomes(t)

	const calls, perCall, keys = 20, 200, 37
	id := 0
	for range calls {
		var events []*relay.Event
		for range perCall {
			id++
			events = append(events, event(id, topic, fmt.Sprint("order-", id%keys)))
		}
		p.Publish(events, o.done)
		o.wait(id) // the relay's gate: a key's events come when the earlier ones are done
	}

	for id, err := range o.wait(calls * perCall) {
		if err != nil {
			t.Errorf("event %d: %v", id, err)
		}
	}
	got := idsByKey(t, consumed(t, brokers, topic))
	for k := range keys {
		var want []int
		for i := 1; i <= id; i++ {
			if i%keys == k {
				want = append(want, i)
			}
		}
		if key := fmt.Sprint("order-", k); fmt.Sprint(got[key]) != fmt.Sprint(want) {
			t.Errorf("key %s: ids %v, want %v", key, got[key], want)
		}
	}
}
