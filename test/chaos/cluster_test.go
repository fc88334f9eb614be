//go:build integration && unix

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/internal/devport"
	"github.com/outbox-relay/outbox/test/chaos/proxy"
)

// slots is how many relays can run at the same time.
const slots = 4

// cluster is Kafka with a way of its own for each relay: a listener at each node that advertises the address of a proxy.
type cluster struct {
	*devkafka.Cluster
	client *kgo.Client
	admin  *kadm.Client
	// links are the proxies of each relay, by node.
	links [slots][]*proxy.Proxy
}

func startCluster(ctx context.Context, nodes int, dir string) (c *cluster, err error) {
	c = &cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	// A broker's log is small, so that a restart finds little to look through.
	c.Cluster, err = devkafka.Start(ctx, devkafka.Options{Nodes: nodes, Dir: dir, Config: map[string]string{
		"log.segment.bytes": "16777216", "num.recovery.threads.per.data.dir": "1",
	}})
	if err != nil {
		return c, err
	}
	if err := c.addListeners(ctx, dir); err != nil {
		return c, err
	}
	if c.client, err = kgo.NewClient(kgo.SeedBrokers(c.Brokers()...), kgo.MetadataMinAge(100*time.Millisecond)); err != nil {
		return c, err
	}
	c.admin = kadm.NewClient(c.client)
	return c, nil
}

// addListeners gives each node one listener for each relay. The nodes are new and hold nothing, so they are killed for it.
func (c *cluster) addListeners(ctx context.Context, dir string) error {
	for _, n := range c.Nodes() {
		if err := n.Kill(); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes() {
		if err := c.configure(filepath.Join(dir, fmt.Sprintf("node-%d", n.ID()), "server.properties")); err != nil {
			return fmt.Errorf("give node %d its listeners: %w", n.ID(), err)
		}
	}
	errs := make([]error, len(c.Nodes()))
	var wg sync.WaitGroup
	for i, n := range c.Nodes() {
		wg.Go(func() { errs[i] = n.Restart(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *cluster) configure(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	added := map[string]string{}
	for slot := range slots {
		port, err := devport.One()
		if err != nil {
			return err
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		link, err := proxy.Listen(address)
		if err != nil {
			return err
		}
		c.links[slot] = append(c.links[slot], link)
		added["listeners"] += fmt.Sprintf(",RELAY%d://%s", slot, address)
		added["advertised.listeners"] += fmt.Sprintf(",RELAY%d://%s", slot, link.Addr())
		added["listener.security.protocol.map"] += fmt.Sprintf(",RELAY%d:PLAINTEXT", slot)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		name, _, _ := strings.Cut(line, "=")
		lines[i] += added[name]
		delete(added, name)
	}
	if len(added) > 0 {
		return fmt.Errorf("%s has no lines for %v", file, added)
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644)
}

// brokers are the addresses by which a relay knows the cluster.
func (c *cluster) brokers(slot int) []string {
	var addresses []string
	for _, link := range c.links[slot] {
		addresses = append(addresses, link.Addr())
	}
	return addresses
}

func (c *cluster) heal() {
	for _, links := range c.links {
		for _, link := range links {
			link.Heal()
		}
	}
}

// mend brings every node back, however the last test has left it.
func (c *cluster) mend(ctx context.Context) error {
	c.heal()
	for _, n := range c.Nodes() {
		_ = n.Continue() // fails on one that does not run
	}
	var errs []error
	for _, n := range c.Nodes() {
		if !c.answers(ctx, n) {
			errs = append(errs, n.Kill(), n.Restart(ctx))
		}
	}
	return errors.Join(errs...)
}

func (c *cluster) answers(ctx context.Context, n *devkafka.Node) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()))
	if err != nil {
		return false
	}
	defer client.Close()
	return client.Ping(ctx) == nil
}

func (c *cluster) close() error {
	var err error
	if c.client != nil {
		c.client.Close()
	}
	if c.Cluster != nil {
		err = c.Cluster.Close()
	}
	for _, links := range c.links {
		for _, link := range links {
			link.Close()
		}
	}
	return err
}
