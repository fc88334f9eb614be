package kafka

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// batchOverhead is what a broker adds to the records when it compares a batch with max.message.bytes.
	batchOverhead = 61
	// clientOverhead is what the client adds at most: it counts four bytes more until it knows the broker's protocol.
	clientOverhead = 65
	// maxRequestBytes is the largest request, as brokers allow it by default (socket.request.max.bytes).
	maxRequestBytes = 100 << 20
	// requestReserve is more than what surrounds the only batch of a request, whatever the topic and the client are called.
	requestReserve = 2048
	maxBatchBytes  = maxRequestBytes - requestReserve
)

// recordSize is the size of the record as the only one of a batch, without the batch's own overhead: the client's formula, to the byte.
func recordSize(r *kgo.Record) int {
	n := 3 + // attributes, timestamp delta and offset delta of a batch's first record
		lengthAnd(len(r.Key)) +
		lengthAnd(len(r.Value)) +
		kbin.VarintLen(int32(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		n += lengthAnd(len(h.Key)) + lengthAnd(len(h.Value))
	}
	return kbin.VarintLen(int32(n)) + n
}

func lengthAnd(n int) int { return kbin.VarintLen(int32(n)) + n }

// fit says whether a record may be produced.
type fit int

const (
	// fits: neither the broker nor the client can refuse it.
	fits fit = iota
	// fitsMaybe: the broker takes it, but until the client has had a first answer it refuses it, for up to three bytes. A record that
	// the client refuses does not stop those behind it, so this one must be produced alone.
	fitsMaybe
	// fitsNot: it is larger than the topic allows.
	fitsNot
)

// fitOf compares a record's size with a topic's limit. The client is told limit+1 (see clientLimit).
func fitOf(size, limit int) fit {
	switch {
	case size+batchOverhead > min(limit, maxBatchBytes):
		return fitsNot
	case size+clientOverhead > clientLimit(limit):
		return fitsMaybe
	}
	return fits
}

// clientLimit is what the client may put into a batch. It counts one byte more than the broker, or more, so that with one added it
// uses a topic's limit to the last byte and its batches still never exceed it.
func clientLimit(limit int) int { return min(limit+1, maxBatchBytes) }
