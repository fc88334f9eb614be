package kafka

import "github.com/twmb/franz-go/pkg/kgo"

// planner chooses partitions as Kafka's Java client does for records with a key: murmur2 of the key.
func planner() kgo.TopicPartitioner { return kgo.StickyKeyPartitioner(nil).ForTopic("") }

// asPlanned is the client's partitioner: each record goes to the partition it was planned for, so that the partitions that are held
// back are the ones that the client uses.
type asPlanned struct{}

// ForTopic implements kgo.Partitioner.
func (asPlanned) ForTopic(string) kgo.TopicPartitioner { return asPlannedTopic{planner()} }

type asPlannedTopic struct{ otherwise kgo.TopicPartitioner }

// RequiresConsistency implements kgo.TopicPartitioner.
func (asPlannedTopic) RequiresConsistency(*kgo.Record) bool { return true }

// Partition implements kgo.TopicPartitioner. A plan for a partition that the client does not know yet, because the broker that
// it asked lags behind, is made again with the partitions that it knows.
func (p asPlannedTopic) Partition(r *kgo.Record, n int) int {
	if it, ok := r.Context.(*item); ok && int(it.part.id) < n {
		return int(it.part.id)
	}
	return p.otherwise.Partition(r, n)
}
