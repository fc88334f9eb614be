package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
)

// Consumer takes the records of topics through handlers, as a member of a consumer group. Make one with [NewConsumer].
//
//	processor, err := inbox.NewProcessor("billing", inbox.Pool(pool), handlers, inbox.Config{})
//	...
//	consumer, err := kafka.NewConsumer(processor, kafka.ConsumerConfig{
//		Config: kafka.Config{Brokers: brokers},
//		Topics: []string{"order-service.order"},
//	})
//	...
//	err = consumer.Run(ctx)
type Consumer struct {
	cfg    ConsumerConfig
	runner *inbox.Runner
	log    *consumerLog
	begun  atomic.Bool
}

// NewConsumer checks the configuration and connects to nothing yet. The error names all that is wrong.
func NewConsumer(h inbox.Handling, cfg ConsumerConfig) (*Consumer, error) {
	cfg = cfg.withDefaults(h)
	var errs []error
	if h == nil {
		errs = append(errs, errors.New("the handlers are nil"))
	}
	c := &Consumer{cfg: cfg, log: newConsumerLog(cfg.Config)}
	runner, err := inbox.NewRunner(h, c.log, cfg.Run)
	if err := errors.Join(append(errs, cfg.validate(), err)...); err != nil {
		return nil, err
	}
	c.runner = runner
	return c, nil
}

// Stats returns what the consumer has done.
func (c *Consumer) Stats() inbox.Stats { return c.runner.Stats() }

// Run handles records until ctx ends. Then it lets handlers end that are at work, commits what is settled, and leaves the group. It returns nil after that. An error,
// at the start only, names topics that are missing, or tables and rights in the database, and says what to do. Kafka and the database, when they do not answer, are
// waited for. Run may be called once.
func (c *Consumer) Run(ctx context.Context) error {
	if c.begun.Swap(true) {
		return errors.New("run a consumer: it has been run before; make another one")
	}
	if err := c.checkTopics(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := c.runner.Ready(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	net := newNetwork(c.cfg.Config)
	client, err := kgo.NewClient(c.options(net)...)
	if err != nil {
		return fmt.Errorf("make kafka client: %w", err)
	}
	c.log.client = client
	defer c.log.usual.close()
	defer c.log.large.close()
	c.cfg.Logger.Info("consumer starts", "group", c.cfg.Group, "topics", c.cfg.Topics)
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		c.runner.Run(ctx)
	}()
	c.poll(ctx, client)
	<-handled
	c.leave(client, net)
	c.cfg.Logger.Info("consumer ends", "group", c.cfg.Group)
	return nil
}

// leaveTimeout is how long a member tries to leave the group. One that cannot is waited for until its session ends.
const leaveTimeout = 5 * time.Second

// leave ends the client, whether Kafka answers or not.
func (c *Consumer) leave(client *kgo.Client, net *network) {
	client.AllowRebalance()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := client.LeaveGroupContext(ctx); err != nil {
		c.cfg.Logger.Warn("group not left: its partitions wait until the session has ended", "group", c.cfg.Group, "error", c.cfg.sent.discreet(err))
	}
	if ctx.Err() != nil {
		net.destroy()
	}
	client.Close()
}

func (c *Consumer) options(net *network) []kgo.Opt {
	opts := append(clientOptions(c.cfg.Config, net),
		kgo.ConsumerGroup(c.cfg.Group),
		kgo.ConsumeTopics(slices.Concat(c.cfg.Topics, c.cfg.retries)...),
		// What the group has not read, it reads from the start: no record is left out.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// The end of a transaction says that the group is behind it, whatever became of its records: nothing lags, and nothing is missing when retention removes it.
		kgo.KeepControlRecords(),
		kgo.DisableAutoCommit(),
		// A partition that is resumed is asked for when the fetch that is under way has ended.
		kgo.FetchMaxWait(fetchWait),
		// Partitions come and go between polls only, so that no record of an earlier assignment is taken for one of a later.
		kgo.BlockRebalanceOnPoll(),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { c.runner.Assign(named(p)) }),
		// Partitions that come back are fetched again, whether they were paused or not.
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, p map[string][]int32) {
			c.runner.Revoke(ctx, named(p))
			client.ResumeFetchPartitions(p)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, client *kgo.Client, p map[string][]int32) {
			c.runner.Lose(named(p))
			client.ResumeFetchPartitions(p)
		}),
		kgo.MetadataMaxAge(lookEvery),
		kgo.RebalanceTimeout(rebalanceTimeout(c.cfg.Run.DrainTimeout)),
		kgo.AdjustFetchOffsetsFn(c.log.begin),
	)
	if c.cfg.NextGen {
		opts = append(opts, kgo.ServerSideBalancer())
	} else {
		opts = append(opts, kgo.SessionTimeout(c.cfg.SessionTimeout), kgo.HeartbeatInterval(c.cfg.heartbeat()))
	}
	if c.cfg.Instance != "" {
		opts = append(opts, kgo.InstanceID(c.cfg.Instance))
	}
	return opts
}

// rebalanceTimeout is how long the group waits for a member that lets partitions go: longer than its handlers may take for that, and the commit behind them.
func rebalanceTimeout(drain time.Duration) time.Duration {
	return max(time.Minute, cmp.Or(drain, inbox.DefaultDrainTimeout)+30*time.Second)
}

func named(partitions map[string][]int32) (all []inbox.Partition) {
	for topic, numbers := range partitions {
		for _, n := range numbers {
			all = append(all, inbox.Partition{Topic: topic, Number: n})
		}
	}
	return all
}

// poll hands over what comes until ctx ends.
func (c *Consumer) poll(ctx context.Context, client *kgo.Client) {
	said := newClientLogger(c.cfg.Logger, c.cfg.now, c.cfg.sent)
	for ctx.Err() == nil {
		room := c.runner.AwaitRoom()
		if room == 0 {
			return
		}
		fetches := client.PollRecords(ctx, min(room, pollRecords))
		var gone []string
		fetches.EachError(func(topic string, partition int32, err error) {
			switch {
			case errors.Is(err, context.Canceled):
			case errors.Is(err, kerr.UnknownTopicID):
				gone = append(gone, topic)
			default:
				if err = c.cfg.sent.discreet(err); said.due(err.Error()) {
					c.cfg.Logger.Warn("records not read", "topic", topic, "partition", partition, "error", err)
				}
			}
		})
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			c.log.check(p)
			if records := received(p.Records); len(records) > 0 {
				c.runner.Take(records)
			}
			if n := len(p.Records); n > 0 && p.Records[n-1].Attrs.IsControl() {
				c.runner.Pass(inbox.Place{Partition: inbox.Partition{Topic: p.Topic, Number: p.Partition}, Offset: p.Records[n-1].Offset})
			}
		})
		client.AllowRebalance()
		c.startOver(client, gone)
	}
}

// startOver has topics read that were deleted, as soon as they are there again: the client asks for the old ones by their ids, for ever.
func (c *Consumer) startOver(client *kgo.Client, gone []string) {
	if len(gone) == 0 {
		return
	}
	slices.Sort(gone)
	gone = slices.Compact(gone)
	c.cfg.Logger.Error("topics were deleted: what was not handled of them is lost; they are read from their start when they are there again", "topics", gone)
	// What is known of the old ones must not be committed of the new ones.
	known := c.log.forget(gone)
	c.runner.Lose(known)
	client.PurgeTopicsFromConsuming(gone...)
	// With the brokers' assignment no callback tells of them, and what was paused would stay so.
	client.ResumeFetchPartitions(byTopic(known))
	client.AddConsumeTopics(gone...)
}

// received are the records of applications.
func received(records []*kgo.Record) []*inbox.Record {
	out := make([]*inbox.Record, 0, len(records))
	for _, r := range records {
		if !r.Attrs.IsControl() {
			out = append(out, InboxRecord(r))
		}
	}
	return out
}
