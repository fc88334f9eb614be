package kafka

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Brokers name the records that their validation does not accept, with the reason for each (KIP-467); the client does not pass that on. Without the names a batch has to be
// sent again and again in halves, and of a key one event for each round of the relay is found. So for a while after a rejection the requests and answers of produces are
// kept as they pass the socket, and what is named is read from them. A name is believed for what it names alone: the event id in the record that was sent, which must be
// that of one record only of those that failed. A record without one, or beside another of its id, is found by halves.

const (
	// namingLasts is how long names are looked for after a rejection.
	namingLasts = 10 * time.Second
	// longestNamed bounds the reason that a broker gives for one record, and keptNamed what is kept of it until it was made discreet: a secret must not be cut before.
	longestNamed, keptNamed = 300, 4000
)

// naming is what brokers say of single records; it is shared by the sockets of a client.
type naming struct {
	now func() time.Time
	// until is when to stop looking, in nanoseconds since 1970; zero before the first rejection.
	until atomic.Int64

	mu sync.Mutex
	// reasons are those of the records that were named and not taken yet.
	reasons map[recordName]string
}

// recordName is what a broker's answer says of a record: where it was to go, the topic by its name or by its id, and its event.
type recordName struct {
	topic     string
	topicID   [16]byte
	partition int32
	event     uuid.UUID
}

// namesOf are those that a record may be named by.
func namesOf(it *item) [2]recordName {
	byName := recordName{topic: it.part.topic.name, partition: it.rec.Partition, event: it.event.EventID}
	byID := recordName{topicID: it.part.topic.info.id, partition: byName.partition, event: byName.event}
	return [...]recordName{byName, byID}
}

func (n *naming) begin() { n.until.Store(n.now().Add(namingLasts).UnixNano()) }

func (n *naming) on() bool {
	until := n.until.Load()
	return until != 0 && n.now().UnixNano() < until
}

// take returns the reasons for those of the records that were named, and forgets them. An id that two of them have names neither.
func (n *naming) take(failed []failure) map[*item]string {
	of := make(map[uuid.UUID]int, len(failed))
	for _, f := range failed {
		of[f.item.event.EventID]++
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	named := map[*item]string{}
	for _, f := range failed {
		for _, name := range namesOf(f.item) {
			reason, ok := n.reasons[name]
			if ok && of[name.event] == 1 {
				named[f.item] = reason
			}
		}
	}
	for _, f := range failed {
		for _, name := range namesOf(f.item) {
			delete(n.reasons, name)
		}
	}
	return named
}

func (n *naming) add(names []recordName, reasons []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reasons == nil || len(n.reasons) > behindEvents*10 {
		n.reasons = map[recordName]string{}
	}
	for i, name := range names {
		// The zero id is no event's.
		if name.event != uuid.Nil {
			n.reasons[name] = reasons[i]
		}
	}
}

// wiretap follows the frames of one connection. The client writes a request by one call, and reads from one goroutine.
type wiretap struct {
	mu sync.Mutex
	// sent are the produce requests without an answer, by their correlation ids.
	sent map[int32][]byte

	// size and answer are the frame that is being read, left what is missing of it; keep tells that it is wanted.
	size   []byte
	answer []byte
	left   int
	keep   bool
}

// requestHeader is the size of a request's size, key, version and correlation id.
const requestHeader = 4 + 2 + 2 + 4

func (w *wiretap) wrote(b []byte, n *naming) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !n.on() {
		clear(w.sent)
		return
	}
	if len(b) < requestHeader || kmsg.Key(binary.BigEndian.Uint16(b[4:])) != kmsg.Produce {
		return
	}
	if w.sent == nil {
		w.sent = map[int32][]byte{}
	}
	w.sent[int32(binary.BigEndian.Uint32(b[8:]))] = slices.Clone(b)
}

func (w *wiretap) read(b []byte, names *naming) {
	for len(b) > 0 {
		if w.left == 0 {
			n := min(4-len(w.size), len(b))
			w.size, b = append(w.size, b[:n]...), b[n:]
			if len(w.size) == 4 {
				w.left, w.size = int(binary.BigEndian.Uint32(w.size)), w.size[:0]
				w.answer, w.keep = w.answer[:0], names.on()
			}
			continue
		}
		n := min(w.left, len(b))
		if w.keep {
			w.answer = append(w.answer, b[:n]...)
		}
		b, w.left = b[n:], w.left-n
		if w.left == 0 && w.keep {
			w.answered(w.answer, names)
			w.answer = nil
		}
	}
}

// answered looks at an answer; what cannot be read names nobody.
func (w *wiretap) answered(answer []byte, names *naming) {
	if len(answer) < 4 {
		return
	}
	id := int32(binary.BigEndian.Uint32(answer))
	w.mu.Lock()
	request := w.sent[id]
	delete(w.sent, id)
	w.mu.Unlock()
	if request == nil {
		return
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.SetVersion(int16(binary.BigEndian.Uint16(request[6:])))
	body, ok := withoutTags(answer[4:], resp.IsFlexible())
	if !ok || resp.ReadFrom(body) != nil {
		return
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if len(p.ErrorRecords) == 0 {
				continue
			}
			if named, err := namedIn(request, t, p); err == nil {
				names.add(named, reasonsOf(p))
			}
		}
	}
}

// withoutTags skips the tags at the end of a header; there are none.
func withoutTags(b []byte, flexible bool) (rest []byte, ok bool) {
	if !flexible {
		return b, true
	}
	if len(b) == 0 || b[0] != 0 {
		return nil, false
	}
	return b[1:], true
}

func reasonsOf(p kmsg.ProduceResponseTopicPartition) []string {
	reasons := make([]string, len(p.ErrorRecords))
	for i, r := range p.ErrorRecords {
		for _, text := range []*string{r.ErrorMessage, p.ErrorMessage} {
			if text != nil && reasons[i] == "" {
				reasons[i] = strings.ToValidUTF8((*text)[:min(len(*text), keptNamed)], "")
			}
		}
	}
	return reasons
}

var errUnreadable = errors.New("the request cannot be read")

// namedIn finds the records that an answer names in the request. One without an event id has the zero one.
func namedIn(request []byte, t kmsg.ProduceResponseTopic, p kmsg.ProduceResponseTopicPartition) ([]recordName, error) {
	records, err := recordsOf(request, t, p.Partition)
	if err != nil {
		return nil, err
	}
	names := make([]recordName, len(p.ErrorRecords))
	for i, named := range p.ErrorRecords {
		if named.RelativeOffset < 0 || int(named.RelativeOffset) >= len(records) {
			return nil, errUnreadable
		}
		names[i] = recordName{topic: t.Topic, topicID: t.TopicID, partition: p.Partition}
		for _, h := range records[named.RelativeOffset].Headers {
			if h.Key == HeaderEventID {
				names[i].event, _ = uuid.ParseBytes(h.Value)
				break
			}
		}
	}
	return names, nil
}

func recordsOf(request []byte, of kmsg.ProduceResponseTopic, partition int32) ([]kmsg.Record, error) {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(int16(binary.BigEndian.Uint16(request[6:])))
	client := request[requestHeader:]
	if len(client) < 2 {
		return nil, errUnreadable
	}
	skip := 2 + int(max(0, int16(binary.BigEndian.Uint16(client))))
	if len(client) < skip {
		return nil, errUnreadable
	}
	body, ok := withoutTags(client[skip:], req.IsFlexible())
	if !ok || req.ReadFrom(body) != nil {
		return nil, errUnreadable
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if t.Topic == of.Topic && t.TopicID == of.TopicID && p.Partition == partition {
				return recordsIn(p.Records)
			}
		}
	}
	return nil, errUnreadable
}

func recordsIn(raw []byte) ([]kmsg.Record, error) {
	var batch kmsg.RecordBatch
	if batch.ReadFrom(raw) != nil {
		return nil, errUnreadable
	}
	const compression = 7 // the lowest bits of the attributes
	b, err := kgo.DefaultDecompressor().Decompress(batch.Records, kgo.CompressionCodecType(batch.Attributes&compression))
	if err != nil {
		return nil, err
	}
	records := make([]kmsg.Record, 0, max(0, min(int(batch.NumRecords), len(b))))
	for len(b) > 0 {
		size, n := binary.Varint(b)
		if n <= 0 || size < 0 || size > int64(len(b)-n) {
			return nil, errUnreadable
		}
		var r kmsg.Record
		if r.ReadFrom(b[:n+int(size)]) != nil {
			return nil, errUnreadable
		}
		records, b = append(records, r), b[n+int(size):]
	}
	return records, nil
}
