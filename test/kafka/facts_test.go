//go:build integration

package kafka_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func record(topic string, size int) *kgo.Record {
	value := make([]byte, size)
	rand.Read(value)
	return &kgo.Record{Topic: topic, Key: []byte("key"), Value: value}
}

func wantErrors(t *testing.T, got []error, want ...error) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(g, w error) bool { return errors.Is(g, w) }) {
		t.Errorf("outcomes:\n got %v\nwant %v", got, want)
	}
}

// byBroker tells a broker's refusal from the client's own, which knows no compressed size.
func byBroker(tooLarge error) bool { return strings.Contains(tooLarge.Error(), ", compressed_bytes=") }

// The relay gates a partition and halves what failed because the broker does not name the culprit.
func TestARejectedBatchFailsItsInnocentNeighboursToo(t *testing.T) {
	t.Parallel()
	name := topic(t, "max.message.bytes", "10000")
	cl := client(t, kgo.ManualFlushing(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	errs := produceTogether(t, cl, record(name, 100), record(name, 50_000), record(name, 100))
	wantErrors(t, errs, kerr.MessageTooLarge, kerr.MessageTooLarge, kerr.MessageTooLarge)
	if !byBroker(errs[1]) {
		t.Errorf("refusal: got %v, want one with the compressed size, as the client words those of a broker", errs[1])
	}
	wantErrors(t, produceTogether(t, cl, record(name, 100)), nil)
	if got := len(read(t, name, 1)); got != 1 {
		t.Errorf("records in the topic: got %d, want only the one produced after the rejection", got)
	}
}

func TestSmallRecordsAreRejectedWhenTheirBatchIsTooLarge(t *testing.T) {
	t.Parallel()
	name := topic(t, "max.message.bytes", "10000")
	cl := client(t, kgo.ManualFlushing(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	records := make([]*kgo.Record, 200)
	for i := range records {
		records[i] = record(name, 100)
	}
	for i, err := range produceTogether(t, cl, records...) {
		if !errors.Is(err, kerr.MessageTooLarge) {
			t.Errorf("record %d: got %v, want %v", i, err, kerr.MessageTooLarge)
		}
	}
}

// The relay gives each topic's limit to the client: then the client refuses the one that is too large, and only that one.
func TestWithTheTopicsLimitTheClientRefusesOnlyTheCulprit(t *testing.T) {
	t.Parallel()
	const limit = 10_000
	name := topic(t, "max.message.bytes", "10000")
	cl := client(t, kgo.ManualFlushing(), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytesFn(func(string) int32 { return limit }))
	errs := produceTogether(t, cl, record(name, 100), record(name, 50_000), record(name, 100))
	wantErrors(t, errs, nil, kerr.MessageTooLarge, nil)

	for size := limit - 200; size <= limit+10; size++ {
		err := produceTogether(t, cl, record(name, size))[0]
		if err != nil && (!errors.Is(err, kerr.MessageTooLarge) || byBroker(err)) {
			t.Errorf("value of %d bytes: got %v, want success or the client's own refusal", size, err)
		}
	}
}

func TestLogAppendTimeReplacesTheProducersTimestamp(t *testing.T) {
	t.Parallel()
	name := topic(t, "message.timestamp.type", "LogAppendTime")
	longAgo := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	r := record(name, 10)
	r.Timestamp = longAgo
	wantErrors(t, produceTogether(t, client(t), r), nil)
	got := read(t, name, 1)[0]
	if got.Attrs.TimestampType() != 1 || !got.Timestamp.After(longAgo) {
		t.Errorf("timestamp: got %s of type %d, want the broker's, type 1", got.Timestamp, got.Attrs.TimestampType())
	}
}

func TestARecordOlderThanTheTopicAllowsIsInvalid(t *testing.T) {
	t.Parallel()
	name := topic(t, "message.timestamp.before.max.ms", "86400000")
	old := record(name, 10)
	old.Timestamp = time.Now().Add(-72 * time.Hour)
	wantErrors(t, produceTogether(t, client(t), old), kerr.InvalidTimestamp)
}

func TestAnEmptyKeyIsAKey(t *testing.T) {
	t.Parallel()
	name := topic(t, "cleanup.policy", "compact")
	cl := client(t)
	wantErrors(t, produceTogether(t, cl, &kgo.Record{Topic: name, Value: []byte("no key")}), kerr.InvalidRecord)
	wantErrors(t, produceTogether(t, cl, &kgo.Record{Topic: name, Key: []byte{}, Value: []byte("empty key")}), nil)
	got := read(t, name, 1)[0]
	if got.Key == nil || len(got.Key) != 0 || !bytes.Equal(got.Value, []byte("empty key")) {
		t.Errorf("record: got key %#v and value %q, want an empty key that is not null", got.Key, got.Value)
	}
}

func TestAMissingTopicIsNotMadeByProducing(t *testing.T) {
	t.Parallel()
	cl := client(t, kgo.UnknownTopicRetries(1))
	wantErrors(t, produceTogether(t, cl, record("test-service.fact.missing", 10)), kerr.UnknownTopicOrPartition)
}
