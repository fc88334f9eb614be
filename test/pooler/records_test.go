//go:build integration

package pooler_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/kafkatest"
)

func (f *fixture) records(t *testing.T) []*kgo.Record {
	t.Helper()
	return kafkatest.Records(t, f.brokers, topic)
}

// firsts returns the event ids of each key in the order of their first deliveries.
func (f *fixture) firsts(t *testing.T) map[string][]uuid.UUID {
	t.Helper()
	keys, _ := kafkatest.ByKey(f.records(t))
	return keys
}

// checkOrder fails the test unless the topic holds, for each key, exactly the events of the table in the order of their ids.
func (f *fixture) checkOrder(t *testing.T) {
	t.Helper()
	got := f.firsts(t)
	if len(got) == 0 {
		t.Error("the topic holds nothing")
	}
	kafkatest.Compare(t, topic, got, kafkatest.InTable(t, f.db.Conn(t), topic))
}
