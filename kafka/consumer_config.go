package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/inbox"
)

// ConsumerConfig is how a [Consumer] works. Brokers and Topics are required.
type ConsumerConfig struct {
	// Config says how to reach Kafka. CreateTopics, when not nil, makes retry and dead-letter topics that are missing; the topics themselves must be there. LeaseTTL
	// and MaxMessageBytes mean nothing here.
	Config
	// Topics are read; retry topics of theirs are as well, by themselves.
	Topics []string
	// Group is the consumer group. Default: the name under which the handlers remember events.
	Group string
	// Instance makes the member static: one that comes back under its name within the session timeout has its partitions again, without a rebalance. Default: none. With
	// NextGen that holds for one that was stopped; one that was killed waits, with its partitions, until the session of its predecessor has ended.
	Instance string
	// NextGen has the brokers assign partitions, by the protocol of KIP-848. It needs Kafka 4.0. Otherwise members do, and give up only what moves.
	NextGen bool
	// SessionTimeout is how long the group waits for a member that says nothing, such as one that was killed, until others get its partitions. Default 45 s, which is
	// Kafka's own; brokers allow 6 s to 30 min unless they are told otherwise. With NextGen the brokers choose it (group.consumer.session.timeout.ms), and it must be zero.
	SessionTimeout time.Duration
	// Run is how records are handled. Its Logger is the one of Config.
	Run inbox.RunnerConfig

	// retries are read besides the topics, letters only sent to.
	retries, letters []string
}

// DefaultSessionTimeout is that of [ConsumerConfig].
const DefaultSessionTimeout = 45 * time.Second

// minSessionTimeout leaves room for a heartbeat that is late.
const minSessionTimeout = time.Second

// heartbeat is a fraction of the session, so that one or two may be lost.
func (c ConsumerConfig) heartbeat() time.Duration { return min(3*time.Second, c.SessionTimeout/3) }

// lookEvery is how often a member looks for partitions that were added.
const lookEvery = 10 * time.Second

// fetchWait is how long a broker waits for records to come before it answers.
const fetchWait = 500 * time.Millisecond

// pollRecords is how many records one poll takes at most.
const pollRecords = 500

func (c ConsumerConfig) withDefaults(h inbox.Handling) ConsumerConfig {
	c.ClientID = cmp.Or(c.ClientID, "outbox-consumer")
	c.Config = c.Config.withDefaults()
	c.Run.Logger = c.Logger
	if !c.NextGen {
		c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	}
	if h != nil {
		c.Group = cmp.Or(c.Group, h.Consumer())
	}
	c.retries, c.letters = c.Run.Topology(h, c.Topics)
	return c
}

func (c ConsumerConfig) validate() error {
	var problems []error
	if err := c.Config.validate(); err != nil {
		problems = append(problems, err)
	}
	if len(c.Topics) == 0 {
		problems = append(problems, errors.New("topics: name at least one"))
	}
	if c.Group == "" {
		problems = append(problems, errors.New("group: name it"))
	}
	switch {
	case c.NextGen && c.SessionTimeout != 0:
		problems = append(problems, fmt.Errorf("session timeout %s: with NextGen the brokers choose it, by group.consumer.session.timeout.ms; leave it out", c.SessionTimeout))
	case !c.NextGen && c.SessionTimeout < minSessionTimeout:
		problems = append(problems, fmt.Errorf("session timeout %s: at least %s; brokers allow 6s and more unless group.min.session.timeout.ms says otherwise", c.SessionTimeout, minSessionTimeout))
	}
	for _, topic := range slices.Concat(c.Topics, c.retries, c.letters) {
		if err := outbox.CheckTopic(topic); err != nil {
			problems = append(problems, fmt.Errorf("topic %q: %w", topic, err))
		}
	}
	for i, topic := range c.Topics {
		if slices.Contains(c.Topics[:i], topic) {
			problems = append(problems, fmt.Errorf("topic %q is named twice", topic))
		}
		switch {
		case slices.Contains(c.retries, topic) || slices.Contains(c.letters, topic):
			problems = append(problems, fmt.Errorf("topic %q is a retry topic or dead-letter topic of another one that is named: leave it out", topic))
		case slices.ContainsFunc(c.Run.Retry.Topics, func(d time.Duration) bool { return strings.HasSuffix(topic, inbox.RetryTopic("", d)) }):
			problems = append(problems, fmt.Errorf("topic %q is called like a retry topic of this consumer, and would be taken for one: name the topic that it is of, or use another delay", topic))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("consumer configuration: %w", errors.Join(problems...))
}

func (c ConsumerConfig) String() string {
	return fmt.Sprintf("group %s on %s", c.Group, strings.Join(c.Topics, ", "))
}
