package kafka

import (
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/operate"
)

func TestARenderedRecordIsTheOneThatIsPublished(t *testing.T) {
	t.Parallel()
	row := operate.Row{Payload: operate.Text(`{"n": 1,  "x": 1.50}`), Headers: operate.Text(`{"trace": "abc"}`)}
	row.EventID, row.Type, row.Topic, row.PartitionKey = uuid.MustParse("0190f6c2-7d1e-7a55-8f0e-2f3c9a3d5b11"), "order.placed.v1", "shop.order", "17"
	got, err := Renderer{}.Render(row)
	if err != nil {
		t.Fatal(err)
	}
	want := kgo.Record{Key: []byte("17"), Value: []byte(`{"n":1,"x":1.50}`), Headers: []kgo.RecordHeader{
		{Key: HeaderEventID, Value: []byte(row.EventID.String())}, {Key: HeaderEventType, Value: []byte("order.placed.v1")}, {Key: "trace", Value: []byte("abc")},
	}}
	if got.Topic != "shop.order" || got.Key != "17" || string(got.Value) != string(want.Value) || len(got.Headers) != 3 {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i, h := range want.Headers {
		if got.Headers[i] != (operate.RecordHeader{Key: h.Key, Value: string(h.Value)}) {
			t.Errorf("header %d = %+v, want %s: %s", i, got.Headers[i], h.Key, h.Value)
		}
	}
	if size := recordSize(&want) + batchOverhead; got.Bytes != size {
		t.Errorf("bytes = %d, want %d", got.Bytes, size)
	}
}

func TestARowThatCannotBecomeARecordSaysWhy(t *testing.T) {
	t.Parallel()
	row := operate.Row{Payload: operate.Text(`{}`)}
	if _, err := (Renderer{}).Render(row); err == nil {
		t.Error("a row without an event id is rendered")
	}
	row.EventID, row.Payload = uuid.New(), nil
	if _, err := (Renderer{}).Render(row); err == nil {
		t.Error("a row without a payload is rendered")
	}
}
