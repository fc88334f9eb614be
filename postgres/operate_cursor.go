package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/operate"
)

// position is a place in the order of (id, event_id); the list goes on behind it.
type position struct {
	ID      int64     `json:"i"`
	EventID uuid.UUID `json:"e"`
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
	Query   []byte               `json:"q"`
	Streams map[string]*position `json:"s"`
}

// fingerprint is of what a query asks for, but for the page.
func fingerprint(parts ...any) []byte {
	// Of what a query holds, everything can be written as JSON.
	text, _ := json.Marshal(parts)
	sum := sha256.Sum256(text)
	return sum[:6]
}

func (c cursor) String() string {
	text, _ := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseCursor reads what String wrote for the same query; "" is the beginning.
func parseCursor(s string, query []byte, streams []string) (cursor, error) {
	c := cursor{Query: query, Streams: map[string]*position{}}
	if s == "" {
		return c, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return cursor{}, operate.Refuse(operate.CodeInvalid, "cursor %q is none: want the one that the page before has given, whole", s)
	}
	if !bytes.Equal(c.Query, query) {
		return cursor{}, operate.Refuse(operate.CodeInvalid, "the cursor is of another list: repeat the filters and the order of the page that gave it")
	}
	for name := range c.Streams {
		if !slices.Contains(streams, name) {
			return cursor{}, operate.Refuse(operate.CodeInvalid, "the cursor is of another version of this program: begin the list anew")
		}
	}
	if c.Streams == nil {
		c.Streams = map[string]*position{}
	}
	return c, nil
}

// over tells that every stream has ended.
func (c cursor) over(streams []string) bool {
	return !slices.ContainsFunc(streams, func(name string) bool {
		p, known := c.Streams[name]
		return !known || p != nil
	})
}
