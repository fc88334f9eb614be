package cli

import (
	"log/slog"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
)

// modeCompeting is the word for the relay of a migration.
const modeCompeting = "competing"

// wireCompeting is wire for a relay that competes for rows.
func (p *part) wireCompeting(log *slog.Logger) (*sourceRelay, error) {
	source, err := postgres.NewCompeting(p.pool, p.postgres(log))
	if err != nil {
		return nil, err
	}
	publisher, err := kafka.NewPublisher(p.kafka(log))
	if err != nil {
		return nil, err
	}
	engine, err := competing.New(source, publisher, p.competing(log))
	if err != nil {
		return nil, err
	}
	return &sourceRelay{engine, source}, nil
}

// competing takes what exists in both modes. The batches of the other one are far too large for rows that stay locked.
func (p *part) competing(log *slog.Logger) competing.Config {
	s := p.cfg
	cfg := competing.Config{
		Version:      version(),
		PollInterval: s.PollInterval,
		LeaseTTL:     s.LeaseTTL,
		DrainTimeout: s.DrainTimeout,
		StartTimeout: s.StartTimeout,
		Topics:       s.Topics,
		Once:         p.once,
		Logger:       log,
	}
	if s.Made("batch-size") {
		cfg.BatchSize = s.BatchSize
	}
	if s.Made("max-in-flight-bytes") {
		cfg.BatchBytes = s.MaxInFlightBytes
	}
	return cfg
}
