package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/operate"
)

// position is a place in the order of (id, event_id); the list goes on behind it.
type position struct {
	ID      int64
	EventID uuid.UUID
}

// behind tells whether p comes after o in the order.
func (p position) behind(o position, order operate.Order) bool {
	if order == operate.NewestFirst {
		p, o = o, p
	}
	if p.ID != o.ID {
		return p.ID > o.ID
	}
	return bytes.Compare(p.EventID[:], o.EventID[:]) > 0
}

// afterID is behind every event that has the id.
func afterID(id int64, order operate.Order) position {
	if order == operate.NewestFirst {
		return position{ID: id}
	}
	return position{ID: id, EventID: uuid.Max}
}

// cursor says how far a list is in each of its streams, by the stream's name. One that is missing has not begun, one that is nil has ended.
type cursor struct {
	// Query is a fingerprint: a cursor of another list would skip in silence.
	Query   []byte
	Streams map[string]*position
}

// fingerprintSize is how many bytes a fingerprint has.
const fingerprintSize = 6

// fingerprint is of what a query asks for, but for the page.
func fingerprint(parts ...any) []byte {
	// Of what a query holds, everything can be written as JSON.
	text, _ := json.Marshal(parts)
	sum := sha256.Sum256(text)
	return sum[:fingerprintSize]
}

// What a written cursor says of a stream, behind its name: that it has ended, or its id, varint, and the event's id beside it. The event ids that a list by ids alone has
// need no bytes.
const (
	markEnded byte = iota
	markID
	markLastOfID
	markIDAndEvent
)

// String is short, for it is copied by hand: the fingerprint, the number of streams, without which one that was cut would begin some anew, and for each the length of its name, the
// name and the mark.
func (c cursor) String() string {
	text := append(slices.Clone(c.Query), byte(len(c.Streams)))
	for _, name := range slices.Sorted(maps.Keys(c.Streams)) {
		text = append(append(text, byte(len(name))), name...)
		p := c.Streams[name]
		switch {
		case p == nil:
			text = append(text, markEnded)
		case p.EventID == uuid.Nil:
			text = binary.AppendVarint(append(text, markID), p.ID)
		case p.EventID == uuid.Max:
			text = binary.AppendVarint(append(text, markLastOfID), p.ID)
		default:
			text = append(binary.AppendVarint(append(text, markIDAndEvent), p.ID), p.EventID[:]...)
		}
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseCursor reads what String wrote for the same query; "" is the beginning.
func parseCursor(s string, query []byte, streams []string) (cursor, error) {
	c := cursor{Query: query, Streams: map[string]*position{}}
	if s == "" {
		return c, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(text) <= fingerprintSize {
		return cursor{}, noCursor(s)
	}
	if !bytes.Equal(text[:fingerprintSize], query) {
		return cursor{}, operate.Refuse(operate.CodeInvalid, "the cursor is of another list, or is not whole: repeat the filters and the order of the page that gave it")
	}
	count := int(text[fingerprintSize])
	for text = text[fingerprintSize+1:]; len(text) > 0; {
		var name string
		var at *position
		var ok bool
		if name, at, text, ok = parseStream(text); !ok {
			return cursor{}, noCursor(s)
		}
		if !slices.Contains(streams, name) {
			return cursor{}, operate.Refuse(operate.CodeInvalid, "the cursor is of another version of this program: begin the list anew")
		}
		c.Streams[name] = at
	}
	if len(c.Streams) != count {
		return cursor{}, noCursor(s)
	}
	return c, nil
}

func noCursor(s string) error {
	return operate.Refuse(operate.CodeInvalid, "cursor %q is none: want the one that the page before has given, whole", s)
}

// parseStream reads how far one stream is; rest is what stands behind it.
func parseStream(text []byte) (name string, at *position, rest []byte, ok bool) {
	size := int(text[0])
	if len(text) < size+2 {
		return "", nil, nil, false
	}
	name, mark, text := string(text[1:1+size]), text[1+size], text[2+size:]
	if mark == markEnded {
		return name, nil, text, true
	}
	id, n := binary.Varint(text)
	if n <= 0 {
		return "", nil, nil, false
	}
	at, text = &position{ID: id}, text[n:]
	switch {
	case mark == markID:
	case mark == markLastOfID:
		at.EventID = uuid.Max
	case mark == markIDAndEvent && len(text) >= len(at.EventID):
		text = text[copy(at.EventID[:], text):]
	default:
		return "", nil, nil, false
	}
	return name, at, text, true
}

// over tells that every stream has ended.
func (c cursor) over(streams []string) bool {
	return !slices.ContainsFunc(streams, func(name string) bool {
		p, known := c.Streams[name]
		return !known || p != nil
	})
}
