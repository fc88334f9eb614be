package competing

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

// Source is one outbox table as competing relays work on it. Package postgres implements it.
//
// A relay works in terms: from registering until the registration is lost, given back, or a connection breaks. A Source repairs its
// connections in Open and nowhere else.
type Source interface {
	Registrar

	// Open makes the connections that a term needs, or finds them healthy, and returns what the source says of itself. A server in recovery is
	// refused. ctx bounds the call, not the life of the connections.
	Open(ctx context.Context) (relay.SourceInfo, error)
	// Pass is one transaction: it locks the next unpublished rows of keys that are not parked and that nobody else has locked, in the order of their ids, calls publish with their events,
	// settles those that publish returns, and commits. publish is called once, or not at all when there is nothing, and has returned when Pass
	// does. Its context ends when the transaction, and with it the locks, may be gone: publish must then see to it that nothing more is sent, and return.
	//
	// With a nil error, everything that publish has returned is settled. A *relay.UnsettledError is a partial success: the rows that it names cannot be
	// settled. After any other error nothing is known of the rows.
	Pass(ctx context.Context, ask Ask, publish func(context.Context, []*relay.Event) []relay.Ref) (Result, error)
	// HoldTopics writes down what has changed about the topics that the owner cannot publish to. What it wrote goes with its registration, and one that
	// is not registered writes nothing. It is called between passes.
	HoldTopics(ctx context.Context, owner relay.Owner, change relay.HeldChange) error
	// Close ends all connections. It is safe to call twice.
	Close()
}

// Registrar keeps relays that lease lanes away from the source while a competing one is registered, by the database's clock.
type Registrar interface {
	// Register makes the owner a competing relay for ttl. While a relay leases lanes it is refused with an error that names that one.
	Register(ctx context.Context, owner relay.Owner, ttl time.Duration) error
	// Renew prolongs the registration. relay.ErrLeaseLost means that it has run out.
	Renew(ctx context.Context, owner relay.Owner, ttl time.Duration) error
	// Report writes down for how long Kafka has answered a registered owner nothing; 0 when it answers.
	Report(ctx context.Context, owner relay.Owner, silent time.Duration) error
	// Withdraw ends the registration, so that relays that lease lanes need not wait.
	Withdraw(ctx context.Context, owner relay.Owner) error
}

// Ask says which rows a pass wants.
type Ask struct {
	// Limit is how many rows are locked at most.
	Limit int
	// Bytes is about how much the events handed to publish may hold; the first is handed over whatever its size.
	Bytes int
	// HeldKeys and HeldTopics are left out.
	HeldKeys   []relay.Key
	HeldTopics []string
}

// Result is what a pass has done.
type Result struct {
	// Handed is how many events publish was called with.
	Handed int
	// Settled is how many rows were settled.
	Settled int
	// More tells that there may be more rows to take at once.
	More bool
}
