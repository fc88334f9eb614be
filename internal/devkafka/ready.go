//go:build unix

package devkafka

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// waitReady returns when the node itself answers a metadata request that lists it among at least want brokers. An open port says
// nothing yet.
func (n *Node) waitReady(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	proc := n.running()
	if proc == nil {
		return fmt.Errorf("wait for node %d: it is not running", n.id)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := n.askMetadata(ctx, want)
		if err == nil {
			return nil
		}
		select {
		case <-proc.exited:
			return n.exitError()
		case <-ctx.Done():
			return fmt.Errorf("wait for node %d at %s: %w; last answer: %w; the end of its log: %s", n.id, n.Addr(), ctx.Err(), err, n.logTail())
		case <-tick.C:
		}
	}
}

func (n *Node) askMetadata(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()), kgo.WithLogger(kgo.BasicLogger(io.Discard, kgo.LogLevelNone, nil)))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer client.Close()
	brokers, err := kadm.NewClient(client).ListBrokers(ctx)
	if err != nil {
		return fmt.Errorf("ask for metadata: %w", err)
	}
	if len(brokers) < want {
		return fmt.Errorf("ask for metadata: %d of %d brokers are registered", len(brokers), want)
	}
	for _, b := range brokers {
		if int(b.NodeID) == n.id {
			return nil
		}
	}
	return fmt.Errorf("ask for metadata: node %d is not registered yet", n.id)
}
