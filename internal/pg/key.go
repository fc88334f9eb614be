package pg

import (
	"crypto/sha256"

	"github.com/outbox-relay/outbox/internal/lanesql"
	"github.com/outbox-relay/outbox/relay"
)

// Lane is the lane of the expression for a partition key, as [relay.Lane] has it; lanes is the expression for their number.
func (r Source) Lane(partitionKey, lanes string) string {
	return lanesql.Of(lanesql.UTF8(r.Encoding, partitionKey), lanes)
}

// KeyHash is what parked_key is keyed by: topic and partition key of a row may be longer than an index entry. KeyHashSQL is the same in SQL.
func KeyHash(key relay.Key) []byte {
	sum := sha256.Sum256([]byte(key.Topic + "\x00" + key.PartitionKey))
	return sum[:]
}

// KeyHashSQL is of the expressions for a topic and a partition key.
func KeyHashSQL(topic, partitionKey string) string {
	return "sha256(" + bytesSQL(topic) + " || '\\x00'::bytea || " + bytesSQL(partitionKey) + ")"
}
