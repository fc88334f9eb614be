package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// forwarderTopic is what the forwarder's table is named for.
	forwarderTopic = "bench"
	// forwarderBatch is how many messages the forwarder reads at once.
	forwarderBatch = 1000
	// stallLimit is how long the forwarder may take for a batch.
	stallLimit = time.Minute
	// keyHeader holds the partition key between the forwarder's table and its producer.
	keyHeader = "partition_key"
)

// watermill measures a drain against the forwarder of Watermill, the component of a widely used Go library that does the same work.
func (b *bench) watermill(ctx context.Context) ([]Measure, error) {
	mill := &mill{s: b.stand}
	if err := mill.makeTables(); err != nil {
		return nil, err
	}
	d := b.usualDrain(b.millRows)
	other := turn{fmt.Sprintf("watermill forwarder, batch %s", number(forwarderBatch)), func(ctx context.Context) (float64, error) {
		return mill.drainOne(ctx, b.millRows)
	}}
	if !b.smoke {
		if err := b.warmUpDrains(ctx, d.subject); err != nil {
			return nil, err
		}
		if _, err := mill.drainOne(ctx, warmRows); err != nil {
			return nil, fmt.Errorf("warm up %s: %w", other.name, err)
		}
	}
	m, err := b.sideBySide(ctx, "watermill", b.once(d.subject.name, d), other, Measure{Name: "watermill: " + d.subject.name, Judged: true})
	if err != nil {
		return nil, err
	}
	m.aim("at least 15 times the forwarder", m.Ratio.Median >= 15)
	return []Measure{m}, nil
}

// mill is a forwarder, from its own table to Kafka.
type mill struct {
	s *stand
	// log is what the forwarder had to say in this run. It is shown only with an error: that its last question is cut off at the end is none.
	log output
}

// drainOne returns events a second, from cold connections until the forwarder has written down that all are published.
func (m *mill) drainOne(ctx context.Context, rows int) (rate float64, err error) {
	err = m.s.withTopic(ctx, func(topic string) error {
		l, last, err := m.fill(ctx, backlog{topic: topic, rows: rows})
		if err != nil {
			return err
		}
		began := time.Now()
		if err := m.forward(ctx, last); err != nil {
			return fmt.Errorf("%w\n%s", err, &m.log)
		}
		rate = float64(rows) / time.Since(began).Seconds()
		a, err := m.s.audit(ctx, topic, l)
		if err != nil {
			return err
		}
		return a.verdict()
	})
	return rate, err
}

// forward runs the forwarder until its position is the last message.
func (m *mill) forward(ctx context.Context, last int64) error {
	pool, err := pgxpool.New(ctx, m.s.server.URL("postgres"))
	if err != nil {
		return fmt.Errorf("make pool: %w", err)
	}
	defer pool.Close()
	from, err := m.subscriber(pool)
	if err != nil {
		return err
	}
	to, err := m.publisher()
	if err != nil {
		return err
	}
	defer to.Close()
	f, err := forwarder.NewForwarder(from, to, m.logger(), forwarder.Config{ForwarderTopic: forwarderTopic})
	if err != nil {
		return fmt.Errorf("make forwarder: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	select {
	case <-f.Running():
	case err := <-ended:
		return fmt.Errorf("run forwarder: %w", err)
	}
	err = m.await(ctx, last)
	return errors.Join(err, f.Close(), <-ended)
}

// await returns when the forwarder's position is the last message. Its table of positions has one row.
func (m *mill) await(ctx context.Context, last int64) error {
	var at int64
	for moved := time.Now(); ; {
		before := at
		err := m.s.pool.QueryRow(ctx, "SELECT coalesce(max(offset_acked), 0) FROM "+(wsql.DefaultPostgreSQLOffsetsAdapter{}).MessagesOffsetsTable(forwarderTopic)).Scan(&at)
		switch {
		case err != nil:
			return fmt.Errorf("read the forwarder's position: %w", err)
		case at == last:
			return nil
		case at != before:
			moved = time.Now()
		case time.Since(moved) > stallLimit:
			return fmt.Errorf("the forwarder stands at %d of %d since %s", at, last, stallLimit)
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
	}
}

// subscriber reads with the driver that the relay has as well.
func (m *mill) subscriber(pool *pgxpool.Pool) (*wsql.Subscriber, error) {
	sub, err := wsql.NewSubscriber(wsql.BeginnerFromPgx(pool), wsql.SubscriberConfig{
		SchemaAdapter:  wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: forwarderBatch},
		OffsetsAdapter: wsql.DefaultPostgreSQLOffsetsAdapter{},
	}, m.logger())
	if err != nil {
		return nil, fmt.Errorf("make subscriber: %w", err)
	}
	return sub, nil
}

// publisher has Watermill's own settings, but waits for all acknowledgements, as the relay does, and gives each record its key.
func (m *mill) publisher() (*kafka.Publisher, error) {
	cfg := kafka.DefaultSaramaSyncPublisherConfig()
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	pub, err := kafka.NewPublisher(kafka.PublisherConfig{
		Brokers:               m.s.cluster.Brokers(),
		Marshaler:             kafka.NewWithPartitioningMarshaler(func(_ string, msg *message.Message) (string, error) { return msg.Metadata.Get(keyHeader), nil }),
		OverwriteSaramaConfig: cfg,
	}, m.logger())
	if err != nil {
		return nil, fmt.Errorf("make producer: %w", err)
	}
	return pub, nil
}

func (m *mill) logger() watermill.LoggerAdapter { return watermill.NewSlogLogger(warnings(&m.log)) }

// makeTables makes the forwarder's two tables, as the library itself makes them.
func (m *mill) makeTables() error {
	sub, err := m.subscriber(m.s.pool)
	if err == nil {
		err = errors.Join(sub.SubscribeInitialize(forwarderTopic), sub.Close())
	}
	if err != nil {
		return fmt.Errorf("make the forwarder's tables: %w", err)
	}
	return nil
}

// wrapSQL copies the events into the forwarder's table, in the envelope that its publisher would have put them in.
const wrapSQL = `INSERT INTO %s (uuid, payload, metadata, transaction_id)
SELECT event_id::text, json_build_object('destination_topic', topic, 'uuid', event_id, 'payload', translate(encode(convert_to(payload::text, 'UTF8'), 'base64'), E'\n', ''),
    'metadata', json_build_object('x-event-id', event_id, 'x-event-type', event_type, '` + keyHeader + `', partition_key)), '{}', pg_current_xact_id()
FROM %s WHERE id > $1 ORDER BY id`

// fill writes the same backlog as for the relay, and returns the position of its last message.
func (m *mill) fill(ctx context.Context, b backlog) (l ledger, last int64, err error) {
	t := m.s.table
	if err := t.clear(ctx); err != nil {
		return nil, 0, err
	}
	if l, err = t.fill(ctx, b); err != nil {
		return nil, 0, err
	}
	messages := wsql.DefaultPostgreSQLSchema{}.MessagesTable(forwarderTopic)
	positions := wsql.DefaultPostgreSQLOffsetsAdapter{}.MessagesOffsetsTable(forwarderTopic)
	if _, err = m.s.pool.Exec(ctx, fmt.Sprintf("TRUNCATE %s, %s", messages, positions)); err == nil {
		_, err = m.s.pool.Exec(ctx, fmt.Sprintf(wrapSQL, messages, t.name), t.after)
	}
	if err == nil {
		_, err = m.s.pool.Exec(ctx, "VACUUM ANALYZE "+messages)
	}
	if err == nil {
		err = m.s.pool.QueryRow(ctx, `SELECT max("offset") FROM `+messages).Scan(&last)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("fill the forwarder's table: %w", err)
	}
	return l, last, t.rest(ctx)
}
