package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/relay"
)

// Topic is what Kafka says of one topic.
type Topic struct {
	// Name is the topic's name.
	Name string
	// Partitions is how many it has; 0 when Err is set.
	Partitions int
	// MaxMessageBytes is its max.message.bytes; 0 when that cannot be read, for want of DESCRIBE_CONFIGS on the topic.
	MaxMessageBytes int
	// Err is why nothing can be published to it: a *relay.PublishError of ClassTopic, or nil.
	Err error

	id kadm.TopicID
}

// lookup asks for partitions, permissions and limits of topics, in two requests, and makes the missing ones if it may.
type lookup struct {
	client *kgo.Client
	admin  *kadm.Client
	create *TopicSpec
	log    *slog.Logger
}

func (l *lookup) topics(ctx context.Context, names []string) (map[string]Topic, error) {
	if len(names) == 0 {
		return map[string]Topic{}, nil
	}
	found, err := l.describe(ctx, slices.Compact(slices.Sorted(slices.Values(names))))
	if err != nil {
		return nil, err
	}
	if missing := missingOf(found); l.create != nil && len(missing) > 0 {
		if err := l.createTopics(ctx, missing, found); err != nil {
			return nil, err
		}
	}
	return found, l.limits(ctx, found)
}

// describe asks for the topics by name; the broker is told not to create any.
func (l *lookup) describe(ctx context.Context, names []string) (map[string]Topic, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, l.client)
	if err != nil {
		return nil, fmt.Errorf("ask for topics: %w", err)
	}
	found := make(map[string]Topic, len(names))
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.Topic != nil {
			found[*t.Topic] = newTopic(t)
		}
	}
	for _, name := range names {
		if _, ok := found[name]; !ok {
			found[name] = Topic{Name: name, Err: topicError(name, kerr.UnknownTopicOrPartition)}
		}
	}
	return found, nil
}

func newTopic(t *kmsg.MetadataResponseTopic) Topic {
	out := Topic{Name: *t.Topic, Partitions: len(t.Partitions), id: t.TopicID}
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case err != nil && !(kerr.IsRetriable(err) && len(t.Partitions) > 0):
		out.Partitions, out.Err = 0, topicError(*t.Topic, err)
	case len(t.Partitions) == 0:
		out.Err = topicError(*t.Topic, kerr.UnknownTopicOrPartition)
	case !mayWrite(t.AuthorizedOperations):
		out.Err = topicError(*t.Topic, kerr.TopicAuthorizationFailed)
	}
	return out
}

// mayWrite looks at the bits of the operations that the user may do; a broker that does not tell sends the smallest number.
func mayWrite(operations int32) bool {
	return operations == math.MinInt32 || operations&(1<<kmsg.ACLOperationWrite) != 0
}

func missingOf(found map[string]Topic) []string {
	var names []string
	for name, t := range found {
		if t.Err != nil && isMissing(t.Err) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// createTopics makes topics and looks at them again. What cannot be made keeps an error that says why.
func (l *lookup) createTopics(ctx context.Context, names []string, found map[string]Topic) error {
	made, err := l.admin.CreateTopics(ctx, orBrokerDefault[int32](l.create.Partitions), orBrokerDefault[int16](l.create.Replication), nil, names...)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	var again []string
	for name, t := range made {
		switch {
		case t.Err == nil:
			l.log.Info("topic created", "topic", name, "partitions", t.NumPartitions, "replication", t.ReplicationFactor)
			again = append(again, name)
		case codeOf(t.Err, "") == kerr.TopicAlreadyExists.Message:
			again = append(again, name)
		default:
			found[name] = Topic{Name: name, Err: topicError(name, t.Err)}
		}
	}
	if len(again) == 0 {
		return nil
	}
	return l.awaitTopics(ctx, again, found)
}

// awaitTopics looks until the brokers have heard of topics that exist, which takes them a moment. It gives up after a second.
func (l *lookup) awaitTopics(ctx context.Context, names []string, found map[string]Topic) error {
	const tries = 10
	again := time.NewTicker(time.Second / tries)
	defer again.Stop()
	for range tries {
		fresh, err := l.describe(ctx, names)
		if err != nil {
			return err
		}
		maps.Copy(found, fresh)
		if len(missingOf(fresh)) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
	return nil
}

func orBrokerDefault[T int16 | int32](n int) T {
	if n == 0 {
		return -1
	}
	return T(n)
}

// limits fills in max.message.bytes. A topic whose configuration may not be read keeps 0.
func (l *lookup) limits(ctx context.Context, found map[string]Topic) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for name, t := range found {
		if t.Err != nil {
			continue
		}
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType = kmsg.ConfigResourceTypeTopic
		r.ResourceName = name
		r.ConfigNames = []string{maxMessageBytesName}
		req.Resources = append(req.Resources, r)
	}
	if len(req.Resources) == 0 {
		return nil
	}
	resp, err := req.RequestWith(ctx, l.client)
	if err != nil {
		return fmt.Errorf("ask for topics' limits: %w", err)
	}
	for i := range resp.Resources {
		r := &resp.Resources[i]
		if t, ok := found[r.ResourceName]; ok && r.ErrorCode == 0 {
			t.MaxMessageBytes = limitOf(r)
			found[r.ResourceName] = t
		}
	}
	return nil
}

const maxMessageBytesName = "max.message.bytes"

func limitOf(r *kmsg.DescribeConfigsResponseResource) int {
	for i := range r.Configs {
		if c := &r.Configs[i]; c.Name == maxMessageBytesName && c.Value != nil {
			n, err := strconv.Atoi(*c.Value)
			if err != nil || n < 0 {
				return 0
			}
			return n
		}
	}
	return 0
}

func isMissing(err error) bool {
	var p *relay.PublishError
	return errors.As(err, &p) && p.Code == kerr.UnknownTopicOrPartition.Message
}
