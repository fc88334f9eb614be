package postgres

import (
	"context"
	"testing"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/relay"
)

const (
	addHeaders   = `ALTER TABLE outbox_event ADD COLUMN headers jsonb`
	withHeaders  = `{"tenant": "t1"}`
	insertHeader = `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, headers)
VALUES (gen_random_uuid(), 'Order', '1', 'order.confirmed.v1', '{}', 'order-service.order', 'k', '` + withHeaders + `')`
)

// A service may write headers as soon as the column is there, while the relay goes on reading: at the head, in holes, and of the backlog.
func TestHeadersThatAreAddedMeanwhileAreRead(t *testing.T) {
	t.Parallel()
	for name, lanes := range map[string][]int32{"all lanes": allLanes, "some lanes": {relay.Lane("k", 8)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.startLanes(holding{}, lanes...)
			b.insert("k")
			b.wantHeaders("")
			b.exec(addHeaders)
			b.insert("k")
			b.exec(insertHeader)
			b.wantHeaders("", withHeaders)
			late := b.begin()
			late.exec(insertHeader)
			b.insert("k")
			b.wantHeaders("")
			late.exec("COMMIT")
			b.wantHeaders(withHeaders)
		})
	}
}

func TestHeadersThatAreAddedBeforeTheBacklogIsReadAreRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(addHeaders)
	b.exec(insertHeader)
	b.start()
	b.wantHeaders(withHeaders)
}

// wantHeaders reads once and compares the headers.
func (b *bench) wantHeaders(want ...string) {
	b.Helper()
	events := b.batch(10).Events
	got := make([]string, len(events))
	for i, e := range events {
		got[i] = string(e.Headers)
	}
	same(b.T, "the headers", got, want)
}

func TestHeadersThatAreAddedMeanwhileAreReadInModeCompeting(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c := openCompeting(t, db)
	insert(t, db, relay.Key{Topic: "t", PartitionKey: "k"}, 1)
	var got []string
	pass := func(want ...string) {
		t.Helper()
		got = nil
		result, err := c.Pass(t.Context(), competing.Ask{Limit: 10, Bytes: 1 << 20}, func(ctx context.Context, events []*relay.Event) []relay.Ref {
			for _, e := range events {
				got = append(got, string(e.Headers))
			}
			return all(ctx, events)
		})
		if err != nil || result.Handed != len(want) || result.Settled != len(want) {
			t.Fatalf("Pass = %+v, %v; want %d events settled", result, err, len(want))
		}
		same(t, "the headers", got, want)
	}
	pass("")
	exec(t, db, addHeaders)
	exec(t, db, insertHeader)
	pass(withHeaders)
	exec(t, db, insertHeader)
	pass(withHeaders)
}
