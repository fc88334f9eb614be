package engine

import (
	"fmt"
	"time"
)

const (
	// MinLeaseTTL leaves the Kafka client a produce timeout of one second, below which an ordinary garbage collection of a broker counts as a failure.
	MinLeaseTTL = 5 * time.Second
	// MaxLeaseTTL keeps a crash from stopping a source for longer than anybody means it to, and the times derived from it from overflowing.
	MaxLeaseTTL = time.Hour
)

// Silence is how long after sending its last good renewal a relay may still talk to the brokers: what is left of ttl then covers a produce that was on its
// way, which takes up to maxDelay, and a margin for timers and goroutines that run late.
func Silence(ttl, maxDelay time.Duration) time.Duration {
	margin := ttl / 15
	return ttl - maxDelay - margin
}

// CheckLeaseTTL refuses a time that is out of bounds, or does not suit a publisher whose produces take up to maxDelay. The error begins with LeaseTTL, the name
// of the setting in both engines.
func CheckLeaseTTL(ttl, maxDelay time.Duration) error {
	switch {
	case ttl < MinLeaseTTL:
		return fmt.Errorf("LeaseTTL is %s; it must be at least %s", ttl, MinLeaseTTL)
	case ttl > MaxLeaseTTL:
		return fmt.Errorf("LeaseTTL is %s; it must be at most %s", ttl, MaxLeaseTTL)
	case Silence(ttl, maxDelay) < ttl/2:
		return fmt.Errorf("LeaseTTL is %s, of which a produce may take %s; at most half of it may be held in reserve: make the publisher for the "+
			"same lease (kafka.Config.LeaseTTL), or raise LeaseTTL", ttl, maxDelay)
	}
	return nil
}
