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

// Config says how to reach Kafka. Only Brokers is required.
type Config struct {
	// Brokers are the addresses to begin with, host:port; one that answers is enough.
	Brokers []string
	// ClientID names the process in the brokers' logs and quotas. Default: outbox-relay.
	ClientID string
	// TLS encrypts the connections, with the system's certificate authorities unless TLSConfig says otherwise.
	TLS bool
	// TLSConfig, when not nil, turns TLS on and is used as it is; an empty ServerName stands for the host that is dialled. It excludes the fields below.
	TLSConfig *tls.Config
	// TLSCAFile holds the certificates of authorities, in PEM form, that are trusted in place of the system's. Any of the files turns TLS on. All of them are read again
	// for each new connection, so that certificates can be replaced while the process runs; one that cannot be read counts as unchanged.
	TLSCAFile string
	// TLSCertFile and TLSKeyFile hold the client certificate, followed by those between it and its authority, and its key without a passphrase. Both or none are given.
	TLSCertFile, TLSKeyFile string
	// TLSServerName is the name that the brokers' certificates must have. Default: the host that is dialled. There is no way not to look at it, or at the authority.
	TLSServerName string
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
	// givenTLS tells that TLSConfig was not made here, and defaulted that all this is done.
	givenTLS, defaulted bool
	// tlsFiles are shared by all copies; nil without files.
	tlsFiles *tlsFiles
	// tokens are shared by all copies; nil without OAuth.
	tokens *tokens
	// sent are the secrets that brokers were sent, shared by all copies.
	sent *secrets
	// throttle is what quotas have cost, shared by all copies.
	throttle *throttling
}

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
	return c.withTLS()
}

// withTLS is done once: the copies share what was read, and the token.
func (c Config) withTLS() Config {
	if c.defaulted {
		return c
	}
	c.defaulted, c.givenTLS, c.tlsFiles = true, c.TLSConfig != nil, c.files()
	if c.TLSConfig == nil && c.tlsFiles == nil && (c.TLS || c.TLSServerName != "") {
		c.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.TLSServerName}
	}
	c.sent, c.throttle = &secrets{}, &throttling{log: c.Logger, now: c.now}
	if c.SASL != nil && c.SASL.OAuth != nil {
		c.tokens = &tokens{oauth: *c.SASL.OAuth, now: c.now, trust: c.tlsFiles}
	}
	return c
}

// encrypted tells that connections are.
func (c Config) encrypted() bool { return c.TLSConfig != nil || c.tlsFiles != nil }

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
	problems = append(problems, c.tlsProblems()...)
	if c.SASL != nil {
		problems = append(problems, c.SASL.problems(c.encrypted())...)
	}
	if s := c.CreateTopics; s != nil {
		problems = append(problems, s.problems()...)
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("check kafka configuration: %w", err)
	}
	return nil
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
