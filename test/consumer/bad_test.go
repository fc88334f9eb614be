//go:build integration && unix

package consumer_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/kafka"
)

func header(name string, value []byte) kgo.RecordHeader {
	return kgo.RecordHeader{Key: name, Value: value}
}

// read returns the first records of a topic, as many as there must be.
func (m *mailroom) read(topic string, n int) (all []*kgo.Record) {
	m.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(m.brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		m.Fatal(err)
	}
	defer reader.Close()
	await.Until(m, "the records of "+topic, func() bool {
		ctx, cancel := context.WithTimeout(m.Context(), time.Second)
		defer cancel()
		all = append(all, reader.PollFetches(ctx).Records()...)
		return len(all) >= n
	})
	return all
}

// Whatever somebody writes into the topic is a letter, byte for byte, in a dead-letter topic that has fewer partitions; and what is good is handled.
func TestWhatNobodyCanHandleIsALetterByteForByte(t *testing.T) {
	t.Parallel()
	m := newMailroom(t)
	m.config.Unknown = inbox.FailUnknown
	valid := []byte(`{"account": "account 1", "seq": 1}`)
	of := func(id string, key, value []byte, more ...kgo.RecordHeader) *kgo.Record {
		return &kgo.Record{Key: key, Value: value, Headers: append([]kgo.RecordHeader{header("x-event-id", []byte(id)), header("x-event-type", []byte(paidType))}, more...)}
	}
	unknown := of("i", []byte("k"), valid)
	unknown.Headers[1].Value = []byte("payment.made.v2")
	bad := map[string]*kgo.Record{
		"it is empty":                   of("a", []byte("k"), []byte{}),
		"it is null":                    of("b", []byte("k"), nil),
		"invalid character":             of("c", []byte{0xff, 0}, []byte("\x00\x01 no JSON")),
		"cannot unmarshal array":        of("d", nil, []byte(`[1]`), header("nothing", nil), header("empty", []byte{}), header("twice", []byte("1")), header("twice", []byte("2"))),
		"cannot unmarshal string":       of("e", []byte(""), []byte(`{"seq": "one"}`)),
		"the record has no event id":    {Key: []byte("k"), Value: valid, Headers: []kgo.RecordHeader{header("x-event-type", []byte(paidType))}},
		"is no text":                    of("f\x00", []byte("k"), valid),
		"bytes; at most":                of(strings.Repeat("g", inbox.MaxEventIDBytes+1), []byte("k"), valid),
		`event type "payment.made.v2"`:  unknown,
		`no handler for event type ""`:  {Key: []byte("k"), Value: valid},
		"cannot unmarshal number 1e300": of("h", []byte("k"), []byte(`{"account": "account 1", "seq": 1e300}`)),
		"unexpected end of JSON input":  of("j", []byte("k"), []byte(`{"account": "account 1"`)),
		"no such account":               of("l", []byte("k"), []byte(`{"account": "account 1", "seq": 1, "poison": 1}`)),
	}
	for _, r := range bad {
		r.Topic = m.topic
		m.produce(r)
	}
	m.into(2, 0, 50)
	c, _ := m.consume()
	await.Until(t, "all is settled", func() bool { s := c.Stats(); return s.Handled == 50 && s.DeadLettered == int64(len(bad)) })
	letters := m.read(m.topic+"-dlt", len(bad))
	for text, want := range bad {
		found := 0
		for _, l := range letters {
			r := &inbox.Record{Topic: l.Topic, Partition: l.Partition, Offset: l.Offset, Key: l.Key, Value: l.Value}
			for _, h := range l.Headers {
				r.Headers = append(r.Headers, inbox.Header{Key: h.Key, Value: h.Value})
			}
			letter := inbox.ReadLetter(r)
			if letter.Partition != want.Partition || letter.Offset != want.Offset {
				continue
			}
			found++
			if !strings.Contains(letter.Error, text) || letter.Topic != m.topic || letter.Consumer != m.group {
				t.Errorf("%s: the letter says %+v", text, letter)
			}
			same := bytes.Equal(l.Key, want.Key) && (l.Key == nil) == (want.Key == nil) && bytes.Equal(l.Value, want.Value) && (l.Value == nil) == (want.Value == nil)
			own := inbox.OwnHeaders(r)
			same = same && len(own) == len(want.Headers)
			for i := range want.Headers {
				same = same && own[i].Key == want.Headers[i].Key && bytes.Equal(own[i].Value, want.Headers[i].Value) && (own[i].Value == nil) == (want.Headers[i].Value == nil)
			}
			if !same {
				t.Errorf("%s: the letter is %q = %q, %q", text, l.Key, l.Value, own)
			}
		}
		if found != 1 {
			t.Errorf("%s: %d letters", text, found)
		}
	}
}

// A letter that its topic does not take holds up its key, loudly, and nothing else; nothing up to it is committed, and it goes when the topic takes it.
func TestALetterStaysUntilItsTopicTakesIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse, mend func(m *mailroom)
		says         string
	}{
		"too large": {
			func(m *mailroom) { m.limit(m.topic+"-dlt", "2000000") },
			func(m *mailroom) { m.limit(m.topic+"-dlt", "4000000") },
			"MESSAGE_TOO_LARGE",
		},
		"no such topic": {
			func(m *mailroom) {
				if _, err := kadm.NewClient(m.client).DeleteTopic(m.Context(), m.topic+"-dlt"); err != nil {
					m.Fatal(err)
				}
			},
			func(m *mailroom) {
				if err := devkafka.CreateTopic(m.Context(), m.brokers, m.topic+"-dlt", 1, map[string]string{"max.message.bytes": "4000000"}); err != nil {
					m.Fatal(err)
				}
			},
			"UNKNOWN_TOPIC",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMailroom(t)
			m.limit(m.topic, "4000000")
			c1, _ := m.consume(func(cfg *kafka.ConsumerConfig) {
				cfg.Run.CommitInterval, cfg.Run.Retry.Backoff, cfg.Run.Retry.MaxBackoff = 50*time.Millisecond, 50*time.Millisecond, 500*time.Millisecond
			})
			m.into(0, 0, 10)
			await.Until(t, "it is at work", func() bool { return m.committedOffsets() == 10 })
			c.refuse(m)
			large := m.event(105, 1)
			large.Value = append(large.Value[:len(large.Value)-1], []byte(`, "padding": "`+strings.Repeat("x", 3_000_000)+`"}`)...)
			m.produceInto(0, large)
			m.into(0, 10, 40)
			// Three of the thirty are of its key.
			await.Until(t, "all but its key is handled", func() bool { return m.count(effects) == 37 && m.journal.Says(c.says) })
			if at := m.committedOffsets(); at != 10 {
				t.Errorf("%d offsets are committed with one that is nowhere behind the first 10", at)
			}
			c.mend(m)
			await.Until(t, "all is settled", func() bool {
				s := c1.Stats()
				return s.DeadLettered == 1 && m.count(effects) == 40 && m.committedOffsets() == 41
			})
			if l := m.read(m.topic+"-dlt", 1)[0]; !bytes.Equal(l.Value, large.Value) {
				t.Errorf("the letter has %d bytes of %d", len(l.Value), len(large.Value))
			}
			if n := m.count(outOfOrder); n != 0 {
				t.Errorf("%d effects are out of their account's order", n)
			}
		})
	}
}

// limit is the largest batch that a topic takes.
func (m *mailroom) limit(topic, bytes string) {
	m.Helper()
	answers, err := kadm.NewClient(m.client).AlterTopicConfigs(m.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &bytes}}, topic)
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		m.Fatal(err)
	}
}

// A record of nearly the largest size that a topic takes by default is handled like any other.
func TestALargeRecordIsHandled(t *testing.T) {
	t.Parallel()
	m := newMailroom(t)
	m.limit(m.topic, "9000000")
	handlers := inbox.NewHandlers[pgx.Tx]()
	sizes := make(chan int, 2)
	inbox.On(handlers, paidType, func(_ context.Context, _ pgx.Tx, e inbox.Event[[]byte]) error {
		sizes <- len(e.Payload)
		return nil
	})
	m.handlers = handlers
	for n, size := range []int{8_000_000, 1} {
		r := m.event(n, 0)
		r.Value = bytes.Repeat([]byte{'x'}, size)
		m.produceInto(0, r)
	}
	m.consume(func(cfg *kafka.ConsumerConfig) { cfg.Run.Workers = 1 })
	if first, second := <-sizes, <-sizes; first+second != 8_000_001 {
		t.Errorf("values of %d and %d bytes", first, second)
	}
}

// Letters as people write them with kafkajs, whose headers are texts of their own, are listed and shown whole. No header of a form that is known names the topic that
// they are from: somebody has to. Spring's recoverer writes integers as bytes, and other versions and languages as texts.
func TestLettersOfNoKnownFormNeedATopicToGoTo(t *testing.T) {
	t.Parallel()
	m := newMailroom(t)
	js := m.event(1, 0)
	js.Topic += "-dlt"
	js.Headers = append(js.Headers, header("x-original-topic", []byte(m.topic)), header("x-error", []byte("no such account")), header("x-retry-count", []byte("3")), header("x-failed-at", []byte("2030-01-02T03:04:05.678Z")))
	binary, text := m.event(2, 0), m.event(3, 0)
	for _, r := range []*kgo.Record{binary, text} {
		r.Topic += "-dlt"
		r.Headers = append(r.Headers, header("kafka_dlt-original-topic", []byte(m.topic)), header("kafka_dlt-exception-fqcn", []byte("java.lang.IllegalStateException")), header("kafka_dlt-exception-message", []byte("locked")))
	}
	binary.Headers = append(binary.Headers, header("kafka_dlt-original-partition", bigEndian(2, 4)), header("kafka_dlt-original-offset", bigEndian(77, 8)), header("kafka_dlt-original-timestamp", bigEndian(1893553445678, 8)))
	text.Headers = append(text.Headers, header("kafka_dlt-original-partition", []byte("1")), header("kafka_dlt-original-offset", []byte("88")), header("kafka_dlt-original-timestamp", []byte("1893553445678")))
	m.produce(js, binary, text)

	list := m.outbox(0, "dlt", "list", m.topic)
	m.want(list, "e-1", "e-2", "e-3", m.topic+"/2/77", m.topic+"/1/88", "locked")
	shown := m.outbox(0, "dlt", "show", fmt.Sprintf("%s/%d/%d", js.Topic, js.Partition, js.Offset))
	m.want(shown, "x-original-topic: "+m.topic, "x-error: no such account", "x-retry-count: 3")
	m.want(m.outbox(1, "dlt", "redrive", m.topic, "--all", "--yes"), "no header says from which topic they are: name one with --to")
	m.want(m.outbox(0, "dlt", "redrive", m.topic, "--all", "--to", m.topic, "--yes"), "redrive: 1 of 3 done, 2 already done")
	back := map[string]*kgo.Record{}
	for _, r := range m.read(m.topic, 3) {
		back[string(r.Headers[0].Value)] = r
	}
	if r := back["e-2"]; r == nil || r.Partition != 2 || len(r.Headers) != 3 {
		t.Errorf("the letter with binary headers is back as %+v", r)
	}
	if r := back["e-3"]; r == nil || r.Partition != 1 || len(r.Headers) != 3 {
		t.Errorf("the letter with headers of text is back as %+v", r)
	}
	// Nobody can know which of its headers are the letter's: all of them go.
	if r := back["e-1"]; r == nil || len(r.Headers) != len(js.Headers) || !bytes.Equal(r.Value, js.Value) {
		t.Errorf("the letter of kafkajs is back as %+v", r)
	}
}
