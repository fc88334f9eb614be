package kafka

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/relay"
)

// BenchmarkPublish measures the way from Publish to done with a broker that stores nothing; KAFKA_BROKERS names real ones.
func BenchmarkPublish(b *testing.B) {
	brokers := benchmarkBrokers(b)
	topic := makeTopic(b, brokers, 12)
	p := opened(b, Config{Brokers: brokers})
	events := make([]*relay.Event, 1000)
	for i := range events {
		events[i] = event(i, topic, fmt.Sprint("order-", i))
		events[i].Payload = fmt.Appendf(nil, `{"id": %d, "words": "%s"}`, i, strings.Repeat("w", 320))
	}
	var flying sync.WaitGroup
	window := make(chan struct{}, 8)
	b.ReportAllocs()
	b.ResetTimer()
	for range (b.N + len(events) - 1) / len(events) {
		window <- struct{}{}
		flying.Add(1)
		left := len(events)
		p.Publish(events, func(_ *relay.Event, err error) {
			if err != nil {
				b.Error(err)
			}
			if left--; left == 0 {
				<-window
				flying.Done()
			}
		})
	}
	flying.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func benchmarkBrokers(b *testing.B) []string {
	if brokers := anyBrokersGiven(); brokers != nil {
		return brokers
	}
	return fake(b, kfake.BlackholeProduce()).ListenAddrs()
}
