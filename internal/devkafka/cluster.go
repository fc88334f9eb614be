//go:build unix

package devkafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/outbox-relay/outbox/internal/devtemp"
)

// Options says what to start. The zero value is one broker in a temporary folder.
type Options struct {
	// Nodes is 1 or 3; 0 means 1. Every node is broker and controller.
	Nodes int
	// Dir is where the nodes keep their data, configuration and logs (node-1.log, ...); it must be empty or missing. "" is a temporary
	// folder, which Close removes, in memory where there is room; a given one stays.
	Dir string
	// OnDisk keeps the temporary folder on the disk, as benchmarks want it.
	OnDisk bool
	// Config is added to every node's server.properties and wins over the settings of this package.
	Config map[string]string
	// Security, when not nil, adds listeners with TLS, and rules.
	Security *Security
	// Log gets a line for each step; nil means none.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	if o.Nodes != 1 && o.Nodes != 3 {
		return fmt.Errorf("start Kafka: %d nodes; give 1 or 3", o.Nodes)
	}
	return nil
}

// Cluster is a running Kafka. Its methods are safe for concurrent use.
type Cluster struct {
	nodes []*Node
	close func() error
}

// Start fetches Kafka if need be, formats the nodes, starts them, and returns when all of them are registered and answer metadata
// requests. Topics are not created automatically. The caller must Close the cluster.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	tools, err := findTools(ctx, opts.Log)
	if err != nil {
		return nil, err
	}
	// A port is free when it is chosen, not yet taken: another process may be quicker.
	const tries = 3
	for try := 1; ; try++ {
		c, err := start(ctx, opts, tools)
		if err == nil || try == tries || !errors.Is(err, errPortTaken) {
			return c, err
		}
		opts.Log.Info("a port was taken, trying others", "error", err)
	}
}

func start(ctx context.Context, opts Options, tools tools) (*Cluster, error) {
	begin := time.Now()
	root, remove, err := makeRoot(opts)
	if err != nil {
		return nil, err
	}
	c := &Cluster{close: remove}
	if c.nodes, err = layOut(root, opts, tools); err == nil {
		err = c.each(func(n *Node) error { return n.formatAndStart(ctx) })
	}
	if err == nil {
		err = c.each(func(n *Node) error { return n.waitReady(ctx, opts.Nodes) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start Kafka: %w", err), c.Close())
	}
	opts.Log.Info("Kafka is ready", "brokers", c.Brokers(), "took", time.Since(begin).Round(time.Millisecond))
	return c, nil
}

// Brokers returns the nodes' addresses, host:port, in the order of the nodes.
func (c *Cluster) Brokers() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// Nodes returns the nodes; the first one's id is 1.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Close kills all nodes and removes a temporary folder. It is safe to call twice.
func (c *Cluster) Close() error {
	return errors.Join(c.each((*Node).Kill), c.close())
}

// each runs do for all nodes at once: a quorum starts only together.
func (c *Cluster) each(do func(*Node) error) error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() { errs[i] = do(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// makeRoot returns the folder for the nodes and what removes it in the end.
func makeRoot(opts Options) (root string, remove func() error, err error) {
	switch {
	case opts.Dir == "" && opts.OnDisk:
		return makeTemp(os.TempDir())
	case opts.Dir == "":
		return makeTemp(devtemp.Folder())
	}
	root, err = filepath.Abs(opts.Dir)
	if err != nil {
		return "", nil, fmt.Errorf("find folder %s: %w", opts.Dir, err)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", nil, fmt.Errorf("make folder: %w", err)
	}
	return root, func() error { return nil }, nil
}
