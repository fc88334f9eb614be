package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Event is what a handler is given.
type Event[P any] struct {
	// ID is the event id, the same in every delivery; "" where [Config.NoID] lets a record without one be handled.
	ID string
	// Type is the event type.
	Type string
	// Payload is the record's value.
	Payload P
	// Record is the whole of it.
	Record *Record
}

// Handlers has a function for each event type. Tx is what they write with: pgx.Tx or *sql.Tx.
type Handlers[Tx any] struct {
	byType map[string]route[Tx]
	errs   []error
}

// route makes the call of a handler. Its error is permanent: the record cannot be what the handler takes.
type route[Tx any] func(e Event[[]byte]) (func(context.Context, Tx) error, error)

// NewHandlers returns none yet: add them with [On].
func NewHandlers[Tx any]() *Handlers[Tx] { return &Handlers[Tx]{byType: map[string]route[Tx]{}} }

// On has fn handle the events of a type:
//
//	inbox.On[OrderConfirmed](handlers, "order.confirmed.v1", func(ctx context.Context, tx pgx.Tx, e inbox.Event[OrderConfirmed]) error { … })
//
// The value is decoded by encoding/json; for a P of []byte or json.RawMessage it is given as it is, nil for a null. A value that P does not take, and a null for
// any other P, is a permanent failure. All that fn writes with tx is committed with the note that the event is handled. A type that already has a function is an
// error of [NewProcessor].
func On[P, Tx any](h *Handlers[Tx], eventType string, fn func(ctx context.Context, tx Tx, e Event[P]) error) {
	if _, twice := h.byType[eventType]; twice {
		h.errs = append(h.errs, fmt.Errorf("event type %q has two handlers: join them", eventType))
	}
	if eventType == "" {
		h.errs = append(h.errs, errors.New("a handler has no event type: name it"))
	}
	h.byType[eventType] = func(raw Event[[]byte]) (func(context.Context, Tx) error, error) {
		e := Event[P]{ID: raw.ID, Type: raw.Type, Record: raw.Record}
		if err := decode(raw.Payload, &e.Payload); err != nil {
			return nil, Permanent(&decodeError{fmt.Sprintf("%T", e.Payload), err})
		}
		return func(ctx context.Context, tx Tx) error { return fn(ctx, tx, e) }, nil
	}
}

func decode(value []byte, into any) error {
	switch p := into.(type) {
	case *[]byte:
		*p = value
		return nil
	case *json.RawMessage:
		*p = value
		return nil
	}
	switch {
	case value == nil:
		return errNull
	case len(value) == 0:
		return errEmpty
	}
	return json.Unmarshal(value, into)
}
