package relay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox/internal/topicname"
)

// Action is what becomes of an event that is given up: one whose failure is its own, after as many attempts as its policy allows.
type Action int

// The actions.
const (
	// Park stops the event's key until an operator decides; the event stays where it is.
	Park Action = iota
	// DeadLetter moves the event whole to the dead ones, after it was sent to the policy's dead-letter topic if there is one. Its key goes on behind it.
	DeadLetter
	// Skip moves the event to the dead ones, because nobody wants to hear of it. Its key goes on behind it.
	Skip
)

// ParseAction reads "park", "dead-letter" or "skip".
func ParseAction(s string) (Action, error) {
	for a := Park; a <= Skip; a++ {
		if s == a.String() {
			return a, nil
		}
	}
	return Park, fmt.Errorf("%q is no action: use park, dead-letter or skip", s)
}

func (a Action) String() string {
	switch a {
	case Park:
		return "park"
	case DeadLetter:
		return "dead-letter"
	case Skip:
		return "skip"
	}
	return fmt.Sprintf("action %d", int(a))
}

// Policy says what becomes of the events of some topics that cannot be published. Only failures of ClassEvent count: an outage, a missing topic and a
// neighbour's failure cost an event nothing.
type Policy struct {
	// Topics is a pattern: * stands for any characters, ? for one. "" is *.
	Topics string
	// OnFailure is what becomes of an event that is given up.
	OnFailure Action
	// ParkScope is how far an event reaches that stops its key. It counts for whatever ends up parked: with DeadLetter and Skip, what could not be moved, or has ended one
	// relay after the other. An event that waits for its next attempt stops its key alone.
	ParkScope ParkScope
	// MaxAttempts is how often an event is tried before it is given up. Between two attempts its key waits, and no other. 0: once, and
	// DefaultAttempts times where the failure is one that time may cure ([PublishError.Passing]).
	MaxAttempts int
	// DeadLetterTopic is where DeadLetter sends the event: its key, value and headers with x-outbox-error-* headers. {topic} in it stands for the event's topic.
	// "": nowhere.
	DeadLetterTopic string
	// MinBackoff and MaxBackoff bound the time before the next attempt: it is drawn between MinBackoff and a limit that doubles with each attempt, from 2 × MinBackoff
	// up to MaxBackoff. Defaults 1 s and 5 min.
	MinBackoff, MaxBackoff time.Duration
}

// DefaultAttempts is how often an event is tried whose failure time may cure.
const DefaultAttempts = 5

// topicPlaceholder stands for the event's topic in the name of a dead-letter topic.
const topicPlaceholder = "{topic}"

func (p Policy) withDefaults() Policy {
	p.Topics = cmp.Or(p.Topics, "*")
	p.MinBackoff = cmp.Or(p.MinBackoff, time.Second)
	p.MaxBackoff = cmp.Or(p.MaxBackoff, max(5*time.Minute, p.MinBackoff))
	return p
}

// validate returns all that is wrong, each with the policy's pattern in front.
func (p Policy) validate() error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("policy of topics %q: "+format, append([]any{p.Topics}, args...)...))
	}
	if p.OnFailure < Park || p.OnFailure > Skip {
		wrong("there is no action %d: use Park, DeadLetter or Skip", int(p.OnFailure))
	}
	if p.ParkScope < ScopeKey || p.ParkScope > ScopeAggregate {
		wrong("there is no scope %d: use ScopeKey or ScopeAggregate", int(p.ParkScope))
	}
	if p.MaxAttempts < 0 {
		wrong("there are %d attempts: want 0 or more", p.MaxAttempts)
	}
	if p.MinBackoff < 0 || p.MaxBackoff < p.MinBackoff {
		wrong("the time between attempts is from %s to %s; it must not be negative, nor end before it begins", p.MinBackoff, p.MaxBackoff)
	}
	if p.DeadLetterTopic == "" {
		return errors.Join(errs...)
	}
	if p.OnFailure != DeadLetter {
		wrong("there is a dead-letter topic, and %s sends nothing there: use dead-letter, or leave the topic out", p.OnFailure)
	}
	if problem := topicname.Check(p.letterTopic("t")); problem != nil {
		wrong("dead-letter topic %q %w", p.DeadLetterTopic, problem)
	}
	if p.DeadLetterTopic == topicPlaceholder || p.letterTopic(p.Topics) == p.Topics {
		wrong("dead-letter topic %q is the topic of the events themselves; name another, such as dlq.%s", p.DeadLetterTopic, topicPlaceholder)
	}
	return errors.Join(errs...)
}

// letterTopic is the dead-letter topic of a topic; "" when there is none. Of a very long topic the name may be longer than Kafka allows.
func (p Policy) letterTopic(topic string) string {
	return strings.ReplaceAll(p.DeadLetterTopic, topicPlaceholder, topic)
}

// attempts is how often an event is tried whose failure is err.
func (p Policy) attempts(err error) int {
	var e *PublishError
	switch {
	case p.MaxAttempts > 0:
		return p.MaxAttempts
	case errors.As(err, &e) && e.Passing:
		return DefaultAttempts
	}
	return 1
}

// backoff is the time until the next attempt, after as many as were made; jitter draws from zero to below its argument.
func (p Policy) backoff(made int, jitter func(time.Duration) time.Duration) time.Duration {
	limit := p.MaxBackoff
	// More than 40 doublings overflow before any limit is reached.
	if doubled := p.MinBackoff << min(made, 40); doubled>>min(made, 40) == p.MinBackoff {
		limit = min(limit, doubled)
	}
	if limit <= p.MinBackoff {
		return p.MinBackoff
	}
	return p.MinBackoff + jitter(limit-p.MinBackoff)
}

// policyOf returns the first policy whose pattern is the topic's; parking if there is none.
func (c *Config) policyOf(topic string) Policy {
	for _, p := range c.Policies {
		if matches(p.Topics, topic) {
			return p
		}
	}
	return Policy{}.withDefaults()
}

// givesUp tells that a key may go on behind an event that has failed.
func (c *Config) givesUp() bool {
	return slices.ContainsFunc(c.Policies, func(p Policy) bool { return p.OnFailure != Park })
}

// letterTopics are the dead-letter topics that do not depend on an event.
func (c *Config) letterTopics() (topics []string) {
	for _, p := range c.Policies {
		if t := p.DeadLetterTopic; t != "" && !strings.Contains(t, topicPlaceholder) && !slices.Contains(topics, t) {
			topics = append(topics, t)
		}
	}
	return topics
}

// matches tells whether a pattern of * and ? is a name's. A step back goes to the last * only, so that no pattern takes long.
func matches(pattern, name string) bool {
	p, n := []rune(pattern), []rune(name)
	i, star, mark := 0, -1, 0
	for j := 0; j < len(n); {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == n[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
