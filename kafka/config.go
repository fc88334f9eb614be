package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/outbox-relay/outbox/relay"
)

// Defaults of [Config].
const (
	DefaultClientID        = "outbox-relay"
	DefaultLeaseTTL        = 15 * time.Second
	DefaultMaxMessageBytes = 1_048_588
)

// minLeaseTTL is the relay's own: it leaves a produce one second.
const minLeaseTTL = 5 * time.Second

// SASL mechanisms.
const (
	MechanismPlain       = "PLAIN"
	MechanismSCRAMSHA256 = "SCRAM-SHA-256"
	MechanismSCRAMSHA512 = "SCRAM-SHA-512"
)

// Config says how to reach Kafka. Only Brokers is required.
type Config struct {
	// Brokers are the addresses to begin with, host:port; one that answers is enough.
	Brokers []string
	// ClientID names the process in the brokers' logs and quotas. Default: outbox-relay.
	ClientID string
	// TLS encrypts the connections, with the system's certificate authorities unless TLSConfig says otherwise.
	TLS bool
	// TLSConfig, when not nil, turns TLS on and is used as it is; an empty ServerName stands for the host that is dialled.
	TLSConfig *tls.Config
	// SASL are the credentials; nil means none.
	SASL *SASL
	// Compression is none, gzip, snappy, lz4 or zstd. Default: none, which every consumer can read. The limit on a record's size counts
	// uncompressed bytes whatever this is.
	Compression string
	// LeaseTTL is how long the relay's lease lasts, at least 5 s. The time that a produce may take is derived from it: TTL/5 for the
	// broker and 2·TTL/15 for the way. Default: 15 s.
	LeaseTTL time.Duration
	// CreateTopics, when not nil, makes missing topics instead of reporting them.
	CreateTopics *TopicSpec
	// MaxMessageBytes is taken for a topic's max.message.bytes where that cannot be read, for want of DESCRIBE_CONFIGS on the topic.
	// Default: 1,048,588, which is Kafka's own.
	MaxMessageBytes int
	// Logger gets what an operator should know; nil discards it.
	Logger *slog.Logger

	now     func() time.Time
	refresh time.Duration
	// dialled and produced, when not nil, are told of every dial and of every record that the client has taken.
	dialled  func(address string)
	produced func(*relay.Event)
	// lenient leaves out what silences a destroyed client, so that a test can show that it is needed.
	lenient bool
}

// SASL are credentials. Its String and LogValue leave the password out.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism string
	Username  string
	Password  string
	// PasswordFunc, when not nil, is asked for the password at every authentication, that is for each new connection, so that a password can change while the process runs.
	// Password is then not used. Its error fails the connection and is shown: it must not hold the password.
	PasswordFunc func() (string, error)
}

// String names the mechanism and the user.
func (s SASL) String() string { return fmt.Sprintf("%s %s ***", s.Mechanism, s.Username) }

// GoString is String, so that no format prints the password.
func (s SASL) GoString() string { return s.String() }

// LogValue is String, for logs.
func (s SASL) LogValue() slog.Value { return slog.StringValue(s.String()) }

// TopicSpec is how topics are made.
type TopicSpec struct {
	// Partitions of a new topic; 0 means the broker's default.
	Partitions int
	// Replication factor of a new topic; 0 means the broker's default.
	Replication int
}

func (c Config) withDefaults() Config {
	if c.ClientID == "" {
		c.ClientID = DefaultClientID
	}
	if c.TLS && c.TLSConfig == nil {
		c.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.Compression == "" {
		c.Compression = "none"
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = DefaultLeaseTTL
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.refresh == 0 {
		c.refresh = time.Minute
	}
	return c
}

func (c Config) validate() error {
	problems := c.brokerProblems()
	if _, ok := codecs[c.Compression]; !ok {
		problems = append(problems, fmt.Errorf("compression %q: use none, gzip, snappy, lz4 or zstd", c.Compression))
	}
	if c.LeaseTTL < minLeaseTTL {
		problems = append(problems, fmt.Errorf("lease TTL %s: at least 5s are needed for a produce to fit in", c.LeaseTTL))
	}
	if c.MaxMessageBytes < 1024 || c.MaxMessageBytes > maxRequestBytes {
		problems = append(problems, fmt.Errorf("max message bytes %d: use 1024 to %d", c.MaxMessageBytes, maxRequestBytes))
	}
	if c.SASL != nil {
		problems = append(problems, c.SASL.problems()...)
	}
	if s := c.CreateTopics; s != nil {
		problems = append(problems, s.problems()...)
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("check kafka configuration: %w", errors.Join(problems...))
}

func (c Config) brokerProblems() []error {
	if len(c.Brokers) == 0 {
		return []error{errors.New("brokers: name at least one, as host:port")}
	}
	var problems []error
	for _, b := range c.Brokers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || port == "" {
			problems = append(problems, fmt.Errorf("broker %q: write it as host:port", b))
		}
	}
	return problems
}

func (s *SASL) problems() []error {
	var problems []error
	switch s.Mechanism {
	case MechanismPlain, MechanismSCRAMSHA256, MechanismSCRAMSHA512:
	default:
		problems = append(problems, fmt.Errorf("SASL mechanism %q: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", s.Mechanism))
	}
	if s.Username == "" {
		problems = append(problems, errors.New("SASL username: it is empty"))
	}
	if s.Password == "" && s.PasswordFunc == nil {
		problems = append(problems, errors.New("SASL password: it is empty"))
	}
	return problems
}

func (s *TopicSpec) problems() []error {
	var problems []error
	if s.Partitions < 0 || s.Partitions > 100_000 {
		problems = append(problems, fmt.Errorf("partitions of new topics %d: use 0 (the broker's default) to 100000", s.Partitions))
	}
	if s.Replication < 0 || s.Replication > 1000 {
		problems = append(problems, fmt.Errorf("replication of new topics %d: use 0 (the broker's default) to 1000", s.Replication))
	}
	return problems
}

func (c Config) brokerList() string { return strings.Join(c.Brokers, ",") }

func (c Config) produceTimeout() time.Duration { return c.LeaseTTL / 5 }

func (c Config) requestOverhead() time.Duration { return c.LeaseTTL * 2 / 15 }
