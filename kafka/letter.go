package kafka

import (
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/relay"
)

// Names of the headers that a record of a dead-letter topic carries behind its own.
const (
	// HeaderErrorCode and HeaderErrorReason say why the event was given up, HeaderErrorTopic where it should have gone.
	HeaderErrorCode   = "x-outbox-error-code"
	HeaderErrorReason = "x-outbox-error-reason"
	HeaderErrorTopic  = "x-outbox-error-topic"
	// HeaderErrorAttempts is after how many attempts that was, a decimal number, HeaderErrorAt when: RFC 3339 in UTC.
	HeaderErrorAttempts = "x-outbox-error-attempts"
	HeaderErrorAt       = "x-outbox-error-at"
	// HeaderErrorHeaders is the text of the row's column headers, only if it cannot be made into headers.
	HeaderErrorHeaders = "x-outbox-error-headers"
)

var _ relay.Letterer = (*Publisher)(nil)

// PublishLetter implements [relay.Letterer]. A payload that is NULL, or that PostgreSQL could not print, is a null value.
func (p *Publisher) PublishLetter(l relay.Letter, done func(relay.Place, error)) {
	var c *call
	tell := func(_ *relay.Event, err error) {
		if err != nil {
			done(relay.Place{}, err)
			return
		}
		rec := &c.items[0].rec
		done(relay.Place{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset}, nil)
	}
	c = newLetter(l, tell)
	e := c.items[0].event
	if err := outbox.CheckTopic(l.Topic); err != nil {
		go p.tellAlone(e, tell, rowError(e, codeTopic, fmt.Errorf("no topic can have this name: %w; choose another dead-letter topic for it", err)))
		return
	}
	if s := p.session(); s == nil || !s.publish(c) {
		go p.refuse([]*relay.Event{e}, tell)
	}
}

// tellAlone is for an outcome that no session has.
func (p *Publisher) tellAlone(e *relay.Event, done func(*relay.Event, error), err error) {
	p.telling.Lock()
	defer p.telling.Unlock()
	done(e, err)
}

// newLetter renders the event for another topic. What cannot be rendered is why it is a letter, and is left out.
func newLetter(l relay.Letter, done func(*relay.Event, error)) *call {
	e := *l.Event
	e.Topic = l.Topic
	c := newCall([]*relay.Event{&e}, done)
	it := &c.items[0]
	it.rec.Headers = headersOfLetter(it.rec.Headers[:min(standardHeaders, len(it.rec.Headers))], e.Headers)
	if e.Payload == nil {
		it.rec.Value = nil
	}
	it.broken = nil
	for _, h := range [][2]string{
		{HeaderErrorCode, l.Code},
		{HeaderErrorReason, l.Reason},
		{HeaderErrorTopic, l.Event.Topic},
		{HeaderErrorAttempts, strconv.Itoa(l.Attempts)},
		{HeaderErrorAt, l.At.UTC().Format(time.RFC3339Nano)},
	} {
		it.rec.Headers = append(it.rec.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	it.size = recordSize(&it.rec)
	return c
}

// headersOfLetter appends the row's own headers, or their text as one header if they are none.
func headersOfLetter(dst []kgo.RecordHeader, text []byte) []kgo.RecordHeader {
	if len(text) == 0 || string(text) == "null" {
		return dst
	}
	own, err := appendRowHeaders(dst, text)
	if err != nil {
		return append(dst, kgo.RecordHeader{Key: HeaderErrorHeaders, Value: text})
	}
	return own
}

// standardHeaders is how many headers come before the row's own.
const standardHeaders = 2
