package operate

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Topic is what is known of a topic.
type Topic struct {
	Topic string `json:"topic"`
	// Pending is how many events are unpublished, parked and waiting ones included, among those that were counted. The Capped fields tell of the number of their name that
	// counting ended at a limit, over all topics: there may be more.
	Pending       int64 `json:"pending"`
	PendingCapped bool  `json:"pending_capped,omitempty"`
	// OldestAge is of the oldest of them, in seconds.
	OldestAge        float64 `json:"oldest_pending_age_seconds"`
	ParkedKeys       int64   `json:"parked_keys"`
	ParkedKeysCapped bool    `json:"parked_keys_capped,omitempty"`
	Dead             int64   `json:"dead"`
	DeadCapped       bool    `json:"dead_capped,omitempty"`
	// Holds are the relays that can publish nothing to it, and why.
	Holds []Hold `json:"holds,omitempty"`
	// Paused is nil when nobody has paused the topic.
	Paused *Pause `json:"paused,omitempty"`
	// PausedKeys is how many of its keys are paused.
	PausedKeys int64 `json:"paused_keys"`
}

// Hold is what keeps a relay from publishing to a topic.
type Hold struct {
	Topic  string    `json:"-"`
	Relay  string    `json:"relay"`
	Code   string    `json:"code"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// TopicList is the topics, by name.
type TopicList struct {
	Topics []Topic `json:"topics"`
	// Paused is nil when nobody has paused the whole source.
	Paused *Pause `json:"paused,omitempty"`
	// Looks say how many unpublished and dead events and parked keys were counted, where there are more.
	Looks []Look `json:"looks,omitempty"`
	// Watched tells that a relay is alive: without one nobody knows what holds a topic.
	Watched bool `json:"watched"`
	// LetterTopics are the dead-letter topics because of which keys are parked.
	LetterTopics []LetterTopic `json:"letter_topics,omitempty"`
	// Outages are the relays that are alive and that Kafka answers nothing: what they have of any topic waits.
	Outages []Outage `json:"outages,omitempty"`
}

// Outage is a relay that Kafka answers nothing, and since when.
type Outage struct {
	Relay string    `json:"relay"`
	Since time.Time `json:"since"`
}

// Lane is a lane with its owner.
type Lane struct {
	Lane  int32 `json:"lane"`
	Epoch int64 `json:"epoch"`
	// Owner is the zero UUID when nobody has the lane; Relay is its name.
	Owner uuid.UUID `json:"owner,omitzero"`
	Relay string    `json:"relay"`
	// Remaining is how many seconds the lease still lasts; 0 when there is none, or it has run out.
	Remaining  float64 `json:"remaining_seconds"`
	ParkedKeys int64   `json:"parked_keys"`
}

// Relay is a relay that was seen.
type Relay struct {
	Owner     uuid.UUID `json:"owner"`
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	Competing bool      `json:"competing"`
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
	// ProvedAt is when Kafka last answered it; zero if it never did.
	ProvedAt time.Time `json:"proved_at,omitzero"`
	Alive    bool      `json:"alive"`
	// Lanes is how many it has.
	Lanes int `json:"lanes"`
	// Holds is how many topics it can publish nothing to, HeldNames the first ten of them by name.
	Holds     int      `json:"held_topics"`
	HeldNames []string `json:"held_topic_names,omitempty"`
	// SilentSince is since when Kafka answers nothing to it; zero when Kafka answers.
	SilentSince time.Time `json:"silent_since,omitzero"`
}

// AuditQuery asks for a page of the audit.
type AuditQuery struct {
	Actor *string
	// Verb is one of [AuditedVerbs].
	Verb *string
	Job  int64
	// MaxAge leaves out what is older; 0 nothing.
	MaxAge time.Duration
	After  string
	Limit  int
}

func (q AuditQuery) normalized() (AuditQuery, error) {
	var problems []error
	if q.MaxAge < 0 {
		problems = append(problems, Refuse(CodeInvalid, "an age is negative: no change is from the future"))
	}
	if q.Job < 0 {
		problems = append(problems, Refuse(CodeInvalid, "job %d: want the id of a job", q.Job))
	}
	var err error
	q.Limit, err = historyPage("list the audit", q.Actor, q.Verb, AuditedVerbs(), q.Limit, problems...)
	return q, err
}

// historyPage checks what is asked for alike of the audit and of the jobs, and returns the size of the page. others are what else is wrong.
func historyPage(list string, actor, verb *string, verbs []string, limit int, others ...error) (int, error) {
	size, err := pageSize(limit)
	problems := append(others, oneOf(verb, verbs), err)
	if actor != nil && !storable(*actor) {
		problems = append(problems, Refuse(CodeInvalid, "actor %q: nobody has such a name", *actor))
	}
	if err := errors.Join(problems...); err != nil {
		return 0, &Error{Code: CodeInvalid, Text: list, Err: err}
	}
	return size, nil
}

// AuditEntry is a change that somebody asked for.
type AuditEntry struct {
	ID     int64           `json:"id,string"`
	At     time.Time       `json:"at"`
	Actor  string          `json:"actor"`
	Verb   string          `json:"verb"`
	Filter json.RawMessage `json:"filter"`
	Reason string          `json:"reason"`
	// Job is 0 when it was not a job.
	Job int64 `json:"job,string,omitempty"`
	// Affected is nil while it goes on, or when it ended without a word.
	Affected *int64    `json:"affected"`
	Outcome  string    `json:"outcome"`
	EndedAt  time.Time `json:"ended_at,omitzero"`
}

// AuditPage is a page of the audit, the newest first.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next,omitempty"`
}

// JobQuery asks for a page of jobs.
type JobQuery struct {
	// State is running, done, cancelled or failed; "" is any.
	State string
	// Verb is one of [JobVerbs]; Actor is who has started it.
	Verb, Actor *string
	After       string
	Limit       int
}

func (q JobQuery) normalized() (JobQuery, error) {
	var problems []error
	switch q.State {
	case "", JobRunning, JobDone, JobCancelled, JobFailed:
	default:
		problems = append(problems, Refuse(CodeInvalid, "state %q: want running, done, cancelled or failed", q.State))
	}
	var err error
	q.Limit, err = historyPage("list jobs", q.Actor, q.Verb, JobVerbs(), q.Limit, problems...)
	return q, err
}

// JobPage is a page of jobs, the newest first.
type JobPage struct {
	Jobs []JobEntry `json:"jobs"`
	Next string     `json:"next,omitempty"`
	// Requests are the open ones that belong to no job, the oldest first, at most [MaxOpenRequests] of them: in the first page of a list of running jobs, or of all. MoreRequests
	// tells that there are more.
	Requests     []OpenRequest `json:"requests,omitempty"`
	MoreRequests bool          `json:"more_requests,omitempty"`
}

// MaxOpenRequests is how many open requests a page of jobs names.
const MaxOpenRequests = 100

// OpenRequest is a change of one event or key that is not carried out yet: its command waits for that, or was killed.
type OpenRequest struct {
	ID           int64  `json:"id,string"`
	Verb         string `json:"verb"`
	Topic        string `json:"topic"`
	PartitionKey string `json:"partition_key"`
	// Event is nil when it is about the key.
	Event  *Ref      `json:"event,omitempty"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// JobEntry is a change of many things, as it stands.
type JobEntry struct {
	ID        int64           `json:"id,string"`
	Verb      string          `json:"verb"`
	Filter    json.RawMessage `json:"filter"`
	Actor     string          `json:"actor"`
	Reason    string          `json:"reason"`
	Total     int64           `json:"total"`
	Done      int64           `json:"done"`
	Failed    int64           `json:"failed"`
	State     string          `json:"state"`
	Note      string          `json:"note"`
	StartedAt time.Time       `json:"started_at"`
	// SeenAt is when whoever runs it last said that it goes on.
	SeenAt  time.Time `json:"seen_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// Pause is what an operator has paused.
type Pause struct {
	// Scope is source, topic or key.
	Scope        string    `json:"scope"`
	Topic        string    `json:"topic,omitempty"`
	PartitionKey string    `json:"partition_key,omitempty"`
	By           string    `json:"by"`
	Reason       string    `json:"reason"`
	Since        time.Time `json:"since"`
}
