package relay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParsePolicy reads a policy as people write it, in words with blanks between them:
//
//	dead-letter
//	orders.*=dead-letter topic=dead.{topic} attempts=3 backoff=1s..5m
//	orders.*=park park-scope=aggregate
//
// First comes the action, for the topics of a pattern if there is one in front of it; then what else the policy says: DeadLetterTopic, ParkScope, MaxAttempts, MinBackoff and MaxBackoff.
func ParsePolicy(text string) (Policy, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Policy{}, errors.New("the policy is empty: write one such as orders.*=dead-letter")
	}
	var p Policy
	action := words[0]
	if pattern, after, has := strings.Cut(words[0], "="); has {
		if p.Topics, action = pattern, after; pattern == "" {
			return p, fmt.Errorf("policy %q: there is no pattern in front of =: write one, or the action alone for all topics", text)
		}
	}
	var err error
	if p.OnFailure, err = ParseAction(action); err != nil {
		return p, fmt.Errorf("policy %q: %w", text, err)
	}
	seen := map[string]bool{}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		if seen[name] {
			return p, fmt.Errorf("policy %q: %s is given twice", text, name)
		}
		seen[name] = true
		if err := p.set(name, value); err != nil {
			return p, fmt.Errorf("policy %q: %w", text, err)
		}
	}
	return p, p.withDefaults().validate()
}

func (p *Policy) set(name, value string) (err error) {
	switch name {
	case "topic":
		if p.DeadLetterTopic = value; value == "" {
			return errors.New("topic= needs a name")
		}
	case "park-scope":
		if p.ParkScope, err = ParseParkScope(value); err != nil {
			return fmt.Errorf("park-scope: %w", err)
		}
	case "attempts":
		if p.MaxAttempts, err = strconv.Atoi(value); err != nil || p.MaxAttempts < 1 {
			return fmt.Errorf("attempts=%s: want a whole number, 1 or more", value)
		}
	case "backoff":
		low, high, has := strings.Cut(value, "..")
		p.MinBackoff, err = time.ParseDuration(low)
		if err == nil && has {
			p.MaxBackoff, err = time.ParseDuration(high)
		}
		if err != nil || p.MinBackoff <= 0 || has && p.MaxBackoff < p.MinBackoff {
			return fmt.Errorf("backoff=%s: want one duration, or the least and the most such as 1s..5m", value)
		}
	default:
		return fmt.Errorf("%q is unknown: after the action come topic=, park-scope=, attempts= and backoff=", name)
	}
	return nil
}
