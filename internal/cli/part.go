package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/engine"
	"github.com/outbox-relay/outbox/internal/fleet"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/postgres/retention"
	"github.com/outbox-relay/outbox/relay"
	"github.com/outbox-relay/outbox/tracing"
)

// relayFleet are the relays of this process, one for each source.
type relayFleet = fleet.Fleet[*sourceRelay]

// sourceRelay is the relay of one source, with its table for what the engine does not know.
type sourceRelay struct {
	fleet.Engine
	source backlog
	// settled tells of what stays in the table.
	settled settledAge
	// reading is what scrapes ask of the two.
	reading shared[reading]
	// password is where the database's password was taken from.
	password string
	// cfg says by what the source's settings were made.
	cfg *config.Source
	// throttled is how long brokers have had its publisher wait; nil where nobody asks.
	throttled func() time.Duration
	// retention deletes what is old beside the relay; nil where nothing of the kind runs.
	retention *retention.Retention
}

// backlog tells what waits in a table.
type backlog interface {
	Backlog(ctx context.Context) (postgres.Backlog, error)
}

// settledAge tells how old the oldest event is that was settled and is still there.
type settledAge interface {
	OldestSettledAge(ctx context.Context) (time.Duration, error)
}

// part is one source as it was configured. It shares nothing with another: what fails in one cannot be felt in the other.
type part struct {
	cfg  config.Source
	once bool
	log  *slog.Logger
	// logKeys names partition keys in the log.
	logKeys bool
	// name is the relay's, the same in all parts.
	name string
	// pool is for the operator and for how connections are made; the relay has its own.
	pool     *pgxpool.Pool
	operator *postgres.Operator
	// retention is the same for all attempts of the relay.
	retention *retention.Retention
	// password is where the database's password was taken from.
	password string
	// traces makes the spans of what is published; nil when nothing is traced.
	traces trace.TracerProvider
}

// parts makes the parts of all sources, and reports everything that is wrong with the settings together: what Load has found, and what the drivers say.
func (a *app) parts(ctx context.Context, cfg *config.Config, found error, log *slog.Logger) ([]*part, error) {
	var problems []error
	if found != nil {
		problems = append(problems, found)
	}
	var parts []*part
	known := map[string]string{}
	name := cmp.Or(cfg.RelayName, engine.ProcessName())
	for _, s := range cfg.Sources {
		p := &part{cfg: s, once: cfg.Once, log: log, logKeys: cfg.LogKeys, name: name}
		if s.Name != "" {
			p.log = log.With("source", s.Name)
		}
		p.log = newWarnOnce(p.log)
		parts = append(parts, p)
		if err := p.connectBy(ctx, a.env, known); err != nil && !errors.Is(err, errUnknown) {
			problems = append(problems, err)
		}
		p.log = newPlacing(p.log, p.password, &p.cfg)
	}
	if len(problems) == 0 {
		problems = wiringProblems(parts)
	} else {
		problems = append(problems, policyProblems(parts)...)
	}
	if len(problems) > 0 {
		closePools(parts)
		return nil, errors.Join(problems...)
	}
	return parts, nil
}

// connectBy makes the pool, without connecting. known holds the tables of the sources before, by what they have in common.
func (p *part) connectBy(ctx context.Context, env environment, known map[string]string) error {
	target := targetOf(&p.cfg)
	cfg, err := target.parse(ctx, env)
	if err == nil {
		p.password = target.passwordPlace(env, cfg)
		err = p.alone(cfg, known)
	}
	if err == nil {
		p.pool, err = newPool(ctx, cfg, p.applicationName())
	}
	if err != nil {
		return fmt.Errorf("%s%w", p.cfg.Where(), err)
	}
	return nil
}

// alone refuses a table that another source has: the two would compete for its lease. A table that goes by two addresses is not recognised; the lease keeps its
// events in order all the same.
func (p *part) alone(cfg *pgxpool.Config, known map[string]string) error {
	if !p.cfg.Lacks("database-url", "table") {
		// It was to be another one, in a way that cannot be and is reported elsewhere.
		return nil
	}
	c := cfg.ConnConfig
	// It has been read before.
	table, _ := migrate.ParseTable(p.cfg.Table)
	id := strings.Join([]string{strings.ToLower(address(&c.Config)), c.Database, table.Schema, table.Name}, "\x00")
	if other, taken := known[id]; taken {
		return fmt.Errorf("its table %s in database %s at %s is that of source %s already: leave one of the two out", p.cfg.Table, c.Database, address(&c.Config), other)
	}
	known[id] = p.cfg.Name
	return nil
}

// wiringProblems makes every relay once, to hear what the parts refuse.
func wiringProblems(parts []*part) []error {
	var problems []error
	for _, p := range parts {
		var err error
		if p.operator, err = postgres.NewOperator(p.pool, p.postgres(p.log)); err == nil {
			p.retention, err = p.retain()
		}
		if err == nil {
			_, err = p.wire(slog.New(slog.DiscardHandler))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s%w", p.cfg.Where(), err))
		}
	}
	return problems
}

// policyProblems are what is wrong with the policies, where the relays cannot be made for another reason.
func policyProblems(parts []*part) []error {
	var problems []error
	for _, p := range parts {
		if _, err := p.policies(); err != nil {
			problems = append(problems, fmt.Errorf("%s%w", p.cfg.Where(), err))
		}
	}
	return problems
}

func members(parts []*part) []fleet.Member[*sourceRelay] {
	var all []fleet.Member[*sourceRelay]
	for _, p := range parts {
		all = append(all, fleet.Member[*sourceRelay]{
			Name:   p.cfg.Label(),
			Make:   func() (*sourceRelay, error) { return p.wire(p.log) },
			Logger: p.log,
		})
	}
	return all
}

// wire joins source, publisher and engine. It connects to nothing.
func (p *part) wire(log *slog.Logger) (*sourceRelay, error) {
	if p.cfg.Mode == modeCompeting {
		return p.wireCompeting(log)
	}
	source, err := postgres.New(p.pool, p.postgres(log))
	if err != nil {
		return nil, err
	}
	publisher, err := kafka.NewPublisher(p.kafka(log))
	if err != nil {
		return nil, err
	}
	cfg, err := p.engine(log)
	if err != nil {
		return nil, err
	}
	engine, err := relay.New(source, tracing.Publisher(publisher, p.traces), cfg)
	if err != nil {
		return nil, err
	}
	return &sourceRelay{Engine: engine, source: source, settled: p.retention, password: p.password, cfg: &p.cfg, throttled: publisher.Throttled, retention: p.retention}, nil
}

func (p *part) postgres(log *slog.Logger) postgres.Config {
	cfg := postgres.Config{Table: p.cfg.Table, Settle: postgres.Mark, Logger: log, ApplicationName: p.applicationName()}
	if p.cfg.Settle == "delete" {
		cfg.Settle = postgres.Delete
	}
	// What is wrong with them is said where the engine is made.
	policies, _ := p.policies()
	cfg.Moves = slices.ContainsFunc(policies, func(policy relay.Policy) bool { return policy.OnFailure != relay.Park })
	return cfg
}

// applicationName tells the sources of a file apart in pg_stat_activity.
func (p *part) applicationName() string {
	if p.cfg.Name == "" {
		return postgres.DefaultApplicationName
	}
	return postgres.DefaultApplicationName + " " + p.cfg.Name
}

func (p *part) kafka(log *slog.Logger) kafka.Config {
	s := p.cfg
	cfg := kafka.Config{
		Brokers:     s.Brokers,
		ClientID:    s.ClientID,
		Compression: s.Compression,
		LeaseTTL:    s.LeaseTTL,
		Logger:      log,
		SASL:        p.sasl(),

		TLS: s.TLS, TLSCAFile: s.TLSCA, TLSCertFile: s.TLSCert, TLSKeyFile: s.TLSKey, TLSServerName: s.TLSServerName,
	}
	if s.CreateTopics {
		cfg.CreateTopics = &kafka.TopicSpec{Partitions: s.TopicPartitions, Replication: s.TopicReplication}
	}
	return cfg
}

func (p *part) engine(log *slog.Logger) (relay.Config, error) {
	s := p.cfg
	policies, err := p.policies()
	return relay.Config{
		Name:             p.name,
		Version:          version(),
		PollInterval:     s.PollInterval,
		BatchSize:        s.BatchSize,
		MaxInFlight:      s.MaxInFlight,
		MaxInFlightBytes: s.MaxInFlightBytes,
		LeaseTTL:         s.LeaseTTL,
		DrainTimeout:     s.DrainTimeout,
		SweepInterval:    s.SweepInterval,
		StartTimeout:     s.StartTimeout,
		StallTimeout:     s.StallTimeout,
		Policies:         policies,
		Topics:           s.Topics,
		Once:             p.once,
		Logger:           log,
		LogKeys:          p.logKeys,
	}, err
}

// policies reads what is to become of events that cannot be published.
func (p *part) policies() (policies []relay.Policy, err error) {
	scope, err := relay.ParseParkScope(cmp.Or(p.cfg.ParkScope, relay.ScopeKey.String()))
	if err != nil {
		return nil, p.cfg.Wrong("park-scope", err)
	}
	var problems []error
	for _, text := range p.cfg.OnFailure {
		policy, err := relay.ParsePolicy(text)
		if err != nil {
			problems = append(problems, p.cfg.Wrong("on-failure", err))
		}
		if !saysScope(text) {
			policy.ParkScope = scope
		}
		policies = append(policies, policy)
	}
	// The topics that no policy names are parked.
	policies = append(policies, relay.Policy{ParkScope: scope})
	return policies, errors.Join(problems...)
}

// saysScope tells that a policy has a scope of its own.
func saysScope(policy string) bool {
	return slices.ContainsFunc(strings.Fields(policy), func(word string) bool { return strings.HasPrefix(word, "park-scope=") })
}

// sourcesError tells what became of several sources, each in the words in which one alone would be told of.
type sourcesError struct {
	lines  []string
	config bool
}

func (e *sourcesError) Error() string { return strings.Join(e.lines, "\n") }

// Is tells that all there is to mend is configuration.
func (e *sourcesError) Is(target error) bool { return e.config && target == relay.ErrConfiguration }

// sourceErrors makes the outcome of a process of that of its relays. A source without a name is the only one, and needs no mention.
func sourceErrors(err error, several bool) error {
	var failed *fleet.Error
	if !errors.As(err, &failed) {
		return err
	}
	if !several {
		return failed.Failures[0].Err
	}
	out := &sourcesError{config: true}
	for _, f := range failed.Failures {
		why := explain(f.Err)
		out.config = out.config && exitCode(why) == exitConfig
		out.lines = append(out.lines, fmt.Sprintf("source %s: %v", f.Name, why))
	}
	return out
}
