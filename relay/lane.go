package relay

import (
	"encoding/binary"
	"math/bits"
)

// Lane returns the lane of a partition key: the lower half of PostgreSQL's hashtextextended(key COLLATE "C", 0), unsigned, modulo the number of
// lanes. It must never change: relays of different versions share one table, and a Source computes it in SQL for each row that it passes, where a
// cryptographic hash would cost more than all else of the row. PostgreSQL keeps the function: hash partitions on disk depend on it.
func Lane(partitionKey string, lanes int) int32 {
	if lanes == 1 {
		return 0
	}
	return int32(hash32([]byte(partitionKey)) % uint32(lanes))
}

// hash32 is Bob Jenkins' lookup3 with PostgreSQL's start value, on a little-endian machine.
func hash32(k []byte) uint32 {
	const start = 0x9e3779b9 + 3923095
	a := uint32(len(k)) + start
	b, c := a, a
	for ; len(k) >= 12; k = k[12:] {
		a += binary.LittleEndian.Uint32(k)
		b += binary.LittleEndian.Uint32(k[4:])
		c += binary.LittleEndian.Uint32(k[8:])
		a, b, c = mix(a, b, c)
	}
	// The lowest byte of the last word is the length's.
	var tail [13]byte
	copy(tail[:8], k)
	if len(k) > 8 {
		copy(tail[9:], k[8:])
	}
	a += binary.LittleEndian.Uint32(tail[:])
	b += binary.LittleEndian.Uint32(tail[4:])
	c += binary.LittleEndian.Uint32(tail[8:])
	return last(a, b, c)
}

func mix(a, b, c uint32) (x, y, z uint32) {
	for _, rot := range [][3]int{{4, 6, 8}, {16, 19, 4}} {
		a -= c
		a ^= bits.RotateLeft32(c, rot[0])
		c += b
		b -= a
		b ^= bits.RotateLeft32(a, rot[1])
		a += c
		c -= b
		c ^= bits.RotateLeft32(b, rot[2])
		b += a
	}
	return a, b, c
}

func last(a, b, c uint32) uint32 {
	c ^= b
	c -= bits.RotateLeft32(b, 14)
	a ^= c
	a -= bits.RotateLeft32(c, 11)
	b ^= a
	b -= bits.RotateLeft32(a, 25)
	c ^= b
	c -= bits.RotateLeft32(b, 16)
	a ^= c
	a -= bits.RotateLeft32(c, 4)
	b ^= a
	b -= bits.RotateLeft32(a, 14)
	c ^= b
	c -= bits.RotateLeft32(b, 24)
	return c
}
