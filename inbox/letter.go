package inbox

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// Names of the headers that a record in a retry topic or a dead-letter topic has behind its own. Texts; numbers are decimal, times RFC 3339 in UTC.
const (
	// HeaderOriginalTopic, -Partition, -Offset and -Timestamp are where and when the record was first.
	HeaderOriginalTopic     = "x-inbox-original-topic"
	HeaderOriginalPartition = "x-inbox-original-partition"
	HeaderOriginalOffset    = "x-inbox-original-offset"
	HeaderOriginalTimestamp = "x-inbox-original-timestamp"
	// HeaderConsumer is who could not handle it, HeaderAttempts how often, HeaderError why the last time, and HeaderFailedAt when.
	HeaderConsumer = "x-inbox-consumer"
	HeaderAttempts = "x-inbox-attempts"
	HeaderError    = "x-inbox-error"
	HeaderFailedAt = "x-inbox-failed-at"
	// HeaderNotBefore, in a retry topic, is when it is to be tried again.
	HeaderNotBefore = "x-inbox-not-before"
)

const headerPrefix = "x-inbox-"

// Letter is what a record's headers say of its failure, in this product's form, Spring's or Kafka Connect's. What they do not say is zero, Partition and Offset -1.
type Letter struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp time.Time
	Consumer  string
	Attempts  int
	Error     string
	FailedAt  time.Time
	NotBefore time.Time
}

// ReadLetter reads the headers of a record in a retry topic or a dead-letter topic. What cannot be read is as if it were not there.
func ReadLetter(r *Record) Letter {
	l := Letter{Partition: -1, Offset: -1}
	l.Topic = text(r, HeaderOriginalTopic, "kafka_dlt-original-topic", "kafka_original-topic", "__connect.errors.topic")
	l.Partition = int32(number(r, 4, -1, HeaderOriginalPartition, "kafka_dlt-original-partition", "kafka_original-partition", "__connect.errors.partition"))
	l.Offset = number(r, 8, -1, HeaderOriginalOffset, "kafka_dlt-original-offset", "kafka_original-offset", "__connect.errors.offset")
	l.Consumer = text(r, HeaderConsumer, "kafka_dlt-original-consumer-group", "kafka_original-consumer-group", "__connect.errors.connector.name")
	l.Attempts = int(number(r, 4, 0, HeaderAttempts, "retry_topic-attempts"))
	l.Error = text(r, HeaderError, "kafka_dlt-exception-message", "kafka_exception-message", "__connect.errors.exception.message",
		"kafka_dlt-exception-fqcn", "kafka_exception-fqcn", "__connect.errors.exception.class.name")
	l.Timestamp = moment(r, HeaderOriginalTimestamp, "kafka_dlt-original-timestamp", "kafka_original-timestamp", "retry_topic-original-timestamp")
	l.FailedAt = moment(r, HeaderFailedAt)
	l.NotBefore = moment(r, HeaderNotBefore, "retry_topic-backoff-timestamp")
	return l
}

func text(r *Record, names ...string) string {
	s, _ := firstHeader(r, names)
	return s
}

// number reads a decimal number, or the bytes of an integer, most significant first, as Spring has it. Four of its bytes may be digits as well; no offset or count is
// as large as they would be as an integer.
func number(r *Record, size int, otherwise int64, names ...string) int64 {
	for _, name := range names {
		value, ok := r.Header(name)
		if !ok {
			continue
		}
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			return n
		}
		if len(value) == size {
			var wide [8]byte
			copy(wide[8-size:], value)
			return int64(binary.BigEndian.Uint64(wide[:]))
		}
	}
	return otherwise
}

func moment(r *Record, names ...string) time.Time {
	if s, ok := firstHeader(r, names[:1]); ok {
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			return t
		}
	}
	if ms := number(r, 8, 0, names[1:]...); ms > 0 {
		return time.UnixMilli(ms).UTC()
	}
	return time.Time{}
}

// letterHeaders are the record's own headers with what a letter says behind them. What an earlier letter has said of its first place stays.
func letterHeaders(r *Record, l Letter) []Header {
	headers := OwnHeaders(r)
	add := func(name, value string) { headers = append(headers, Header{name, []byte(value)}) }
	add(HeaderOriginalTopic, l.Topic)
	add(HeaderOriginalPartition, strconv.Itoa(int(l.Partition)))
	add(HeaderOriginalOffset, strconv.FormatInt(l.Offset, 10))
	add(HeaderOriginalTimestamp, stamp(l.Timestamp))
	add(HeaderConsumer, l.Consumer)
	add(HeaderAttempts, strconv.Itoa(l.Attempts))
	add(HeaderError, storable(l.Error, maxErrorText))
	add(HeaderFailedAt, stamp(l.FailedAt))
	if !l.NotBefore.IsZero() {
		add(HeaderNotBefore, stamp(l.NotBefore))
	}
	return headers
}

// OwnHeaders are a record's headers without those that say of a failure, in this product's form, Spring's or Kafka Connect's: those that the record had before.
func OwnHeaders(r *Record) []Header {
	own := make([]Header, 0, len(r.Headers)+9)
	for _, h := range r.Headers {
		if !ofLetter(h.Key) {
			own = append(own, h)
		}
	}
	return own
}

func ofLetter(name string) bool {
	for _, prefix := range []string{headerPrefix, "kafka_dlt-", "kafka_original-", "kafka_exception-", "retry_topic-", "__connect.errors."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
