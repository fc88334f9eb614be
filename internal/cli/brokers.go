package cli

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/kafka"
)

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

// brokerPassword has no flag: every user of the machine could read it there.
func (e environment) brokerPassword() string { return e["KAFKA_SASL_PASSWORD"] }

func mechanisms() []string {
	return []string{kafka.MechanismPlain, kafka.MechanismSCRAMSHA256, kafka.MechanismSCRAMSHA512}
}

func compressions() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

func (b *brokers) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&b.addresses, "brokers", nil, "Kafka brokers, `host:port,…` (KAFKA_BROKERS)")
	f.StringVar(&b.clientID, "client-id", "outbox-relay", "the client `id` that the brokers see")
	f.BoolVar(&b.tls, "tls", false, "talk TLS to the brokers, with the system's roots (KAFKA_TLS_ENABLED)")
	wordsFlag(cmd, &b.mechanism, "sasl-mechanism", "", "%s (KAFKA_SASL_MECHANISM); the password comes by KAFKA_SASL_PASSWORD", mechanisms()...)
	f.StringVar(&b.username, "sasl-username", "", "SASL user `name` (KAFKA_SASL_USERNAME)")
	wordsFlag(cmd, &b.compression, "compression", "none", "%s; kafkajs consumers read none and gzip only", compressions()...)
	f.BoolVar(&b.create, "create-topics", false, "create topics that are missing")
	f.IntVar(&b.partitions, "topic-partitions", 12, "partitions of a created topic; 0: the broker's default")
	f.IntVar(&b.replication, "topic-replication", 0, "replicas of a created topic; 0: the broker's default")
}

func (b *brokers) checks() []check {
	checks := []check{
		choice("compression", &b.compression, compressions()...),
		between("topic-partitions", &b.partitions, 0, 100_000),
		between("topic-replication", &b.replication, 0, 1000),
	}
	if b.mechanism != "" {
		checks = append(checks, choice("sasl-mechanism", &b.mechanism, mechanisms()...))
	}
	return checks
}

// missing says what is not given and has to be.
func (b *brokers) missing(a *app) []error {
	var problems []error
	if len(b.addresses) == 0 {
		problems = append(problems, errors.New("no brokers: set KAFKA_BROKERS, such as kafka-1:9092,kafka-2:9092, or --brokers"))
	}
	switch {
	case b.mechanism == "" && b.username != "":
		problems = append(problems, fmt.Errorf("%s is set and no mechanism: set KAFKA_SASL_MECHANISM to %s", a.named("sasl-username"), alternatives(mechanisms())))
	case b.mechanism != "" && b.username == "":
		problems = append(problems, fmt.Errorf("%s is set and no user: set KAFKA_SASL_USERNAME", a.named("sasl-mechanism")))
	}
	if b.mechanism != "" && a.env.brokerPassword() == "" {
		problems = append(problems, fmt.Errorf("%s is set and no password: set KAFKA_SASL_PASSWORD", a.named("sasl-mechanism")))
	}
	return problems
}

func (b *brokers) config(a *app, log *slog.Logger) kafka.Config {
	cfg := kafka.Config{
		Brokers:     b.addresses,
		ClientID:    b.clientID,
		TLS:         b.tls,
		Compression: b.compression,
		Logger:      log,
	}
	if b.mechanism != "" {
		cfg.SASL = &kafka.SASL{Mechanism: b.mechanism, Username: b.username, Password: a.env.brokerPassword()}
	}
	if b.create {
		cfg.CreateTopics = &kafka.TopicSpec{Partitions: b.partitions, Replication: b.replication}
	}
	return cfg
}
