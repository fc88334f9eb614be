package kafka

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox/internal/advice"
)

// ACL is a rule of a cluster with an authorizer: it allows operations on resources to somebody.
type ACL struct {
	// Resource is topic or group.
	Resource string
	// Names are those of the resources, as they are.
	Names []string
	// Operations are as kafka-acls.sh writes them: Read, Write, Create, Delete, DescribeConfigs. Read, Write and Delete include Describe.
	Operations []string
}

// Resources of [ACL].
const (
	ResourceTopic = "topic"
	ResourceGroup = "group"
)

// RelayACLs are the rules that a relay needs and no more, in Kafka 2.8 or newer: topics are those of its events and the dead-letter topics of its policies. Without
// DescribeConfigs it works, with single sends of large events. Without any topic there is nothing to allow.
func RelayACLs(topics []string, createTopics bool) []ACL {
	operations := []string{"Write", "DescribeConfigs"}
	if createTopics {
		operations = append(operations, "Create")
	}
	return onTopics(topics, operations...)
}

// ACLs are the rules that the consumer needs with this configuration, and no more.
func (c *Consumer) ACLs() []ACL {
	sent := []string{"Write", "DescribeConfigs"}
	if c.cfg.CreateTopics != nil {
		sent = append(sent, "Create")
	}
	rules := append(onTopics(slices.Concat(c.cfg.Topics, c.cfg.retries), "Read"), onTopics(slices.Concat(c.cfg.retries, c.cfg.letters), sent...)...)
	return append(rules, ACL{Resource: ResourceGroup, Names: []string{c.cfg.Group}, Operations: []string{"Read"}})
}

// LetterACLs are the rules for outbox dlt, and no more: list and show read the dead-letter topics, redrive writes to the topics that the letters are of, and purge
// deletes in the dead-letter topics.
func LetterACLs(letters, topics []string) []ACL {
	return append(onTopics(letters, "Read", "Delete"), onTopics(topics, "Write", "DescribeConfigs")...)
}

func onTopics(names []string, operations ...string) []ACL {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 0 {
		return nil
	}
	return []ACL{{Resource: ResourceTopic, Names: names, Operations: operations}}
}

// Command is the rule as a command of Kafka's own tool; brokers are host:port,..., and principal is as the brokers write it, such as User:relay.
func (a ACL) Command(brokers, principal string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka-acls.sh --bootstrap-server %s --add --allow-principal %s", advice.Word(brokers), advice.Word(principal))
	for _, operation := range a.Operations {
		b.WriteString(" --operation " + operation)
	}
	for _, name := range a.Names {
		fmt.Fprintf(&b, " --%s %s", a.Resource, advice.Word(name))
	}
	return b.String()
}
