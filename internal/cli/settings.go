package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/kafka"
)

// database are the settings of every command that needs PostgreSQL.
type database struct {
	url   string
	table string
}

func (d *database) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.url, "database-url", "", "PostgreSQL `URL`; without it DATABASE_URL, then the PG* variables")
	d.tableFlag(cmd)
}

func (d *database) tableFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.table, "table", "public.outbox_event", "the outbox table, `schema.name`")
}

// pgVariables are those by which libpq finds a server; one of them must be set when there is no URL.
var pgVariables = []string{"PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE"}

// pool makes the pool without connecting; every error is one of configuration. A password on the command line is refused: every user of the machine can read it there.
func (d *database) pool(ctx context.Context, a *app, cmd *cobra.Command) (*pgxpool.Pool, error) {
	cfg, err := d.parse(a, cmd)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 4
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return pool, nil
}

var errPasswordOnCommandLine = errors.New("--database-url holds a password, which every user of this machine can read: give the URL by DATABASE_URL, or the password by PGPASSWORD or PGPASSFILE")

const connectTimeout = 10 * time.Second

func (d *database) parse(a *app, cmd *cobra.Command) (*pgxpool.Config, error) {
	if d.url == "" && !anySet(a.getenv, pgVariables) {
		return nil, errors.New("no database: set DATABASE_URL, such as postgres://user@host:5432/shop, or the PG* variables, or --database-url")
	}
	if onCommandLine(a, cmd, "database-url") && hasPassword(d.url) {
		return nil, errPasswordOnCommandLine
	}
	cfg, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	return cfg, nil
}

func anySet(getenv func(string) string, names []string) bool {
	for _, n := range names {
		if getenv(n) != "" {
			return true
		}
	}
	return false
}

// onCommandLine tells a flag that was typed from one that the environment has set.
func onCommandLine(a *app, cmd *cobra.Command, flag string) bool {
	if !cmd.Flags().Changed(flag) {
		return false
	}
	value := cmd.Flags().Lookup(flag).Value.String()
	for _, name := range envNames(flag) {
		if a.getenv(name) == value {
			return false
		}
	}
	return true
}

func hasPassword(dsn string) bool {
	if u, err := url.Parse(dsn); err == nil && u.Scheme != "" {
		_, set := u.User.Password()
		return set || u.Query().Has("password")
	}
	return strings.Contains(dsn, "password=")
}

// brokers are the settings of every command that needs Kafka. The password comes by the environment only.
type brokers struct {
	addresses   []string
	clientID    string
	tls         bool
	mechanism   string
	username    string
	compression string
	create      bool
	partitions  int
	replication int
}

func (b *brokers) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&b.addresses, "brokers", nil, "Kafka brokers, `host:port,…` (KAFKA_BROKERS)")
	f.StringVar(&b.clientID, "client-id", "outbox-relay", "the client `id` that the brokers see")
	f.BoolVar(&b.tls, "tls", false, "talk TLS to the brokers, with the system's roots (KAFKA_TLS_ENABLED)")
	f.StringVar(&b.mechanism, "sasl-mechanism", "", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 (KAFKA_SASL_MECHANISM); the password comes by KAFKA_SASL_PASSWORD")
	f.StringVar(&b.username, "sasl-username", "", "SASL user `name` (KAFKA_SASL_USERNAME)")
	f.StringVar(&b.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd; kafkajs consumers read none and gzip only")
	f.BoolVar(&b.create, "create-topics", false, "create topics that are missing")
	f.IntVar(&b.partitions, "topic-partitions", 12, "partitions of a created topic")
	f.IntVar(&b.replication, "topic-replication", 0, "replicas of a created topic; 0: the broker's default")
}

func (b *brokers) config(a *app, leaseTTL time.Duration, log *slog.Logger) (kafka.Config, error) {
	cfg := kafka.Config{
		Brokers:     b.addresses,
		ClientID:    b.clientID,
		TLS:         b.tls,
		Compression: b.compression,
		LeaseTTL:    leaseTTL,
		Logger:      log,
	}
	if b.mechanism != "" || b.username != "" {
		cfg.SASL = &kafka.SASL{Mechanism: b.mechanism, Username: b.username, Password: a.getenv("KAFKA_SASL_PASSWORD")}
	}
	if b.create {
		cfg.CreateTopics = &kafka.TopicSpec{Partitions: b.partitions, Replication: b.replication}
	}
	if len(b.addresses) == 0 {
		return cfg, errors.New("no brokers: set KAFKA_BROKERS, such as kafka-1:9092,kafka-2:9092, or --brokers")
	}
	return cfg, nil
}
