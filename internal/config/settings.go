package config

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outbox-relay/outbox/internal/engine"
	"github.com/outbox-relay/outbox/internal/topicname"
)

// group are settings that people read together.
type group struct {
	title    string
	settings []Setting
}

func groups() []group {
	return []group{
		{"Of the process", ofProcess()},
		{"The database", ofDatabase()},
		{"Kafka", ofKafka()},
		{"Kafka: TLS and authentication", ofKafkaSecurity()},
		{"How events are read and published", ofEngine()},
		{"What is deleted when it is old", ofRetention()},
	}
}

// Settings are all settings, in the order in which people should read them.
func Settings() []Setting {
	var all []Setting
	for _, g := range groups() {
		all = append(all, g.settings...)
	}
	return all
}

func ofProcess() []Setting {
	return []Setting{
		{Key: "config", Scope: Run, Kind: Text, Usage: "YAML `file` with settings and, for several sources, their list"},
		{Key: "once", Scope: Run, Kind: Bool, Usage: "publish what is there and end"},
		{
			Key: "listen", Scope: Process, Kind: Text, Example: ":9090", Usage: "serve /livez, /readyz and /metrics at this `address`, such as :9090",
			ok: listenable, want: "an address with a port, such as :9090 or 127.0.0.1:9090",
		},
		{Key: "pprof", Scope: Process, Kind: Bool, Usage: "serve Go's profiles at /debug/pprof/ of --listen; whoever reaches it can slow the relay down and see what is in its memory"},
		{
			Key: "relay-name", Scope: Process, Kind: Text, Example: "shop-relay-1", Usage: "the relay's `name` for people, in the status and the log; without it host name and process id",
			ok: oneLine, want: fmt.Sprintf("one line of at most %d letters", maxRelayName),
		},
		{Key: "log-level", Scope: Process, Kind: Text, Example: "warn", Words: []string{"debug", "info", "warn", "error"}, Usage: "least important lines of the log, %s; without it info, and with once warn"},
		{Key: "log-format", Scope: Process, Kind: Text, Default: "auto", Words: []string{"auto", "text", "json"}, Usage: "%s; auto is text on a terminal and json elsewhere"},
		{Key: "log-keys", Scope: Process, Kind: Bool, Usage: "name partition keys in the log: they may be data of people"},
		{Key: "verbose", Scope: Process, Kind: Bool, Usage: "log more, as log-level debug does; a log-level that is set wins"},
	}
}

func ofDatabase() []Setting {
	return []Setting{
		{Key: "database-url", Usual: "DATABASE_URL", Scope: PerSource, Kind: Text, Example: "postgres://relay@db-1:5432/shop", Usage: "PostgreSQL `URL`; without it DATABASE_URL, then the PG* variables"},
		{Key: "database-password", Scope: PerSource, Kind: Text, Secret: true, Example: "/run/secrets/shop", Usage: "its password, in place of one in the URL, PGPASSWORD or a .pgpass file"},
		{Key: "database-password-command", Scope: PerSource, Kind: List, Example: "/usr/local/bin/database-token, db-1", Usage: "a `program,argument,...` that prints the password, run for new connections; no shell, and no comma in an argument"},
		{Key: "table", Scope: PerSource, Kind: Text, Default: "public.outbox_event", Usage: "the outbox table, `schema.name`"},
		{Key: "mode", Scope: PerSource, Kind: Text, Default: "leased", Words: []string{"leased", "competing"}, Usage: "%s: keep each key in order, or lock rows beside relays of another kind, without order"},
		{Key: "settle", Scope: PerSource, Kind: Text, Default: "mark", Words: []string{"mark", "delete"}, Usage: "%s: set a published row's published_at, or delete the row"},
	}
}

func ofKafka() []Setting {
	return []Setting{
		{Key: "brokers", Usual: "KAFKA_BROKERS", Scope: PerSource, Kind: List, Example: "kafka-1:9092, kafka-2:9092", needed: true, Usage: "Kafka brokers, `host:port,...` (KAFKA_BROKERS)", ok: addresses, want: "addresses, each with a port, such as kafka-1:9092"},
		{Key: "client-id", Usual: "KAFKA_CLIENT_ID", Scope: PerSource, Kind: Text, Default: "outbox-relay", Usage: "the client `id` that the brokers see (KAFKA_CLIENT_ID)"},
		{Key: "compression", Scope: PerSource, Kind: Text, Default: "none", Words: []string{"none", "gzip", "snappy", "lz4", "zstd"}, Usage: "%s; kafkajs consumers read none and gzip only"},
		{
			Key: "topics", Scope: PerSource, Kind: List, Example: "shop.order, shop.payment", Usage: "topics that must exist when the relay starts, `name,...`",
			ok: topics, want: "names that Kafka allows: letters a to z, digits, dots, dashes and underscores, at most 249",
		},
		{Key: "create-topics", Scope: PerSource, Kind: Bool, Usage: "create topics that are missing"},
		between(Setting{Key: "topic-partitions", Scope: PerSource, Kind: Number, Default: "12", Usage: "partitions of a created topic; 0: the broker's default"}, 0, 100_000),
		between(Setting{Key: "topic-replication", Scope: PerSource, Kind: Number, Default: "0", Usage: "replicas of a created topic; 0: the broker's default"}, 0, 1000),
	}
}

func ofEngine() []Setting {
	ttl := Setting{Key: "lease-ttl", Scope: PerSource, Kind: Duration, Default: "15s", Usage: "how long after a crash the next relay waits, at least 5s"}
	ttl.ok = func(v any) bool {
		return v.(time.Duration) >= engine.MinLeaseTTL && v.(time.Duration) <= engine.MaxLeaseTTL
	}
	ttl.want = "at least 5s and at most 1h"
	return []Setting{
		positive[time.Duration](Setting{Key: "poll-interval", Scope: PerSource, Kind: Duration, Default: "100ms", Usage: "longest wait between two looks at an idle table"}),
		positive[int](Setting{Key: "batch-size", Scope: PerSource, Kind: Number, Default: "2000", Usage: "most events in one read"}),
		positive[int](Setting{Key: "max-in-flight", Scope: PerSource, Kind: Number, Default: "20000", Usage: "most events that are read and not settled"}),
		positive[int](Setting{Key: "max-in-flight-bytes", Scope: PerSource, Kind: Number, Default: "33554432", Usage: "most memory for them, in `bytes`"}),
		{Key: "on-failure", Scope: PerSource, Kind: List, Default: "park", Usage: "what becomes of events that cannot be published, `policy,...`: park, dead-letter or skip, for some topics as orders.*=skip, with topic=NAME park-scope=SCOPE attempts=N backoff=1s..5m"},
		{Key: "park-scope", Scope: PerSource, Kind: Text, Default: "key", Words: []string{"key", "aggregate"}, Usage: "%s: what a parked event stops, its key, or events of its aggregate in other keys too; a policy of on-failure may say otherwise"},
		positive[time.Duration](Setting{Key: "stall-timeout", Scope: PerSource, Kind: Duration, Default: "15s", Usage: "after how long without an acknowledgement publishing counts as stalled"}),
		ttl,
		positive[time.Duration](Setting{Key: "drain-timeout", Scope: PerSource, Kind: Duration, Default: "10s", Usage: "how long a stop waits for Kafka's acknowledgements"}),
		positive[time.Duration](Setting{Key: "sweep-interval", Scope: PerSource, Kind: Duration, Default: "30s", Usage: "how often the table is searched for forgotten events"}),
		positive[time.Duration](Setting{Key: "start-timeout", Scope: PerSource, Kind: Duration, Default: "30s", Usage: "how long to try to reach database and brokers at first"}),
	}
}

// minRetain is the shortest time that settled events are kept, where they are not deleted at once.
const minRetain = time.Minute

func ofRetention() []Setting {
	return []Setting{
		atLeastOrNever(Setting{Key: "retain", Scope: PerSource, Kind: Age, Example: "168h", Usage: "delete settled events that were published so long ago, such as `168h` or 7d; 0: never"}),
		between(Setting{Key: "retain-newest", Scope: PerSource, Kind: Number, Example: "1000000", Usage: "keep so many of the newest settled events, and without retain delete the others"}, 0, 1_000_000_000),
		atLeastOrNever(Setting{Key: "retain-dead", Scope: PerSource, Kind: Age, Example: "90d", Usage: "delete dead events that died so long ago; 0: never"}),
		atLeastOrNever(Setting{Key: "retain-audit", Scope: PerSource, Kind: Age, Example: "365d", Usage: "delete audit rows, and finished requests and jobs, of that age; 0: never"}),
	}
}

// atLeastOrNever wants a minute or more, or zero.
func atLeastOrNever(s Setting) Setting {
	s.ok = func(v any) bool { return v.(time.Duration) == 0 || v.(time.Duration) >= minRetain }
	s.want = "at least 1m, or 0 for never"
	return s
}

// maxRelayName keeps the tables of the status readable.
const maxRelayName = 100

// oneLine is a text that can be shown in a table.
func oneLine(v any) bool {
	text := v.(string)
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= maxRelayName && !strings.ContainsFunc(text, unicode.IsControl)
}

// listenable is an address with a port that has a number.
func listenable(v any) bool {
	_, port, err := net.SplitHostPort(v.(string))
	if err == nil && port != "" {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	return v == "" || err == nil && port != ""
}

// topics are names that Kafka allows, all of them.
func topics(v any) bool {
	return !slices.ContainsFunc(v.([]string), func(name string) bool { return topicname.Check(name) != nil })
}

func addresses(v any) bool { return AreAddresses(v.([]string)) }

// A host is a name or an address, and nothing that a user or a password stands before; a port may have a name.
var (
	hostName = regexp.MustCompile(`^[\p{L}\p{N}._:%-]+$`)
	portName = regexp.MustCompile(`^[A-Za-z0-9-]*[A-Za-z][A-Za-z0-9-]*$`)
)

// AreAddresses tells that all of them are host:port.
func AreAddresses(list []string) bool {
	for _, address := range list {
		if host, port, err := net.SplitHostPort(address); err != nil || !hostName.MatchString(host) || !isPort(port) {
			return false
		}
	}
	return true
}

func isPort(port string) bool {
	if n, err := strconv.ParseUint(port, 10, 64); err == nil {
		return 0 < n && n <= math.MaxUint16
	}
	return portName.MatchString(port)
}

// positive wants a value above zero.
func positive[T cmp.Ordered](s Setting) Setting {
	var zero T
	s.ok = func(v any) bool { return v.(T) > zero }
	s.want = fmt.Sprintf("more than %v", zero)
	if s.Kind == Number {
		s.bounds = &bounds{1, math.MaxInt}
	}
	return s
}

func between(s Setting, low, high int) Setting {
	s.ok = func(v any) bool { return low <= v.(int) && v.(int) <= high }
	s.want = fmt.Sprintf("%d to %d", low, high)
	s.bounds = &bounds{low, high}
	return s
}
