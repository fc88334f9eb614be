package postgres

import (
	"crypto/sha256"
	"encoding/binary"
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

// keyHash is what parked_key is keyed by: a partition key may be longer than an index entry.
func keyHash(partitionKey string) []byte {
	sum := sha256.Sum256([]byte(partitionKey))
	return sum[:]
}
