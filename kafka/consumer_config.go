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
	// Instance makes the member static: one that comes back under its name within the session timeout has its partitions again, without a rebalance. Default: none.
	Instance string
	// NextGen has the brokers assign partitions, by the protocol of KIP-848. It needs Kafka 4.0. Otherwise members do, and give up only what moves.
	NextGen bool
	// Run is how records are handled. Its Logger is the one of Config.
	Run inbox.RunnerConfig

	// retries are read besides the topics, letters only sent to.
	retries, letters []string
}

// fetchWait is how long a broker waits for records to come before it answers.
const fetchWait = 500 * time.Millisecond

// pollRecords is how many records one poll takes at most.
const pollRecords = 500

func (c ConsumerConfig) withDefaults(h inbox.Handling) ConsumerConfig {
	c.ClientID = cmp.Or(c.ClientID, "outbox-consumer")
	c.Config = c.Config.withDefaults()
	c.Run.Logger = c.Logger
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
