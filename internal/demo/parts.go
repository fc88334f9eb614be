package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/devpg"
)

// parts are the database and the brokers, with what ends those that the demo started itself.
type parts struct {
	databaseURL string
	brokers     []string
	// ownKafka tells that the brokers are in this process and gone with it.
	ownKafka bool
	// ownPostgres tells the same of the server, which is another process and ends with this one.
	ownPostgres bool
	close       []func()
}

func (p *parts) Close() {
	for _, f := range p.close {
		f()
	}
}

// findParts takes what the options name and starts what they do not.
func findParts(ctx context.Context, o Options) (*parts, error) {
	p := &parts{databaseURL: o.DatabaseURL, brokers: o.Brokers}
	if p.databaseURL == "" {
		if err := p.startPostgres(ctx, o.Progress); err != nil {
			return nil, err
		}
	}
	if len(p.brokers) == 0 {
		if err := p.startKafka(); err != nil {
			p.Close()
			return nil, err
		}
	}
	return p, nil
}

func (p *parts) startPostgres(ctx context.Context, progress io.Writer) error {
	fmt.Fprintln(progress, "starting PostgreSQL (set DATABASE_URL to use your own; the first time, its binaries may have to be fetched)")
	server, err := devpg.Start(ctx, devpg.Options{Durable: true})
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w; or set DATABASE_URL to a server that runs", err)
	}
	p.close = append(p.close, func() { _ = server.Cleanup() })
	p.databaseURL = server.URL("postgres")
	p.ownPostgres = true
	return nil
}

func (p *parts) startKafka() error {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(partitions))
	if err != nil {
		return fmt.Errorf("start the Kafka in this process: %w; or set KAFKA_BROKERS to brokers that run", err)
	}
	p.close = append(p.close, cluster.Close)
	p.brokers = cluster.ListenAddrs()
	p.ownKafka = true
	return nil
}

// client makes a plain client for the demo's consumer and its topic.
func (p *parts) client(opts ...kgo.Opt) (*kgo.Client, error) {
	for _, b := range p.brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			return nil, fmt.Errorf("broker %q: want host:port: %w", b, err)
		}
	}
	return kgo.NewClient(append(opts, kgo.SeedBrokers(p.brokers...))...)
}

// describe says how to look at what the demo made. A password that the user's own URL may hold is not shown.
func (p *parts) describe() string {
	kafka := strings.Join(p.brokers, ",")
	if p.ownKafka {
		kafka += "   (in this process; set KAFKA_BROKERS to use a real one)"
	}
	psql := `psql "$DATABASE_URL"`
	if p.ownPostgres {
		psql = "psql '" + p.databaseURL + "'"
	}
	return fmt.Sprintf(`Kafka:       %s
topic:       %s
PostgreSQL:  %s
table:       select * from %s.outbox_event order by id desc limit 10;`, kafka, topic, psql, schema)
}
