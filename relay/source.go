package relay

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Source is one outbox table with the relay's own state beside it. Package postgres implements it.
//
// A relay works in terms: from taking the lease until it is lost, handed back, or a connection breaks. Every method may
// return an error; the relay then ends the term and begins another one, so a Source repairs its connections in [Source.Open]
// and nowhere else.
type Source interface {
	Reader
	Settler
	Leases
	Failures
	Attempts

	// Open makes the connections that a term needs, or finds them healthy, and returns what the source says of itself. A server in
	// recovery is refused. ctx bounds the call, not the life of the connections.
	Open(ctx context.Context) (SourceInfo, error)
	// Close ends all connections. It is safe to call twice.
	Close()
}

// Watcher is an optional ability of a [Source]: it looks at conditions that may change while the relay works, such as an index that was
// dropped, and says so by itself.
type Watcher interface {
	// Watch looks once. The relay calls it once a minute, beside the other methods; an error is ignored, it is the next look's.
	Watch(ctx context.Context) error
}

// SourceInfo is what a source says of itself when it is opened.
type SourceInfo struct {
	// Name is the table's schema-qualified name, for people.
	Name string
	// ID is the random id that migrate gave to the source.
	ID uuid.UUID
	// Lanes is how many lanes the source has.
	Lanes int
	// FirstPublished is when the source's first event was published; zero if none ever was.
	FirstPublished time.Time
	// Warnings are conditions that the relay works with but an operator should mend, one sentence each.
	Warnings []string
}

// Reader hands out unpublished events: those of one key in commit order, each at least once in a term.
//
// The methods of a Reader are called from one goroutine. Start comes first in every term.
type Reader interface {
	// Start forgets everything that was read before and begins with the oldest unpublished event of the given lanes. held tells which keys and
	// topics are not to be read; the Reader may hand out their events nevertheless. It may be asked until the next Start: a walk need not go on for a key that is held by
	// then, which is given to Reread when it goes on.
	Start(ctx context.Context, held Held, lanes []int32) error
	// Read returns the next events, at most about limit from the head and what has appeared in the holes. An empty batch is no error. Events
	// are handed out by the call whose statement has found them, never kept for a later one: what the relay settles meanwhile would come again.
	Read(ctx context.Context, limit int) (Batch, error)
	// Reread makes the Reader walk again through all that is unpublished of the given keys, topics and lanes, from the oldest on. Until the
	// walk has caught up, newer events of them are left to it, so they are handed out in order and once. The lanes are the Reader's from
	// now on, whether they were before or not.
	Reread(keys []Key, topics []string, lanes []int32)
	// Forget leaves lanes to others: the Reader hands out nothing of them any more.
	Forget(lanes []int32)
	// Sweep looks through the unpublished rows for one that was forgotten: neither known nor held. It works in pages until the
	// budget is spent and goes on there the next time. It returns how many it found; the Reader has then begun anew as by Start, so they
	// are handed out by the next reads. It does nothing while a walk is in progress.
	Sweep(ctx context.Context, budget time.Duration, known func(Ref) bool, held Held) (found int, err error)
}

// Held tells what is not to be read now: keys that are parked or waiting, and topics that are missing.
type Held interface {
	HeldKey(Key) bool
	HeldTopics() []string
}

// Batch is the outcome of one read.
type Batch struct {
	// Events are to be handed on in this order.
	Events []*Event
	// More tells that the read was cut by its limit: the next one should follow at once, and may be larger.
	More bool
	// Walking tells that a walk, of Start or of Reread, has not reached the cursor yet: there is older work to be read.
	Walking bool
	// OpenWriters is how many transactions hold up a hole: their events may still come. Holes is how many ranges of ids were passed over whose rows may still appear.
	OpenWriters, Holes int
	// Now is the database's clock during the read; zero when the Source does not tell.
	Now time.Time
}

// Settler writes down that events are in Kafka.
type Settler interface {
	// Settle marks the rows as published, or deletes them, and has committed when it returns. It returns how many of the rows it has settled. With a
	// nil error the rest of them are gone or were published before: somebody else settles this table too. An *UnsettledError
	// is a partial success: the rows that it names are there, unpublished, and cannot be settled; all others are as with a nil error. After any other error nothing is
	// known of the rows, and they are given again.
	Settle(ctx context.Context, refs []Ref) (settled int, err error)
}

// Leases is the right to publish. Every lane has its own: it belongs to an owner, a random id of one process, until it runs out by the
// database's clock, and its epoch rises with every change of owner. The methods are called from one goroutine.
type Leases interface {
	// Claim registers the owner as alive for ttl, prolongs the lanes it has for ttl, and takes free ones: no more than up to its [Share] among the relays that
	// are [StandingTried] and itself, and as long as it is not tried itself and another one is, no more than one. held
	// are the lanes that the owner works with already; if one of them is no longer its own the error is ErrLeaseLost, and if the server is not the
	// one that gave them, ErrServerChanged. With none, every lane gets a higher epoch, those that are the owner's already too: what it has sent before
	// and has had no answer to, and which arrives late, has no effect any more.
	Claim(ctx context.Context, owner Owner, ttl time.Duration, held Claim) (Claim, error)
	// Report writes down what a registered owner has shown of itself. Its standing does not fall by that; it begins with [StandingNew] at each registration.
	Report(ctx context.Context, owner Owner, r Report) error
	// StandBy registers an owner for ttl that could not use lanes now: it is seen, with what it says of Kafka, gets none, and counts for nobody whatever it has shown
	// before: its standing is [StandingNew]. Lanes that it may still have are not prolonged.
	StandBy(ctx context.Context, owner Owner, ttl time.Duration, r Report) error
	// Look tells, by reading alone, how the lanes are shared out and whether anybody wants something.
	Look(ctx context.Context, owner Owner) (View, error)
	// Renew prolongs every lane of the claim, and the owner's registration. ErrLeaseLost means that one of them is no longer this owner's, for
	// whatever reason; ErrServerChanged that the server is not the one that gave them.
	Renew(ctx context.Context, claim Claim, ttl time.Duration) error
	// Release gives lanes back, so that another relay need not wait. Lanes that are not the owner's any more are left alone.
	Release(ctx context.Context, claim Claim) error
	// Leave gives lanes back as Release does, and ends the owner's registration if it has no others: the other relays share the lanes among them.
	Leave(ctx context.Context, claim Claim) error
}

// Share is how many lanes each of a number of relays may have at most, so that together they have all.
func Share(lanes, relays int) int {
	relays = max(relays, 1)
	return (lanes + relays - 1) / relays
}

// Owner is one relay process.
type Owner struct {
	// ID is random for each process and is never used again.
	ID uuid.UUID
	// Name says to people where it runs: host name and process id.
	Name string
	// Version is the relay's version.
	Version string
}

// Claim is a set of lanes that one owner has.
type Claim struct {
	Owner Owner
	// Lanes, in ascending order, and Epochs are the lanes and the epoch of each.
	Lanes  []int32
	Epochs []int64
	// Abandoned are those of the lanes that were taken by this claim and that their owner before had let run out instead of giving them back: it may have died of
	// an event.
	Abandoned []int32
}

// Standing is what a relay has shown since it registered, and so how it counts among the others.
type Standing int

// The standings, in the order in which a relay goes through them.
const (
	// StandingNew: it has registered, and may have died right after. It counts for nobody but itself.
	StandingNew Standing = iota
	// StandingAlive: it was still there a moment later. The others leave it one lane to be tried with, for as long as it goes on reporting.
	StandingAlive
	// StandingTried: it has worked with a lane, or waited for one for some seconds. It counts in full, until its registration runs out.
	StandingTried
)

// Report is what a relay says of itself in [Leases.Report].
type Report struct {
	Standing Standing
	// Proved is how long ago Kafka last acknowledged something, or the brokers answered a question; 0 if they never did.
	Proved time.Duration
	// Silent is for how long Kafka has answered nothing that was sent or asked; 0 when it answers, or has not been silent for long.
	Silent time.Duration
}

// View is the outcome of [Leases.Look].
type View struct {
	// Relays is how many relays are alive and [StandingTried], and the one that asks, whatever it is.
	Relays int
	// Newcomer tells that another relay, [StandingAlive], waits for a lane to be tried with. It is false while another one is being tried: of all newcomers
	// together, no more than one lane is at risk.
	Newcomer bool
	// Proved is how long ago another relay, at least [StandingAlive], last showed that it can publish; 0 if none has.
	Proved time.Duration
	// Free is how many lanes nobody has.
	Free int
	// Holder is an owner of lanes other than the one that asks; the zero Owner if there is none.
	Holder Owner
	// Expires is how long the last of Holder's leases still lasts by the database's clock.
	Expires time.Duration
	// Requests tells that an operator's request is open, for whatever lane.
	Requests bool
	// Pauses names what is paused, without saying it: when it is another name than before, [Failures.Pauses] says what has changed.
	Pauses string
}

// Failures keeps what went wrong with single events, in the database. Every change compares the claim's owner and epoch in its own
// transaction and returns ErrLeaseLost when another relay has taken over.
type Failures interface {
	// ParkedKeys returns the keys of the given lanes that are parked, each with the event that stops it.
	ParkedKeys(ctx context.Context, lanes []int32) ([]ParkedKey, error)
	// Park stops keys, none of them given twice: each at its event, for a reason. It counts as a failed attempt with the event, but for CodeAggregateParked. It returns the keys whose
	// events are not unpublished any more, which it does not stop: somebody has settled or removed those events meanwhile. After an error nothing is known of the keys; one that
	// the database refuses does not keep the others from being parked.
	Park(ctx context.Context, claim Claim, keys []ParkedKey) (gone []Key, err error)
	// HoldTopics writes down what has changed about the topics that the owner cannot publish to. What it wrote goes with its registration.
	HoldTopics(ctx context.Context, owner Owner, change HeldChange) error
	// Requests carries out a part of what operators have asked for of the claim's lanes, no more than takes a moment, and goes on there the next time. ready
	// returns those of the keys of which nothing is in flight, nor anything undecided; they are held until Requests returns. What concerns the others is left for another time, and keeps nothing
	// else waiting but what was asked later of the same key: the requests of a key are carried out in their order. A call that returns no More ends the round, and the next one
	// begins with what was left. With an error, what is said to be carried out is.
	Requests(ctx context.Context, claim Claim, ready func([]Key) []Key) (Carried, error)
	// Pauses returns what operators have paused.
	Pauses(ctx context.Context) (Pauses, error)
}

// Carried is what one call of [Failures.Requests] has done.
type Carried struct {
	// Released are keys that are not parked any more, and wait for no next attempt.
	Released []Key
	// Changed are keys of which an event was taken away or put back, or got one that has stopped another key until now: they are to be read again unless something else holds
	// them.
	Changed []Key
	// Done is how many requests were closed, carried out or refused.
	Done int
	// More tells that there is more to do: the next call should follow at once.
	More bool
}

// PauseScope is what a pause concerns.
type PauseScope string

// The scopes. PauseSource pauses everything.
const (
	PauseSource PauseScope = "source"
	PauseTopic  PauseScope = "topic"
	PauseKey    PauseScope = "key"
)

// Pause keeps events from being published until an operator lets them go on. What was handed to Kafka before is finished.
type Pause struct {
	Scope PauseScope
	// Topic is "" for the source; PartitionKey counts for a key alone.
	Topic, PartitionKey string
	// By is who has paused it, Reason why, and At when by the database's clock.
	By, Reason string
	At         time.Time
}

// Pauses is all that is paused, with the name that [View.Pauses] gives to it.
type Pauses struct {
	Name string
	All  []Pause
}

// HeldTopic is a topic that cannot be published to.
type HeldTopic struct {
	Topic string
	// Code is a stable name of the reason, such as UNKNOWN_TOPIC_OR_PARTITION; Reason says it to people, with what to do.
	Code, Reason string
}

// HeldChange is what has changed about the topics that an owner cannot publish to.
type HeldChange struct {
	// Anew tells that all goes first that the owner wrote before.
	Anew bool
	// Held are topics that are held since, or for another reason than before; Released are the names of those that are held no more. There are no more than
	// a statement can well take.
	Held     []HeldTopic
	Released []string
}

// ParkedKey is a key that waits for an operator.
type ParkedKey struct {
	Key
	// Event is the row that stops the key.
	Event Ref
	// EventType is its type.
	EventType string
	// Aggregate is the event's if it stops with the key; of a key with CodeAggregateParked, the one that the key waits for. Otherwise zero.
	Aggregate Aggregate
	// Code is a stable name of the reason, such as MESSAGE_TOO_LARGE.
	Code string
	// Reason says it to people: what, where, and what to do.
	Reason string
	// At is when it was parked, by the database's clock; ignored by Park.
	At time.Time
}
