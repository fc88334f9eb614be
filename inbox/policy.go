package inbox

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// GiveUp is what becomes of a record that no attempt is left for.
type GiveUp int

// What becomes of it.
const (
	// Block tries it again for ever, MaxBackoff apart: its key waits, the others go on until MaxUncommitted records of the partition are behind it.
	Block GiveUp = iota
	// DeadLetter sends it to the topic's dead-letter topic, and its key goes on.
	DeadLetter
	// Skip leaves it out, with a line in the log, and its key goes on.
	Skip
)

// Retry says how often a record that fails is tried, and what comes after that. The zero value blocks the key.
type Retry struct {
	// Attempts is how often a record is tried in its place, while its key waits. Default 5. A permanent failure is tried once.
	Attempts int
	// Backoff is the wait after the first attempt; it doubles up to MaxBackoff. Half of each is random. Defaults 200 ms and 30 s.
	Backoff, MaxBackoff time.Duration
	// Topics are the delays of retry topics, in the order in which a record goes through them, each for one attempt. A key does not wait for a record that has gone to
	// one: with retry topics the order of a key is given up. Those of topic t are t-retry-<delay in ms>, as Spring has them.
	Topics []time.Duration
	// GiveUp is what comes last. The dead-letter topic of topic t is t-dlt.
	GiveUp GiveUp
}

// Defaults of [Retry].
const (
	DefaultAttempts   = 5
	DefaultBackoff    = 200 * time.Millisecond
	DefaultMaxBackoff = 30 * time.Second
)

func (p Retry) withDefaults() Retry {
	p.Attempts = cmp.Or(p.Attempts, DefaultAttempts)
	p.Backoff = cmp.Or(p.Backoff, min(DefaultBackoff, cmp.Or(p.MaxBackoff, DefaultMaxBackoff)))
	p.MaxBackoff = cmp.Or(p.MaxBackoff, max(DefaultMaxBackoff, p.Backoff))
	return p
}

func (p Retry) validate() (errs []error) {
	if p.Attempts < 1 {
		errs = append(errs, fmt.Errorf("Retry.Attempts %d: at least 1", p.Attempts))
	}
	if p.Backoff <= 0 || p.MaxBackoff < p.Backoff {
		errs = append(errs, fmt.Errorf("Retry.Backoff %s and MaxBackoff %s: both must be positive, the second not less than the first", p.Backoff, p.MaxBackoff))
	}
	if slices.ContainsFunc(p.Topics, func(d time.Duration) bool { return d < time.Millisecond || d%time.Millisecond != 0 }) {
		errs = append(errs, fmt.Errorf("Retry.Topics %v: each must be a positive number of milliseconds", p.Topics))
	}
	if sorted := slices.Clone(p.Topics); len(slices.Compact(sorted)) != len(p.Topics) || !slices.IsSorted(p.Topics) {
		errs = append(errs, fmt.Errorf("Retry.Topics %v: each must be longer than the one before", p.Topics))
	}
	if p.GiveUp < Block || p.GiveUp > Skip {
		errs = append(errs, fmt.Errorf("Retry.GiveUp %d: use Block, DeadLetter or Skip", p.GiveUp))
	}
	if p.GiveUp == Block && len(p.Topics) > 0 {
		errs = append(errs, errors.New("Retry.Topics with GiveUp Block: what the last retry topic does not mend would stop that topic; use DeadLetter or Skip"))
	}
	return errs
}

// wait is how long to wait after so many attempts.
func (p Retry) wait(attempts int, random func(n int64) int64) time.Duration {
	d := p.MaxBackoff
	if shift := attempts - 1; shift < 32 && p.Backoff<<shift > 0 {
		d = min(p.Backoff<<shift, p.MaxBackoff)
	}
	return d/2 + time.Duration(random(int64(d/2)+1))
}

func randomOf(n int64) int64 { return rand.Int64N(n) }

// Topology returns the topics that a consumer of the topics needs besides them: those it reads from as well, and those that it only sends to.
func (c RunnerConfig) Topology(h Handling, topics []string) (read, send []string) {
	of, able := h.(interface{ SendsDeadLetters() bool })
	letters := c.Retry.GiveUp == DeadLetter || able && of.SendsDeadLetters()
	for _, t := range topics {
		for _, d := range c.Retry.Topics {
			read = append(read, RetryTopic(t, d))
		}
		if letters {
			send = append(send, DeadLetterTopic(t))
		}
	}
	return read, send
}

// RetryTopic is the name of a topic's retry topic with a delay.
func RetryTopic(topic string, delay time.Duration) string {
	return fmt.Sprintf("%s-retry-%d", topic, delay.Milliseconds())
}

// DeadLetterTopic is the name of a topic's dead-letter topic.
func DeadLetterTopic(topic string) string { return topic + "-dlt" }
