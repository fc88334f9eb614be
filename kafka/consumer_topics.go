package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/relay"
)

// checkTopics waits until Kafka says which topics there are. Missing ones are an error, or made if they are the consumer's own and the configuration says so.
func (c *Consumer) checkTopics(ctx context.Context) error {
	read, err := c.checkRead(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	sent, err := c.checkSent(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(append(read, sent...)...); err != nil {
		return fmt.Errorf("check topics of the consumer: %w", err)
	}
	return nil
}

// checkRead says what is wrong with the topics that are given, which are only read.
func (c *Consumer) checkRead(ctx context.Context) (problems []error, err error) {
	net := newNetwork(c.cfg.Config)
	client, err := kgo.NewClient(clientOptions(c.cfg.Config, net)...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	defer func() {
		net.destroy()
		client.Close()
	}()
	c.untilAnswered(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.produceTimeout()+c.cfg.requestOverhead())
		defer cancel()
		problems, err = c.readable(ctx, client, c.cfg.Topics)
		return err
	})
	c.warnOfLeft(ctx, client)
	return problems, nil
}

// readable asks for the topics by name; the broker is told not to create any.
func (c *Consumer) readable(ctx context.Context, client *kgo.Client, topics []string) (problems []error, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("ask for topics: %w", c.cfg.sent.discreet(err))
	}
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.Topic != nil {
			problems = append(problems, readError(t))
		}
	}
	return problems, nil
}

// readError is why a topic cannot be read; nil when it can.
func readError(t *kmsg.MetadataResponseTopic) error {
	err := kerr.ErrorForCode(t.ErrorCode)
	switch {
	case kerr.IsRetriable(err) && len(t.Partitions) > 0:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition), err == nil && len(t.Partitions) == 0:
		return fmt.Errorf("topic %s is not there: create it, or correct the name among the consumer's Topics", *t.Topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed), err == nil && !mayRead(t.AuthorizedOperations):
		return fmt.Errorf("topic %s may not be read: grant the consumer's user READ on it", *t.Topic)
	case err != nil:
		return fmt.Errorf("topic %s cannot be read: %w", *t.Topic, err)
	}
	return nil
}

// mayRead is of the bits of the operations that the user may do; a broker that does not tell sends the smallest number.
func mayRead(operations int32) bool {
	return operations == math.MinInt32 || operations&(1<<kmsg.ACLOperationRead) != 0
}

// checkSent says what is wrong with the topics that failed records are sent to; those that are missing are made, if that is wanted.
func (c *Consumer) checkSent(ctx context.Context) (problems []error, err error) {
	topics := slices.Concat(c.cfg.retries, c.cfg.letters)
	if len(topics) == 0 {
		return nil, nil
	}
	p, err := NewPublisher(c.cfg.Config)
	if err != nil {
		return nil, err
	}
	defer p.Destroy()
	var found map[string]error
	c.untilAnswered(ctx, func(ctx context.Context) (err error) {
		found, err = ask(ctx, p, topics)
		return err
	})
	for _, name := range slices.Sorted(maps.Keys(found)) {
		problems = append(problems, c.sentError(name, found[name]))
	}
	return problems, nil
}

// sentError says of a topic that is missing how it comes to be.
func (c *Consumer) sentError(name string, err error) error {
	var refused *relay.PublishError
	if errors.As(err, &refused) && refused.Code == kerr.UnknownTopicOrPartition.Message && c.cfg.CreateTopics == nil {
		return fmt.Errorf("topic %s is not there, to which the consumer sends records that fail: create it, or have the consumer do so by CreateTopics in its configuration", name)
	}
	return err
}

func ask(ctx context.Context, p *Publisher, topics []string) (map[string]error, error) {
	if err := p.Open(ctx); err != nil {
		return nil, err
	}
	return p.CheckTopics(ctx, topics)
}

// untilAnswered asks until Kafka answers, or ctx ends.
func (c *Consumer) untilAnswered(ctx context.Context, question func(context.Context) error) {
	said := newClientLogger(c.cfg.Logger, c.cfg.now, c.cfg.sent)
	for ctx.Err() == nil {
		err := question(ctx)
		if err == nil {
			return
		}
		if said.due(err.Error()) {
			c.cfg.Logger.Warn("kafka does not answer: tried again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// InboxRecord is the record as package inbox takes it; it shares the bytes. It is for programs that read from Kafka themselves and use [inbox.Process], [inbox.EventID]
// or [inbox.ReadLetter].
func InboxRecord(r *kgo.Record) *inbox.Record {
	out := &inbox.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, inbox.Header{Key: h.Key, Value: h.Value})
	}
	return out
}
