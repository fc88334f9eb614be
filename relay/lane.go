package relay

import (
	"crypto/sha256"
	"encoding/binary"
)

// Lane returns the lane of a partition key: the first four bytes of its sha256, unsigned and big-endian, modulo the number of lanes. It
// must never change: relays of different versions share one table, and a Source may compute it in SQL.
func Lane(partitionKey string, lanes int) int32 {
	sum := sha256.Sum256([]byte(partitionKey))
	return int32(binary.BigEndian.Uint32(sum[:4]) % uint32(lanes))
}
