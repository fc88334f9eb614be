package inbox

import (
	"math"
	"slices"
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

// Form tells who has written a letter.
type Form string

// The forms.
const (
	// FormConsumer is that of this package's consumers, FormRelay that of the relay, which could not publish an event.
	FormConsumer Form = "outbox-consumer"
	FormRelay    Form = "outbox-relay"
	FormSpring   Form = "spring"
	FormConnect  Form = "kafka-connect"
)

// Letter is what a record's headers say of its failure, in this product's form, Spring's or Kafka Connect's. What they do not say is zero, Partition and Offset -1.
type Letter struct {
	// Form is "" where no header says of a failure.
	Form      Form
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
	l := Letter{Form: formOf(r), Partition: -1, Offset: -1}
	l.Topic = oldest(r, HeaderOriginalTopic, "kafka_dlt-original-topic", "kafka_original-topic", "__connect.errors.topic", "x-outbox-error-topic")
	if n := number(r, -1, HeaderOriginalPartition, "kafka_dlt-original-partition", "kafka_original-partition", "__connect.errors.partition"); n >= 0 && n <= math.MaxInt32 {
		l.Partition = int32(n)
	}
	l.Offset = max(-1, number(r, -1, HeaderOriginalOffset, "kafka_dlt-original-offset", "kafka_original-offset", "__connect.errors.offset"))
	l.Consumer = text(r, HeaderConsumer, "kafka_dlt-original-consumer-group", "kafka_original-consumer-group", "__connect.errors.connector.name")
	l.Attempts = attempts(r)
	l.Error = reason(r)
	l.Timestamp = moment(r, HeaderOriginalTimestamp, "kafka_dlt-original-timestamp", "kafka_original-timestamp", "retry_topic-original-timestamp")
	l.FailedAt = moment(r, HeaderFailedAt)
	if l.Form == FormRelay {
		l.FailedAt = moment(r, "x-outbox-error-at")
	}
	l.NotBefore = notBefore(r)
	return l
}

// firstPlace is where the record was first: that is the same for all copies of it in retry topics, of which a crash may make two.
func firstPlace(r *Record) Place {
	if l := ReadLetter(r); l.Form == FormConsumer && l.Topic != "" && l.Partition >= 0 && l.Offset >= 0 {
		return Place{Partition{l.Topic, l.Partition}, l.Offset}
	}
	return r.Place()
}

// notBefore is what the last hop has said: Spring leaves what those before it have said in front of it.
func notBefore(r *Record) time.Time {
	if value, ok := r.Header("retry_topic-backoff-timestamp"); ok {
		if ms, ok := integer("retry_topic-backoff-timestamp", value); ok && ms > 0 {
			return time.UnixMilli(ms).UTC()
		}
	}
	return moment(r, HeaderNotBefore)
}

// prefixes are those of the headers that say of a failure, each with the form that has it. Spring's deserializers and containers write into a record's headers what
// becomes part of the letter, too.
var prefixes = []prefix{
	{FormConsumer, headerPrefix}, {FormRelay, "x-outbox-error-"}, {FormConnect, "__connect.errors."},
	{FormSpring, "kafka_dlt-"}, {FormSpring, "kafka_original-"}, {FormSpring, "kafka_exception-"}, {FormSpring, "kafka_key-exception-"}, {FormSpring, "retry_topic-"},
	{FormSpring, springAttempt}, {FormSpring, "springDeserializerException"},
}

type prefix struct {
	of   Form
	name string
}

// springAttempt is a header that Spring's container adds to what it hands to a listener.
const springAttempt = "kafka_deliveryAttempt"

func formOf(r *Record) Form {
	for _, p := range prefixes {
		if p.name == springAttempt {
			continue // it is with what was never dead, too
		}
		for _, h := range r.Headers {
			if strings.HasPrefix(h.Key, p.name) {
				return p.of
			}
		}
	}
	return ""
}

func text(r *Record, names ...string) string {
	s, _ := firstHeader(r, names)
	return s
}

// oldest is the first value of a header: Spring adds another one each time that a record is sent on, and the first one names where it was at first.
func oldest(r *Record, names ...string) string {
	for _, name := range names {
		if value, ok := firstOf(r, name); ok && len(value) > 0 {
			return string(value)
		}
	}
	return ""
}

func firstOf(r *Record, name string) (value []byte, ok bool) {
	for _, h := range r.Headers {
		if h.Key == name {
			return h.Value, true
		}
	}
	return nil, false
}

// reason is why it failed the last time.
func reason(r *Record) string {
	if text := text(r, HeaderError, "__connect.errors.exception.message", "__connect.errors.exception.class.name"); text != "" {
		return text
	}
	if code := text(r, "x-outbox-error-code"); code != "" {
		return code + ": " + text(r, "x-outbox-error-reason")
	}
	message := text(r, "kafka_dlt-exception-message", "kafka_exception-message", "kafka_dlt-key-exception-message", "kafka_key-exception-message",
		"kafka_dlt-exception-fqcn", "kafka_exception-fqcn", "kafka_dlt-key-exception-fqcn", "kafka_key-exception-fqcn")
	// What a listener throws is wrapped, and the message of the outer one may say nothing of it.
	if cause := text(r, "kafka_dlt-exception-cause-fqcn", "kafka_exception-cause-fqcn"); cause != "" && !strings.Contains(message, cause) {
		return message + " (" + cause + ")"
	}
	return message
}

// attempts is how often it was tried. What Spring writes is the number of the next attempt, even where there is none.
func attempts(r *Record) int {
	if value, ok := r.Header("retry_topic-attempts"); ok && formOf(r) == FormSpring {
		if n, ok := integer("retry_topic-attempts", value); ok && n > 0 && n <= math.MaxInt16 {
			return int(n) - 1
		}
	}
	if value, ok := r.Header(springAttempt); ok && formOf(r) == FormSpring {
		if n, ok := integer(springAttempt, value); ok && n > 0 {
			return int(n)
		}
	}
	return int(number(r, 0, HeaderAttempts, "x-outbox-error-attempts"))
}

// number is the first value of one of the headers.
func number(r *Record, otherwise int64, names ...string) int64 {
	for _, name := range names {
		if value, ok := firstOf(r, name); ok {
			if n, ok := integer(name, value); ok {
				return n
			}
		}
	}
	return otherwise
}

// integer reads a decimal number, or in Spring's headers the bytes of an integer, most significant first: four or eight, or as many as it takes. Such bytes may be digits as
// well; none of the integers that are read here is as large as those are.
func integer(name string, value []byte) (int64, bool) {
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return n, true
	}
	spring := strings.HasPrefix(name, "kafka_") || strings.HasPrefix(name, "retry_topic-")
	if !spring || len(value) == 0 || len(value) > 8 {
		return 0, false
	}
	n := int64(int8(value[0])) // the first byte has the sign
	for _, b := range value[1:] {
		n = n<<8 | int64(b)
	}
	return n, true
}

// moment reads RFC 3339 from the first header, or milliseconds since 1970 from the others.
func moment(r *Record, name string, millis ...string) time.Time {
	if s, ok := firstHeader(r, []string{name}); ok {
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			return t
		}
	}
	if ms := number(r, 0, millis...); ms > 0 {
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
	return slices.ContainsFunc(prefixes, func(p prefix) bool { return strings.HasPrefix(name, p.name) })
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
