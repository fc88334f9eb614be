package outbox

import (
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// MaxCallBytes is how large all the texts of one call may be together: 256 MiB. A parameter of PostgreSQL holds at most 1 GB, escapes
// included.
const MaxCallBytes = 256 << 20

// rows completes and checks the events, and returns them as the table stores them, or everything that is wrong with them.
func (w *Writer) rows(events []Event) ([]row, []Problem) {
	c := checker{first: make(map[uuid.UUID]int, len(events))}
	rows := make([]row, len(events))
	for i, e := range events {
		c.event = i
		rows[i] = w.row(e, &c)
	}
	return rows, c.problems
}

func (w *Writer) row(e Event, c *checker) row {
	w.complete(&e, c)
	c.check(&e)
	payload, f := payloadText(&e)
	c.report("Payload", f)
	headers, f := headersText(e.Headers)
	c.report("Headers", f)
	r := row{e.ID, [columnCount]string{
		e.ID.String(), e.AggregateType, e.AggregateID, e.Type, string(payload), e.Topic, e.PartitionKey, headers,
	}}
	c.size(r)
	return r
}

// complete fills in what the event leaves out.
func (w *Writer) complete(e *Event, c *checker) {
	if e.ID == uuid.Nil {
		e.ID = w.cfg.NewID()
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = w.cfg.Now()
	}
	if e.PartitionKey == "" {
		e.PartitionKey = e.AggregateID
	}
	if e.Topic == "" {
		topic, f := w.deriveTopic(e)
		e.Topic = topic
		c.report("Topic", f)
	}
}

func (w *Writer) deriveTopic(e *Event) (string, *fault) {
	if w.cfg.Topics.Service == "" {
		return "", &fault{"is empty", "set Event.Topic, or configure a writer with Topics to derive it"}
	}
	if e.AggregateType == "" || e.Type == "" {
		return "", nil // these are reported by themselves
	}
	return w.cfg.Topics.derive(e.AggregateType, e.Type)
}

// checker collects the problems of one call.
type checker struct {
	event    int
	problems []Problem
	// first is where each id was seen first.
	first map[uuid.UUID]int
	bytes int
}

func (c *checker) report(field string, f *fault) {
	if f != nil {
		c.problems = append(c.problems, Problem{c.event, field, f.text, f.remedy})
	}
}

func (c *checker) check(e *Event) {
	c.report("ID", c.checkID(e.ID))
	c.report("AggregateType", checkRequired(e.AggregateType))
	c.report("AggregateID", checkRequired(e.AggregateID))
	c.report("Type", checkRequired(e.Type))
	if e.Topic != "" {
		c.report("Topic", checkTopic(e.Topic))
	}
	if e.PartitionKey != e.AggregateID {
		c.report("PartitionKey", checkText(e.PartitionKey))
	}
	checkHeaders(e.Headers, c.report)
}

func (c *checker) checkID(id uuid.UUID) *fault {
	if id == uuid.Nil {
		return &fault{"is zero", "Config.NewID must return ids that are not"}
	}
	if first, seen := c.first[id]; seen {
		return faultf("give each event an id of its own, or leave it zero", "is also the id of event %d", first)
	}
	c.first[id] = c.event
	return nil
}

// size reports the event that makes the call too large, once.
func (c *checker) size(r row) {
	before := c.bytes
	for _, text := range r.columns {
		c.bytes += len(text)
	}
	if before <= MaxCallBytes && c.bytes > MaxCallBytes {
		c.report("Payload", faultf("write the events in several calls", "makes the call larger than %d bytes", MaxCallBytes))
	}
}

func checkRequired(text string) *fault {
	if text == "" {
		return &fault{"is empty", "set it"}
	}
	return checkText(text)
}

// checkText refuses what a column of type text cannot hold.
func checkText(text string) *fault {
	if !utf8.ValidString(text) {
		return invalidUTF8([]byte(text))
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return hasNUL(i)
	}
	return nil
}

func invalidUTF8(text []byte) *fault {
	at := 0
	for at < len(text) {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return faultf("convert it to UTF-8, or encode it, for example as base64", "is not valid UTF-8 at byte %d", at)
}

func hasNUL(at int) *fault {
	return faultf("PostgreSQL cannot store it: remove it, or encode the value, for example as base64",
		"has the character U+0000 at byte %d", at)
}
