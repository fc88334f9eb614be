package operate

import "time"

// MaxBeside is how many paused and how many waiting keys a page of keys names beside the parked ones.
const MaxBeside = 100

// KeysBeside are the keys that do not go on though they are not parked. They stand beside the first page, whatever its order, where the filter can be of them: a pause has no event,
// and so no type, code or error.
type KeysBeside struct {
	// Paused are the keys that operators have paused, the oldest pause first; a parked key may be paused, too. A pause of a topic or of everything is not repeated for its keys.
	Paused []Pause `json:"paused,omitempty"`
	// MorePaused tells that there are more.
	MorePaused bool `json:"more_paused,omitempty"`
	// Waiting are keys whose event is tried again by itself, by the id of that.
	Waiting []WaitingKey `json:"waiting,omitempty"`
	// MoreWaiting tells that there are more, or may be: so many failures were looked through.
	MoreWaiting bool `json:"more_waiting,omitempty"`
}

// WaitingKey is a key that waits for the next attempt of an event.
type WaitingKey struct {
	Topic         string    `json:"topic"`
	PartitionKey  string    `json:"partition_key"`
	ID            int64     `json:"id,string"`
	Attempts      int       `json:"attempts"`
	Error         string    `json:"error"`
	LastAt        time.Time `json:"last_at"`
	NextAttemptAt time.Time `json:"next_attempt_at"`
}
