package config

import (
	"cmp"
	"slices"
	"time"
)

// Config is what one process is told.
type Config struct {
	// File is the YAML file that was read; "" when there was none.
	File string `koanf:"config"`
	// Once makes the relays publish what is there and end.
	Once bool `koanf:"once"`
	// Listen is the address of /livez, /readyz and /metrics; "" serves nothing.
	Listen string `koanf:"listen"`
	// Pprof serves Go's profiles there, too.
	Pprof bool `koanf:"pprof"`
	// RelayName names the process to people; "" is host name and process id.
	RelayName string `koanf:"relay-name"`
	// LogLevel is debug, info, warn, error, or "" where nobody has said; LogFormat is auto, text or json.
	LogLevel  string `koanf:"log-level"`
	LogFormat string `koanf:"log-format"`
	// LogKeys names partition keys in the log.
	LogKeys bool `koanf:"log-keys"`
	// Verbose is debug where LogLevel is "".
	Verbose bool `koanf:"verbose"`

	// Sources are at least one, with different names.
	Sources []Source `koanf:"-"`

	// origins tells for each setting of the process that somebody has made where that was.
	origins map[string]origin
	// unreadable tells that something could not be read, so that more may be meant than stands here.
	unreadable bool
}

// Readable tells that everything that was told could be read. It may lack something all the same, such as brokers.
func (c *Config) Readable() bool { return !c.unreadable }

// Named says where a setting of the process was made, as [Source.Named] does.
func (c *Config) Named(key string) string { return cmp.Or(c.origins[key].name, "--"+key) }

// Source is one outbox table and the Kafka that its events go to. What the settings mean stands in [Settings].
type Source struct {
	// Name is what the file calls the source: letters a to z, digits and dashes, at most 40. It is "" for the only source of a process
	// without a list of sources.
	Name string `koanf:"-"`

	DatabaseURL      string `koanf:"database-url"`
	DatabasePassword Secret `koanf:"database-password"`
	// DatabasePasswordCommand is a program with its arguments that prints the password.
	DatabasePasswordCommand []string `koanf:"database-password-command"`
	Table                   string   `koanf:"table"`
	// Settle is mark or delete.
	Settle string `koanf:"settle"`
	// Mode is leased or competing.
	Mode string `koanf:"mode"`

	// Brokers are host:port.
	Brokers          []string `koanf:"brokers"`
	ClientID         string   `koanf:"client-id"`
	Compression      string   `koanf:"compression"`
	Topics           []string `koanf:"topics"`
	CreateTopics     bool     `koanf:"create-topics"`
	TopicPartitions  int      `koanf:"topic-partitions"`
	TopicReplication int      `koanf:"topic-replication"`

	TLS bool `koanf:"tls"`
	// TLSCA, TLSCert and TLSKey are PEM files; any of them turns TLS on.
	TLSCA         string `koanf:"tls-ca"`
	TLSCert       string `koanf:"tls-cert"`
	TLSKey        string `koanf:"tls-key"`
	TLSServerName string `koanf:"tls-server-name"`
	// SASLMechanism is "" for no authentication.
	SASLMechanism         string `koanf:"sasl-mechanism"`
	SASLUsername          string `koanf:"sasl-username"`
	SASLPassword          Secret `koanf:"sasl-password"`
	SASLWithoutTLS        bool   `koanf:"sasl-without-tls"`
	SASLOAuthURL          string `koanf:"sasl-oauth-url"`
	SASLOAuthClientID     string `koanf:"sasl-oauth-client-id"`
	SASLOAuthClientSecret Secret `koanf:"sasl-oauth-client-secret"`
	SASLOAuthScope        string `koanf:"sasl-oauth-scope"`

	// Retain is how long settled events are kept, 0 for ever; RetainNewest how many of the newest are kept, whatever their age.
	Retain       time.Duration `koanf:"retain"`
	RetainNewest int           `koanf:"retain-newest"`
	RetainDead   time.Duration `koanf:"retain-dead"`
	RetainAudit  time.Duration `koanf:"retain-audit"`

	PollInterval     time.Duration `koanf:"poll-interval"`
	BatchSize        int           `koanf:"batch-size"`
	MaxInFlight      int           `koanf:"max-in-flight"`
	MaxInFlightBytes int           `koanf:"max-in-flight-bytes"`
	LeaseTTL         time.Duration `koanf:"lease-ttl"`
	DrainTimeout     time.Duration `koanf:"drain-timeout"`
	SweepInterval    time.Duration `koanf:"sweep-interval"`
	// OnFailure are policies as relay.ParsePolicy reads them.
	OnFailure []string `koanf:"on-failure"`
	// ParkScope is key or aggregate, for the policies that do not say so.
	ParkScope    string        `koanf:"park-scope"`
	StallTimeout time.Duration `koanf:"stall-timeout"`
	StartTimeout time.Duration `koanf:"start-timeout"`

	// origins tells for each setting that somebody has made where that was.
	origins map[string]origin
	// entry is where the file begins to speak of the source.
	entry string
	// refused are the settings that somebody has made and that cannot be; illegible tells that there is a file of which nothing is known.
	refused   map[string]bool
	illegible bool
}

// Lacks tells that nobody has tried to make any of some settings that are empty. One that was made and is wrong, or by a wrong name, is reported as that, and is not missing as well; of a
// file that cannot be read nobody knows what it lacks.
func (s *Source) Lacks(keys ...string) bool {
	return !s.illegible && !slices.ContainsFunc(keys, func(key string) bool { return s.refused[key] })
}

// Label names the source to people and in metrics: by its name, or by its table when it has none.
func (s *Source) Label() string { return cmp.Or(s.Name, s.Table) }

// Named says where a setting of the source was made, for the text of an error: "outbox.yaml:12: table", OUTBOX_TABLE or --table. A setting that nobody has made is called by
// the name that it would be made by.
func (s *Source) Named(key string) string {
	if o, made := s.origins[key]; made {
		return o.name
	}
	if s.Name != "" {
		return s.entry + ": " + key
	}
	return "--" + key
}

// Made tells that somebody has made the setting, be it to what it is by default.
func (s *Source) Made(key string) bool {
	_, made := s.origins[key]
	return made
}

// Typed tells that the setting was made on the command line, which every user of the machine can read.
func (s *Source) Typed(key string) bool { return s.origins[key].typed }

// Where is in front of what is wrong with the source as a whole: "outbox.yaml:7: source orders: ", or "" for a source without a name.
func (s *Source) Where() string {
	if s.Name == "" {
		return ""
	}
	return s.entry + ": source " + s.Name + ": "
}
