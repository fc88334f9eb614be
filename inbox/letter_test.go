package inbox

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"
	"testing"
	"time"
)

// letterOf makes a record of pairs of names and values: texts, or bytes.
func letterOf(pairs ...any) *Record {
	r := &Record{Topic: "shop.order-dlt", Headers: []Header{{"x-event-id", []byte("e-1")}, {"tenant", []byte("a")}, {"tenant", nil}}}
	for i := 0; i < len(pairs); i += 2 {
		value, isBytes := pairs[i+1].([]byte)
		if !isBytes {
			value = fmt.Append(nil, pairs[i+1])
		}
		r.Headers = append(r.Headers, Header{pairs[i].(string), value})
	}
	return r
}

func int4(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func int8s(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// bigInteger is what Java's BigInteger makes of a number that is not negative.
func bigInteger(n int64) []byte {
	b := big.NewInt(n).Bytes()
	if b[0] > 127 {
		b = append([]byte{0}, b...)
	}
	return b
}

func TestALetterIsReadInEveryForm(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	ms := at.UnixMilli()
	listener := "org.springframework.kafka.listener.ListenerExecutionFailedException"
	for name, c := range map[string]struct {
		record *Record
		want   Letter
	}{
		"none": {letterOf("traceparent", "00-1"), Letter{Partition: -1, Offset: -1}},
		"ours": {
			letterOf(HeaderOriginalTopic, "shop.order", HeaderOriginalPartition, 3, HeaderOriginalOffset, 1234, HeaderOriginalTimestamp, "2030-01-02T03:04:05.678Z",
				HeaderConsumer, "billing", HeaderAttempts, 4, HeaderError, "no such account", HeaderFailedAt, "2030-01-02T03:04:06Z"),
			Letter{FormConsumer, "shop.order", 3, 1234, at, "billing", 4, "no such account", time.Date(2030, 1, 2, 3, 4, 6, 0, time.UTC), time.Time{}},
		},
		"the relay's": {
			letterOf("x-outbox-error-code", "MESSAGE_TOO_LARGE", "x-outbox-error-reason", "9000 bytes", "x-outbox-error-topic", "shop.order", "x-outbox-error-attempts", 1, "x-outbox-error-at", "2030-01-02T03:04:05.678Z"),
			Letter{FormRelay, "shop.order", -1, -1, time.Time{}, "", 1, "MESSAGE_TOO_LARGE: 9000 bytes", at, time.Time{}},
		},
		// The recoverer behind a container's error handler. A record that went through two of them has each header twice.
		"Spring's recoverer": {
			letterOf("kafka_dlt-original-topic", "shop.order", "kafka_dlt-original-partition", int4(3), "kafka_dlt-original-offset", int8s(1234), "kafka_dlt-original-timestamp", int8s(ms),
				"kafka_dlt-original-timestamp-type", "CreateTime", "kafka_dlt-original-consumer-group", "first",
				"kafka_dlt-original-topic", "shop.order.again", "kafka_dlt-original-partition", int4(0), "kafka_dlt-original-offset", int8s(7), "kafka_dlt-original-timestamp", int8s(ms+9),
				"kafka_dlt-original-consumer-group", "billing", "kafka_dlt-exception-fqcn", listener, "kafka_dlt-exception-cause-fqcn", "java.lang.IllegalStateException",
				"kafka_dlt-exception-message", "Listener failed; no such account", "kafka_dlt-exception-stacktrace", "at …", "kafka_deliveryAttempt", int4(10)),
			Letter{FormSpring, "shop.order", 3, 1234, at, "billing", 10, "Listener failed; no such account (java.lang.IllegalStateException)", time.Time{}, time.Time{}},
		},
		// Retry topics: the header of the attempts has the number of the next one, the times are as short as they can be, and each hop adds another value.
		"Spring's retry topics": {
			letterOf("kafka_original-topic", "shop.order", "kafka_original-partition", int4(0), "kafka_original-offset", int8s(17), "kafka_original-timestamp", int8s(ms), "kafka_original-consumer-group", "billing",
				"kafka_exception-fqcn", listener, "kafka_exception-message", "no such account", "retry_topic-original-timestamp", bigInteger(ms),
				"retry_topic-attempts", int4(2), "retry_topic-backoff-timestamp", bigInteger(ms-1000), "retry_topic-attempts", int4(5), "retry_topic-backoff-timestamp", bigInteger(ms)),
			Letter{FormSpring, "shop.order", 0, 17, at, "billing", 4, "no such account", time.Time{}, at},
		},
		"Spring's retry topics of old": {
			letterOf("retry_topic-original-timestamp", bigInteger(ms), "retry_topic-attempts", []byte{3}, "kafka_original-topic", "shop.order", "kafka_key-exception-message", "no key"),
			Letter{FormSpring, "shop.order", -1, -1, at, "", 2, "no key", time.Time{}, time.Time{}},
		},
		"Kafka Connect's": {
			letterOf("__connect.errors.topic", "shop.order", "__connect.errors.partition", "0", "__connect.errors.offset", "1234", "__connect.errors.connector.name", "sink", "__connect.errors.task.id", "0",
				"__connect.errors.stage", "VALUE_CONVERTER", "__connect.errors.class.name", "org.apache.kafka.connect.json.JsonConverter",
				"__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException", "__connect.errors.exception.message", "no JSON", "__connect.errors.exception.stacktrace", "at …"),
			Letter{FormConnect, "shop.order", 0, 1234, time.Time{}, "sink", 0, "no JSON", time.Time{}, time.Time{}},
		},
		"what makes no sense": {
			letterOf(HeaderOriginalTopic, "", HeaderOriginalPartition, "three of them", HeaderOriginalOffset, "", HeaderAttempts, nil, HeaderFailedAt, "soon", HeaderOriginalTimestamp, []byte{}),
			Letter{Form: FormConsumer, Partition: -1, Offset: -1},
		},
	} {
		if got := ReadLetter(c.record); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
		own := OwnHeaders(c.record)
		if name == "none" {
			own = own[:3]
		}
		if len(own) != 3 || own[0].Key != "x-event-id" || own[2].Key != "tenant" || own[2].Value != nil || !bytes.Equal(own[1].Value, []byte("a")) {
			t.Errorf("%s: its own headers are %v", name, own)
		}
	}
}

func TestWhatATopicHoldsThatNeverFailedIsNoLetter(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kafka_deliveryAttempt", "x-outbox-replay", "kafka_replyTopic", "x-event-id"} {
		if l := ReadLetter(letterOf(name, "1")); l.Form != "" {
			t.Errorf("%s makes a letter of the form %s", name, l.Form)
		}
	}
}
