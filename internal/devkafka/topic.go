package devkafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readyTimeout is how long Kafka may take for anything when ctx has no end of its own: a busy machine is slow.
const readyTimeout = 3 * time.Minute

// CreateTopic makes a topic with the broker's default replication and returns when every broker knows it: a broker answers the creation
// before the others, and even it itself, have learned of the topic. config may be nil.
func CreateTopic(ctx context.Context, brokers []string, name string, partitions int32, config map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := askToCreate(ctx, brokers, name, partitions, config); err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	for _, broker := range brokers {
		if err := waitTopic(ctx, broker, name, int(partitions)); err != nil {
			return fmt.Errorf("wait until %s knows topic %s: %w", broker, name, err)
		}
	}
	return nil
}

func askToCreate(ctx context.Context, brokers []string, name string, partitions int32, config map[string]string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer client.Close()
	settings := map[string]*string{}
	for key, value := range config {
		settings[key] = &value
	}
	_, err = kadm.NewClient(client).CreateTopic(ctx, partitions, -1, settings, name)
	return err
}

func waitTopic(ctx context.Context, broker, name string, partitions int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		known, err := knows(ctx, broker, name, partitions)
		if known {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// knows tells whether the broker lists all partitions of the topic with their leaders.
func knows(ctx context.Context, broker, name string, partitions int) (bool, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		return false, err
	}
	defer client.Close()
	// Only the seed is asked: a client without a topic has no reason to ask another broker.
	topics, err := kadm.NewClient(client).ListTopics(ctx, name)
	if err != nil {
		return false, err
	}
	detail := topics[name]
	if detail.Err != nil || len(detail.Partitions) < partitions {
		return false, detail.Err
	}
	for _, p := range detail.Partitions {
		if p.Err != nil || p.Leader < 0 {
			return false, p.Err
		}
	}
	return true, nil
}
