package kafka

import (
	"fmt"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// Renderer makes records as the publisher makes them, for people to look at. It needs no broker.
type Renderer struct{}

var _ operate.Cluster = Renderer{}

// Render implements [operate.Cluster]. The size is that of the only record of a batch, as a topic's max.message.bytes counts it.
func (Renderer) Render(row operate.Row) (operate.Record, error) {
	e := &relay.Event{
		ID: row.ID, EventID: row.EventID, Type: row.Type, Topic: row.Topic, PartitionKey: row.PartitionKey,
		Payload: row.Payload, Headers: row.Headers, CreatedAt: row.CreatedAt,
	}
	it := &newCall([]*relay.Event{e}, nil).items[0]
	if it.broken != nil {
		return operate.Record{}, fmt.Errorf("%s: %w", it.broken.Code, it.broken.Err)
	}
	record := operate.Record{Topic: it.rec.Topic, Key: string(it.rec.Key), Value: it.rec.Value, Bytes: it.size + batchOverhead}
	for _, h := range it.rec.Headers {
		record.Headers = append(record.Headers, operate.RecordHeader{Key: h.Key, Value: string(h.Value)})
	}
	return record, nil
}
