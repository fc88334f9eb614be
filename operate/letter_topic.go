package operate

import (
	"time"

	"github.com/outbox-relay/outbox/internal/advice"
)

// LetterTopic is a dead-letter topic that takes nothing: it is missing, or refuses what is to go there. The keys of the events that were to go there are parked until somebody lets them
// go on.
type LetterTopic struct {
	// Topic is its name, or the beginning of one that is longer than Kafka allows.
	Topic string `json:"topic"`
	// Code is what it has answered, such as UNKNOWN_TOPIC_OR_PARTITION.
	Code string `json:"code"`
	// ParkedKeys is how many keys are parked because of it, ParkedKeysCapped that counting ended at a limit, over all parked keys. Since is when the first of them was.
	ParkedKeys       int64     `json:"parked_keys"`
	ParkedKeysCapped bool      `json:"parked_keys_capped,omitempty"`
	Since            time.Time `json:"since"`
}

// Mend is what helps, in words: what has to be done in Kafka, and the command that lets the keys go on after that.
func (l LetterTopic) Mend() string {
	cause := map[string]string{
		"UNKNOWN_TOPIC_OR_PARTITION": "create it",
		"TOPIC_AUTHORIZATION_FAILED": "allow the relay to write to it",
		"MESSAGE_TOO_LARGE":          "raise its max.message.bytes",
	}[l.Code]
	if cause == "" {
		cause = "mend that"
	}
	return cause + ", then: outbox keys unpark --error " + advice.Word("dead-letter topic "+l.Topic+" does not take it: "+l.Code)
}
