package benchmark

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/relay"
)

// Database is what the database takes by itself, without the relay.
type Database struct {
	Version           string `json:"version"`
	Fsync             string `json:"fsync"`
	SynchronousCommit string `json:"synchronous_commit"`
	// RoundTrip is a statement that does nothing. Commit is a transaction of one INSERT, sent in one round trip; Unsynced is the same with synchronous_commit off: what lies between the two is
	// the wait for the disk, and for standbys that have to confirm.
	RoundTrip Spread `json:"round_trip"`
	Commit    Spread `json:"commit"`
	Unsynced  Spread `json:"commit_without_sync"`
}

// Sync is the part of a commit that waits for the disk and for standbys.
func (d Database) Sync() time.Duration { return max(0, d.Commit.P50-d.Unsynced.P50) }

// Kafka is what the brokers take by themselves.
type Kafka struct {
	Partitions  int `json:"partitions"`
	Replication int `json:"replication"`
	// RoundTrip is a request that gives a broker nothing to do, Produce a single record until all replicas in sync have it.
	RoundTrip Spread `json:"round_trip"`
	Produce   Spread `json:"produce"`
}

// insertBusiness has its values in it, for a message of several statements has no parameters.
func (b *Bench) insertBusiness() string {
	return "INSERT INTO " + pgx.Identifier{b.plan.Schema, "business"}.Sanitize() + " (customer, total) VALUES ('somebody', 1)"
}

func (b *Bench) probeDatabase(ctx context.Context) (d Database, err error) {
	err = b.workers.with(ctx, func(conn *pgxpool.Conn) error {
		err := conn.QueryRow(ctx, "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')").Scan(&d.Version, &d.Fsync, &d.SynchronousCommit)
		if err != nil {
			return err
		}
		d.Version, _, _ = strings.Cut(d.Version, " ")
		for _, probe := range []struct {
			to  *Spread
			sql string
		}{
			{&d.RoundTrip, "SELECT 1"},
			{&d.Commit, "BEGIN; " + b.insertBusiness() + "; COMMIT"},
			{&d.Unsynced, "BEGIN; SET LOCAL synchronous_commit = off; " + b.insertBusiness() + "; COMMIT"},
		} {
			*probe.to, err = sample(ctx, func() error {
				_, err := conn.Exec(ctx, probe.sql, pgx.QueryExecModeSimpleProtocol)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return d, fmt.Errorf("measure the database: %w", err)
	}
	return d, nil
}

// probeKafka publishes single records by the relay's publisher.
func (b *Bench) probeKafka(ctx context.Context) (k Kafka, err error) {
	k.Partitions, k.Replication = b.plan.Partitions, b.plan.Replication
	if k.RoundTrip, err = sample(ctx, func() error { _, err := b.topics.RoundTrip(ctx); return err }); err != nil {
		return k, fmt.Errorf("measure the brokers: %w", err)
	}
	p, err := kafka.NewPublisher(b.cfg.Kafka)
	if err != nil {
		return k, err
	}
	if err := p.Open(ctx); err != nil {
		return k, err
	}
	defer p.Destroy()
	if err := b.awaitTopic(ctx, p); err != nil {
		return k, err
	}
	// The first record of a partition makes files at the broker; that is no acknowledgement as they are later.
	if err := publish(ctx, p, b.records(4*max(12, b.plan.Partitions))); err != nil {
		return k, err
	}
	one := b.records(mostSamples)
	k.Produce, err = sample(ctx, func() error {
		r := one[0]
		one = one[1:]
		return publish(ctx, p, []*relay.Event{r})
	})
	return k, err
}

// topicLimit is how long a new topic may take to be known everywhere.
const topicLimit = 15 * time.Second

// awaitTopic returns when the new topic can be published to.
func (b *Bench) awaitTopic(ctx context.Context, p *kafka.Publisher) error {
	ctx, cancel := context.WithTimeout(ctx, topicLimit)
	defer cancel()
	for {
		found, err := p.CheckTopics(ctx, []string{b.plan.Topic})
		if err == nil {
			err = found[b.plan.Topic]
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the new topic %s: %w", b.plan.Topic, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// publishLimit is how long a few records may take.
const publishLimit = time.Minute

// publish returns when all events are acknowledged.
func publish(ctx context.Context, p *kafka.Publisher, events []*relay.Event) error {
	ctx, cancel := context.WithTimeoutCause(ctx, publishLimit, fmt.Errorf("not all records were acknowledged within %s: look at the brokers", publishLimit))
	defer cancel()
	answers := make(chan error, len(events))
	p.Publish(events, func(_ *relay.Event, err error) { answers <- err })
	for range events {
		select {
		case err := <-answers:
			if err != nil {
				return fmt.Errorf("publish to the scratch topic: %w", err)
			}
		case <-ctx.Done():
			return fmt.Errorf("publish to the scratch topic: %w", context.Cause(ctx))
		}
	}
	return nil
}

// records are events that no table holds.
func (b *Bench) records(n int) []*relay.Event {
	all := make([]*relay.Event, n)
	for i := range all {
		all[i] = &relay.Event{
			ID: int64(i + 1), EventID: uuid.Must(uuid.NewV7()), Type: eventType, Topic: b.plan.Topic, PartitionKey: "key-" + strconv.Itoa(i),
			Payload: b.payload(i), CreatedAt: b.cfg.now(),
		}
	}
	return all
}

const eventType = "bench.written.v1"

// payload has about the size that was asked for.
func (b *Bench) payload(n int) json.RawMessage {
	var note strings.Builder
	for note.Len() < b.padding() {
		note.WriteString(uuid.NewString())
	}
	return fmt.Appendf(nil, `{"n": %d, "note": "%s"}`, n, note.String()[:b.padding()])
}

// padding is the length of the text in a payload: the rest are names, marks and a number.
func (b *Bench) padding() int { return b.cfg.Size - 30 }
