package operate

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Changes is what a [Service] needs of the database to change something. Package postgres implements it. Its errors are an [Error] where the
// caller can do something about them; every other one is a database that cannot be asked.
type Changes interface {
	Auditor
	JobKeeper
	Requests
	Matches

	// Pause writes a pause down, which every relay obeys within a second, and Resume takes it back. They tell whether something changed.
	Pause(ctx context.Context, what Scope, by, reason string) (changed bool, err error)
	Resume(ctx context.Context, what Scope) (changed bool, err error)
}

// Auditor keeps outbox.audit.
type Auditor interface {
	// StartAudit writes down what is about to be done, and returns the row's id.
	StartAudit(ctx context.Context, a AuditStart) (int64, error)
	// EndAudit completes the row. affected is how many events, keys or rows were changed; job is 0 when there was none.
	EndAudit(ctx context.Context, id, affected, job int64, outcome string) error
}

// AuditStart is who is about to do what, and why.
type AuditStart struct {
	Actor string
	Verb  Verb
	// Filter says to what, as a JSON object.
	Filter []byte
	Reason string
}

// JobKeeper keeps outbox.job.
type JobKeeper interface {
	// StartJob returns the id of a new job, which is running, and notes it in the row of the audit that it belongs to.
	StartJob(ctx context.Context, j JobStart) (int64, error)
	// SeeJob writes down that somebody runs it. After half a minute without that it is over, as if it had been cancelled: relays leave the rest of its requests alone.
	SeeJob(ctx context.Context, id int64) error
	// ReportJob writes down how far it is, and that somebody runs it. note says how to go on if that was the last that was heard of the job; "" leaves what was said before.
	// It tells whether somebody has cancelled it, or nobody ran it for too long.
	ReportJob(ctx context.Context, id, done, failed int64, note string) (cancelled bool, err error)
	// EndJob closes it as "done", "cancelled" or "failed". A job that was cancelled stays so.
	EndJob(ctx context.Context, id, done, failed int64, state, note string) error
	// CancelJob cancels a job that is running, wherever it runs, and closes its open requests. Without one that is running the error has CodeNotFound or CodeConflict.
	CancelJob(ctx context.Context, id int64, by string) error
}

// JobStart is a job that begins.
type JobStart struct {
	// Audit is the row of the audit that it belongs to; 0 is none.
	Audit  int64
	Verb   Verb
	Filter []byte
	Actor  string
	Reason string
	// Total is how many events or keys it is to change.
	Total int64
}

// Requests is how relays are asked for what concerns unpublished events.
type Requests interface {
	// Find looks for events, wherever they are, and returns those that are nowhere too. An event that is in the table and dead, too, is taken for the one in the table.
	Find(ctx context.Context, refs []Ref) (found []Target, missing []Ref, err error)
	// Overtaken tells whether events of the target's key that are newer than it are published already.
	Overtaken(ctx context.Context, t Target) (Overtaken, error)
	// Ask writes a request down, and its id into the row of the audit that it belongs to, and returns the id. A zero EventID asks for the key.
	Ask(ctx context.Context, audit int64, verb Verb, t Target, by, reason string) (int64, error)
	// Answer waits for the outcome of a request, until ctx ends. With no relay alive it is carried out on the spot.
	Answer(ctx context.Context, request int64) (Answer, error)
	// Delay tells for people why an open request is not carried out yet, as far as that is known.
	Delay(ctx context.Context, request int64) (string, error)
	// Withdraw takes a request back, for good. One that is answered already is not withdrawn: its answer is returned. Without such a request the error has CodeNotFound, and of
	// one of a job CodeConflict.
	Withdraw(ctx context.Context, request int64, by string) (a Answer, withdrawn bool, err error)
}

// Target is one event, or with a zero EventID one key.
type Target struct {
	Topic, PartitionKey string
	ID                  int64
	EventID             uuid.UUID
	// State is [StatePending], [StatePublished] or [StateDead].
	State State
	// Letter is the dead-letter topic that a dead one was sent to; "" when there is none.
	Letter string
	// Code is why a dead event was given up, such as SKIPPED or MESSAGE_TOO_LARGE, and of one that stopped its key then what that was for; "" of one that is not dead.
	Code string
}

// failed tells that a dead event had failed, whoever gave it up then.
func (t Target) failed() bool { return t.Code != "" && t.Code != "SKIPPED" && t.Code != "DEAD" }

// Overtaken is what is known of the events of a key behind a dead one.
type Overtaken string

// The answers.
const (
	// OvertakenNo: none of the newer ones is published. OvertakenYes: at least one is.
	OvertakenNo  Overtaken = "no"
	OvertakenYes Overtaken = "yes"
	// OvertakenUnknown: there are too many newer rows to look through, and no index leads to those of the key.
	OvertakenUnknown Overtaken = "unknown"
	// OvertakenRowsGone is as unknown: none of the rows that are there is newer and published, but settled rows may have been deleted.
	OvertakenRowsGone Overtaken = "rows_gone"
)

// Answer is how a request ended.
type Answer struct {
	// Text says what was done; Problem why nothing was, "" when it was.
	Text, Problem string
}

// Matches is what a filter finds, in pages: nothing here holds more than a page in memory, whatever the filter finds.
type Matches interface {
	// Match looks through the next part of what b's filter ranges over, without changing anything. limit is how many rows it may look at.
	Match(ctx context.Context, b Bulk, after Cursor, limit int) (Matched, error)
	// OvertakenOf looks behind the next dead events that b, a restore, finds, at most limit of them, and changes nothing. It may end early, with a place to go on.
	OvertakenOf(ctx context.Context, b Bulk, after Cursor, limit int) (OvertakenPage, error)
	// AskMatching writes down requests of the job for what Match would find there, at most limit of them.
	AskMatching(ctx context.Context, job int64, b Bulk, by string, after Cursor, limit int) (Asked, error)
	// Tally counts the outcomes of the job's requests with ids from first to last. With no relay alive it carries out what is open, for up to a second or so.
	Tally(ctx context.Context, job, first, last int64) (Tally, error)
	// Settled reads the next settled events that b's filter finds, at most limit of them.
	Settled(ctx context.Context, b Bulk, after Cursor, limit int) (SettledPage, error)
}

// Cursor is a place in a walk. The zero Cursor is before everything.
type Cursor struct {
	// Walk numbers the tables that a filter ranges over; ID, EventID and Hash are the place in one.
	Walk    int
	ID      int64
	EventID uuid.UUID
	Hash    []byte
	// End tells that nothing is left.
	End bool
}

// Matched is a page of a count.
type Matched struct {
	// Count is how many were found; Looked how many rows were looked at for that.
	Count, Looked int64
	// Last is the highest id of what was found.
	Last int64
	// Topics are the topics of what was found, with the number of each.
	Topics map[string]int64
	// Letters are the dead-letter topics that dead ones of them were sent to, with the number of each.
	Letters map[string]int64
	Next    Cursor
}

// Asked is a batch of requests.
type Asked struct {
	// Count is how many; their ids lie between First and Last.
	Count, First, Last int64
	Next               Cursor
}

// Tally is how the requests of a batch have ended.
type Tally struct {
	Done, Open int64
	// AlreadyDone counts those that found nothing to do: somebody else was quicker.
	AlreadyDone int64
	// NotFound counts those whose event, or parked key, is not there any more.
	NotFound int64
	// Cancelled counts those that were closed because the job was cancelled.
	Cancelled int64
	// Failed are the others, by their reason with the numbers left out.
	Failed map[string]int64
}

// Settled is a settled event to be published again.
type Settled struct {
	ID                        int64
	EventID                   uuid.UUID
	Type, Topic, PartitionKey string
	// Payload and Headers are the texts as PostgreSQL prints them; Payload is nil when it cannot be printed, Headers when there are none.
	Payload, Headers []byte
	CreatedAt        time.Time
}

// SettledPage is a page of a replay.
type SettledPage struct {
	Events []Settled
	Next   Cursor
}
