package postgres

import "time"

// Limits of what one transaction does while it holds lanes: a renewal of their leases waits for it.
const (
	firstBatch, largestBatch = 500, 5_000
	quickBatch, slowBatch    = 250 * time.Millisecond, time.Second
)

// pace is how many rows the next transaction takes. It follows the time that they take: rows may be of many megabytes.
type pace int

// learn sets it by the time that a transaction took; full tells that there were as many rows as it allows.
func (p *pace) learn(took time.Duration, full bool) {
	switch {
	case took > slowBatch:
		*p = max(1, *p/4)
	case took < quickBatch && full:
		*p = min(2**p, largestBatch)
	}
}
