package outboxtest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// partitions of the topics that [Kafka] makes: several, so that a test which relies on an order across keys can fail.
const partitions = 3

// Kafka starts a broker within this process, for this test, and returns its address, for [Drain], [Consume] and the service itself. It has the topics that are
// named; [Drain] makes others. It is franz-go's kfake: quick, and good for what records hold; what is about Kafka itself needs a real one.
func Kafka(t testing.TB, topics ...string) (brokers []string) {
	t.Helper()
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.DefaultNumPartitions(partitions)}
	if len(topics) > 0 {
		opts = append(opts, kfake.SeedTopics(partitions, topics...))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatalf("start a broker in this process: %v", err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()
}
