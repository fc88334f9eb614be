package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/relay"
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
	// Before PostgreSQL, whose start may take a minute.
	if err := p.checkBrokers(ctx); err != nil {
		return nil, err
	}
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

const dialTimeout = 5 * time.Second

// checkBrokers finds out what is wrong with the brokers that were named; one that answers is enough.
func (p *parts) checkBrokers(ctx context.Context) error {
	var malformed []error
	for _, b := range p.brokers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || port == "" {
			malformed = append(malformed, fmt.Errorf("broker %q: want host:port, such as localhost:9092", b))
		}
	}
	if len(malformed) > 0 {
		return fmt.Errorf("%w: KAFKA_BROKERS: %w", relay.ErrConfiguration, errors.Join(malformed...))
	}
	var unreachable error
	for _, b := range p.brokers {
		dialer := net.Dialer{Timeout: dialTimeout}
		conn, err := dialer.DialContext(ctx, "tcp", b)
		if err == nil {
			return conn.Close()
		}
		unreachable = err
	}
	if unreachable != nil {
		return fmt.Errorf("none of the brokers %s answers: %w; start Kafka, correct KAFKA_BROKERS, or unset it: then Kafka runs in this process",
			strings.Join(p.brokers, ","), unreachable)
	}
	return nil
}

// client makes a plain client for the demo's consumer and its topic.
func (p *parts) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(p.brokers...))...)
}

// describe says how to look at what the demo made. A password that the user's own URL may hold is not shown.
func (p *parts) describe() string {
	kafka := strings.Join(p.brokers, ",")
	if p.ownKafka {
		kafka += "   (in this process; set KAFKA_BROKERS to use a real one)"
	}
	psql, left := `psql "$DATABASE_URL"`, fmt.Sprintf(`
left behind: schema %[1]s and its source; to drop them, as their owner:
             drop schema %[1]s cascade; delete from outbox.source where table_schema = '%[1]s';`, schema)
	if p.ownPostgres {
		psql, left = "psql '"+p.databaseURL+"'", ""
	}
	return fmt.Sprintf(`Kafka:       %s
topic:       %s
PostgreSQL:  %s
table:       select * from %s.outbox_event order by id desc limit 10;%s`, kafka, topic, psql, schema, left)
}
