package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/relay"
)

// item is one event on its way. It is the context of its own record, which is how a promise finds it again without a closure for each
// record; as a context it is the empty one, so nothing can cancel a record.
type item struct {
	context.Context
	rec   kgo.Record
	event *relay.Event
	call  *call
	topic *topic
	part  *partition
	// home is the number of the partition that it goes to if the topic has it, plus one; 0 leaves it to the key.
	home int32
	// size is recordSize(&rec).
	size int
	// send is the number of the last send that it was part of.
	send uint64
	// finished tells that its outcome was decided; whatever comes later counts no more.
	finished bool
	// broken is why the row cannot become a record; nil when it can.
	broken *relay.PublishError
	// named is why the broker has rejected it, by name, in its last batch; nil when it has not.
	named *relay.PublishError
}

// call is one call of Publish: its events, and what they share.
type call struct {
	items []item
	done  func(*relay.Event, error)
	// left counts the items that are not finished.
	left int
	// stopped are the keys whose event failed: what follows of them in this call is held.
	stopped map[relay.Key]struct{}
	// byKey are the items by key, in order; nil until one has failed.
	byKey map[relay.Key][]*item
}

func (c *call) stop(k relay.Key) {
	if c.stopped == nil {
		c.stopped = map[relay.Key]struct{}{}
	}
	c.stopped[k] = struct{}{}
}

func (c *call) isStopped(k relay.Key) bool {
	_, ok := c.stopped[k]
	return ok
}

// newCall renders the events. All keys, values and standard headers of a call share one buffer, all records one array: the allocations
// of a call do not grow with its events, except for rows that bring headers of their own.
func newCall(events []*relay.Event, done func(*relay.Event, error)) *call {
	c := &call{items: make([]item, len(events)), done: done, left: len(events)}
	buf := make([]byte, 0, bufferSize(events))
	headers := make([]kgo.RecordHeader, 0, 2*len(events))
	for i, e := range events {
		it := &c.items[i]
		it.Context, it.event, it.call = context.Background(), e, c
		it.rec.Topic = e.Topic
		buf, headers = it.guarded((*item).render, buf, headers)
		it.size = recordSize(&it.rec)
	}
	return c
}

func bufferSize(events []*relay.Event) int {
	n := 0
	for _, e := range events {
		n += len(e.PartitionKey) + len(e.Payload) + len(e.Type) + uuidLength
	}
	return n
}

const uuidLength = 36

type renderer func(it *item, buf []byte, headers []kgo.RecordHeader) ([]byte, []kgo.RecordHeader)

// guarded renders an event. A fault of the program that one event brings to light is that event's, and must not end the relay.
func (it *item) guarded(render renderer, buf []byte, headers []kgo.RecordHeader) (b []byte, h []kgo.RecordHeader) {
	b, h = buf, headers
	defer func() {
		if r := recover(); r != nil {
			it.broken = rowError(it.event, codePanic, fmt.Errorf("making the record has met a fault of this program (%T): report it, with the row; skip the event, or let it go on with another version", r))
		}
	}()
	return render(it, buf, headers)
}

func (it *item) render(buf []byte, headers []kgo.RecordHeader) ([]byte, []kgo.RecordHeader) {
	e := it.event
	buf, it.rec.Key = cut(append(buf, e.PartitionKey...), len(buf))
	buf, it.rec.Value = cut(appendCompact(buf, e.Payload), len(buf))
	var id, typ []byte
	buf, id = cut(appendUUID(buf, e.EventID), len(buf))
	buf, typ = cut(append(buf, e.Type...), len(buf))

	from := len(headers)
	headers = append(headers, kgo.RecordHeader{Key: HeaderEventID, Value: id}, kgo.RecordHeader{Key: HeaderEventType, Value: typ})
	it.rec.Headers = headers[from:len(headers):len(headers)]
	it.addRow()
	return buf, headers
}

// addRow adds the row's own headers, and says what is wrong with the row.
func (it *item) addRow() {
	e := it.event
	switch {
	case e.EventID == uuid.Nil:
		it.broken = rowError(e, codeEventID, errors.New("column event_id is NULL or zero, so consumers could not tell its events apart: give the row an id"))
	case e.Payload == nil:
		it.broken = rowError(e, codePayload, errors.New("column payload is NULL, larger than 32 MiB, or too large for PostgreSQL to print (a null value would delete the key in a compacted topic): correct the row, or skip it"))
	case len(e.Headers) > 0 && string(e.Headers) != "null":
		own, err := appendRowHeaders(it.rec.Headers, e.Headers)
		if it.rec.Headers = own; err != nil {
			it.broken = rowError(e, codeHeaders, err)
		}
	}
}

// cut returns buf and its part from a on. The part is never nil: an empty key is a key, and a null one would be spread at random.
func cut(buf []byte, a int) (all, part []byte) { return buf, buf[a:len(buf):len(buf)] }

// appendUUID appends the id as text, in lower case.
func appendUUID(dst []byte, id uuid.UUID) []byte {
	const digits = "0123456789abcdef"
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, digits[b>>4], digits[b&15])
	}
	return dst
}
