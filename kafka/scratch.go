package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Scratch makes topics for a measurement and deletes them again, by a client of its own.
type Scratch struct {
	cfg    Config
	client *kgo.Client
	admin  *kadm.Client
}

// NewScratch checks the configuration and connects to nothing yet. CreateTopics says how topics are made; nil leaves that to the brokers' defaults.
func NewScratch(c Config) (*Scratch, error) {
	c = c.withDefaults()
	if c.CreateTopics == nil {
		c.CreateTopics = &TopicSpec{}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(clientOptions(c, newNetwork(c))...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	return &Scratch{cfg: c, client: client, admin: kadm.NewClient(client)}, nil
}

// Close ends the connections.
func (s *Scratch) Close() { s.client.Close() }

// Open asks the brokers for an answer; the error is a *relay.PublishError of ClassOutage that names them and the reason.
func (s *Scratch) Open(ctx context.Context) error {
	if _, err := s.RoundTrip(ctx); err != nil {
		return s.cfg.outageError("reach kafka at", s.cfg.brokerList(), err)
	}
	return nil
}

// RoundTrip is how long a broker takes to answer a request that gives it nothing to do.
func (s *Scratch) RoundTrip(ctx context.Context) (time.Duration, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	began := time.Now()
	if _, err := s.client.Request(ctx, req); err != nil {
		return 0, s.cfg.sent.discreet(err)
	}
	return time.Since(began), nil
}

// Create makes a topic and tells how many partitions and replicas it got; -1 where the brokers do not say.
func (s *Scratch) Create(ctx context.Context, name string) (partitions, replicas int, err error) {
	spec := s.cfg.CreateTopics
	made, err := s.admin.CreateTopic(ctx, orBrokerDefault[int32](spec.Partitions), orBrokerDefault[int16](spec.Replication), nil, name)
	if err != nil {
		return 0, 0, fmt.Errorf("create topic %s: %w%s", name, s.cfg.sent.discreet(err), scratchAdvice(err, "CREATE"))
	}
	return int(made.NumPartitions), int(made.ReplicationFactor), nil
}

// IsNotMade tells that the brokers have refused to make a topic: it is certain that this try, and those before it whose answers were lost, made none.
func IsNotMade(err error) bool {
	var refused *kerr.Error
	return errors.As(err, &refused) && !refused.Retriable && !errors.Is(err, kerr.TopicAlreadyExists)
}

// Delete deletes a topic. One that is not there is no error.
func (s *Scratch) Delete(ctx context.Context, name string) error {
	_, err := s.admin.DeleteTopic(ctx, name)
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("delete topic %s: %w%s", name, s.cfg.sent.discreet(err), scratchAdvice(err, "DELETE"))
	}
	return nil
}

// Names are the topics whose names begin with the prefix, as far as the user may see them, in order.
func (s *Scratch) Names(ctx context.Context, prefix string) ([]string, error) {
	listed, err := s.admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", s.cfg.sent.discreet(err))
	}
	names := slices.DeleteFunc(listed.Names(), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	slices.Sort(names)
	return names, nil
}

func scratchAdvice(err error, operation string) string {
	switch {
	case IsForbidden(err):
		return fmt.Sprintf("; the user needs %s on topics with this prefix, or on the cluster", operation)
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return "; there are fewer brokers than replicas"
	case errors.Is(err, kerr.TopicDeletionDisabled):
		return "; delete.topic.enable is off: an administrator of the cluster has to remove it"
	}
	return ""
}
