package cli

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
	"github.com/outbox-relay/outbox/tracing"
)

// modeCompeting is the word for the relay of a migration.
const modeCompeting = "competing"

// wireCompeting is wire for a relay that competes for rows.
func (p *part) wireCompeting(log *slog.Logger) (*sourceRelay, error) {
	if p.cfg.Settle == "delete" {
		return nil, fmt.Errorf("%s is delete, and source %s is relayed in mode competing, which marks rows as the relays beside it do: leave it out, or make it mark",
			p.cfg.Named("settle"), p.cfg.Label())
	}
	if by := p.scopedBy(); by != "" {
		return nil, fmt.Errorf("%s has the park-scope aggregate, and source %s is relayed in mode competing, which parks nothing: leave it out, or relay the source in mode leased",
			p.cfg.Named(by), p.cfg.Label())
	}
	source, err := postgres.NewCompeting(p.pool, p.postgres(log))
	if err != nil {
		return nil, err
	}
	publisher, err := kafka.NewPublisher(p.kafka(log))
	if err != nil {
		return nil, err
	}
	engine, err := competing.New(source, tracing.Publisher(publisher, p.traces), p.competing(log))
	if err != nil {
		return nil, err
	}
	return &sourceRelay{Engine: engine, source: source, settled: p.retention, password: p.password, cfg: &p.cfg, throttled: publisher.Throttled, retention: p.retention}, nil
}

// scopedBy is the setting that has aggregates parked; "" when none does.
func (p *part) scopedBy() string {
	if p.cfg.ParkScope == relay.ScopeAggregate.String() {
		return "park-scope"
	}
	for _, text := range p.cfg.OnFailure {
		if policy, err := relay.ParsePolicy(text); err == nil && policy.ParkScope == relay.ScopeAggregate {
			return "on-failure"
		}
	}
	return ""
}

// competing takes what exists in both modes. The batches of the other one are far too large for rows that stay locked.
func (p *part) competing(log *slog.Logger) competing.Config {
	s := p.cfg
	cfg := competing.Config{
		Name:         p.name,
		Version:      version(),
		PollInterval: s.PollInterval,
		LeaseTTL:     s.LeaseTTL,
		DrainTimeout: s.DrainTimeout,
		StartTimeout: s.StartTimeout,
		StallTimeout: s.StallTimeout,
		Topics:       s.Topics,
		Once:         p.once,
		Logger:       log,
		LogKeys:      p.logKeys,
	}
	if s.Made("batch-size") {
		cfg.BatchSize = s.BatchSize
	}
	if s.Made("max-in-flight-bytes") {
		cfg.BatchBytes = s.MaxInFlightBytes
	}
	return cfg
}

// warnOfLeased names the settings that somebody has made and that only the other mode looks at.
func warnOfLeased(parts []*part) {
	for _, p := range parts {
		if p.cfg.Mode != modeCompeting {
			continue
		}
		var idle []string
		for _, key := range []string{"max-in-flight", "sweep-interval", "on-failure"} {
			if p.cfg.Made(key) {
				idle = append(idle, p.cfg.Named(key))
			}
		}
		if len(idle) > 0 {
			p.log.Warn("these settings have no effect in mode competing; its batches are bounded by batch-size and max-in-flight-bytes", "settings", strings.Join(idle, ", "))
		}
	}
}
