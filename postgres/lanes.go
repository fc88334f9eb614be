package postgres

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/outbox-relay/outbox/relay"
)

// lane returns the lane of a partition key: the first four bytes of its sha256, unsigned and big-endian, modulo the number of lanes.
// It must never change, and laneSQL must agree with it: testdata/lanes.json holds both to it.
func lane(partitionKey string, lanes int) int32 {
	sum := sha256.Sum256([]byte(partitionKey))
	return int32(binary.BigEndian.Uint32(sum[:4]) % uint32(lanes))
}

// laneSQL is the same as lane in SQL, of the expressions for a text and for a number of lanes.
func laneSQL(partitionKey, lanes string) string {
	return "(('x' || encode(substr(sha256(convert_to(" + partitionKey + ", 'UTF8')), 1, 4), 'hex'))::bit(32)::bigint % " + lanes + ")::integer"
}

// keyHash is what parked_key is keyed by: topic and partition key of a row may be longer than an index entry. keyHashSQL is the same in SQL.
func keyHash(key relay.Key) []byte {
	sum := sha256.Sum256([]byte(key.Topic + "\x00" + key.PartitionKey))
	return sum[:]
}

// keyHashSQL is of the expressions for a topic and a partition key.
func keyHashSQL(topic, partitionKey string) string {
	return "sha256(convert_to(" + topic + ", 'UTF8') || '\\x00'::bytea || convert_to(" + partitionKey + ", 'UTF8'))"
}
