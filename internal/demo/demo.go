package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

const (
	service    = "demo-shop"
	topic      = service + ".order"
	partitions = 12
	table      = schema + ".outbox_event"
	// grace is how long the demo waits for what is still on its way when the writers have stopped.
	grace = 20 * time.Second
)

// Options are what the command line says.
type Options struct {
	// Rate is how many business transactions a second the shop begins.
	Rate float64
	// Duration ends the demo; 0: only ctx does.
	Duration time.Duration
	// DatabaseURL and Brokers name a real database and real brokers; empty: the demo starts its own.
	DatabaseURL string
	Brokers     []string
	// Progress gets the live line and the explanations; io.Discard for none. Terminal tells that a line may redraw there.
	Progress io.Writer
	Terminal bool
	Logger   *slog.Logger
}

// Run opens the shop, the relay and the consumer, until ctx or the duration ends, and returns what the ledger says. The error is for what
// could not be run at all; whether the promises were kept is told by [Summary.Sound].
func Run(ctx context.Context, o Options) (Summary, error) {
	parts, err := findParts(ctx, o)
	if err != nil {
		return Summary{}, err
	}
	defer parts.Close()
	pool, err := pgxpool.New(ctx, parts.databaseURL)
	if err != nil {
		return Summary{}, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer pool.Close()
	release, err := makeDatabase(ctx, pool)
	if err != nil {
		return Summary{}, err
	}
	defer release()
	consumer, err := makeTopic(ctx, parts)
	if err != nil {
		return Summary{}, err
	}
	defer consumer.Close()
	engine, err := makeRelay(pool, parts, o.Logger)
	if err != nil {
		return Summary{}, err
	}
	writer, err := outbox.NewWriter(outbox.Config{Schema: schema, Topics: outbox.Topics{Service: service, PerAggregate: true}})
	if err != nil {
		return Summary{}, err
	}
	fmt.Fprintf(o.Progress, "%s\n%s\n\n", parts.describe(), Ends(o.Duration))
	s := &scene{options: o, shop: &shop{pool: pool, events: writer, ledger: newLedger()}, relay: engine, consumer: consumer}
	return s.play(ctx)
}

// Ends says how long the demo runs and how it is ended before that.
func Ends(d time.Duration) string {
	if d == 0 {
		return "demo runs until Ctrl-C ends it"
	}
	return fmt.Sprintf("demo runs for %s; Ctrl-C ends it", d)
}

// scene is the running demo.
type scene struct {
	options  Options
	shop     *shop
	relay    *relay.Relay
	consumer *kgo.Client
}

// play runs the three sides; when the writers have stopped, what is on its way may arrive.
func (s *scene) play(ctx context.Context) (Summary, error) {
	writing, stopWriting := context.WithCancel(ctx)
	defer stopWriting()
	if s.options.Duration > 0 {
		writing, stopWriting = context.WithTimeout(ctx, s.options.Duration)
		defer stopWriting()
	}
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	relayed := run(stop, func() error { return s.relay.Run(running) })
	consumed := run(stop, func() error { return consume(running, s.consumer, s.shop.ledger) })
	context.AfterFunc(running, stopWriting)
	written := run(stop, func() error { return s.shop.open(writing, s.options.Rate) })

	screen := &display{out: s.options.Progress, terminal: s.options.Terminal, began: time.Now()}
	s.watch(running, screen, written)
	s.awaitArrivals(running, screen)
	screen.end()
	cause := context.Cause(running)
	stop(nil)
	<-relayed
	<-consumed
	summary := s.shop.ledger.summary(int(s.relay.Stats().Published))
	screen.summary(summary)
	return summary, cause
}

// run starts f; its error stops the demo.
func run(stop context.CancelCauseFunc, f func() error) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(); err != nil {
			stop(err)
		}
	}()
	return done
}

// watch shows the live line until the writers are done.
func (s *scene) watch(running context.Context, screen *display, written <-chan struct{}) {
	tick := time.NewTicker(screen.interval())
	defer tick.Stop()
	for {
		select {
		case <-written:
			return
		case <-running.Done():
			<-written
			return
		case <-tick.C:
			s.show(screen)
		}
	}
}

// awaitArrivals waits for what was committed and has not arrived.
func (s *scene) awaitArrivals(running context.Context, screen *display) {
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.shop.ledger.missing() > 0 {
		select {
		case <-deadline.C:
			return
		case <-running.Done():
			return
		case <-tick.C:
		}
	}
	s.show(screen)
}

func (s *scene) show(screen *display) {
	counts := s.shop.ledger.counts()
	counts.Published = int(s.relay.Stats().Published)
	screen.show(counts)
}

// makeDatabase makes the demo's schema anew, in a database that may hold other things. The lock keeps a second demo out.
func makeDatabase(ctx context.Context, pool *pgxpool.Pool) (release func(), err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() {
		if err != nil {
			conn.Release()
		}
	}()
	if err := lockOut(ctx, conn); err != nil {
		return nil, err
	}
	for _, sql := range []string{"DROP SCHEMA IF EXISTS " + schema + " CASCADE", "CREATE SCHEMA " + schema} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("make schema %s: %w%s", schema, err, advice(err))
		}
	}
	if _, err := migrate.Up(ctx, conn.Conn(), migrate.Config{Table: table}); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	if err := prepare(ctx, pool); err != nil {
		return nil, err
	}
	// The connection goes with its lock; the pool makes another one when it needs to. The server is told to unlock and answers, so that a demo that
	// starts next finds the lock free.
	return func() {
		ctx := context.WithoutCancel(ctx)
		own := conn.Hijack()
		_, _ = own.Exec(ctx, "SELECT pg_advisory_unlock_all()")
		_ = own.Close(ctx)
	}, nil
}

// lockPatience is how long a demo waits for one that was killed: its session may need a moment to end.
const lockPatience = 5 * time.Second

// lockOut keeps other demos out of the database for as long as the connection lives.
func lockOut(ctx context.Context, conn *pgxpool.Conn) error {
	for deadline := time.Now().Add(lockPatience); ; {
		var alone bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtext('outbox demo'))").Scan(&alone); err != nil {
			return fmt.Errorf("lock the demo's schema: %w", err)
		}
		if alone {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("another demo runs in this database: wait for its end, or set DATABASE_URL to another one")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// advice is for a role that may not do what the demo has to.
func advice(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "42501" {
		return ""
	}
	if strings.Contains(pg.Message, "owner") {
		return fmt.Sprintf("; another role's demo left it: drop schema %s as its owner, or run the demo as that role", schema)
	}
	return "; the demo needs the right to create schemas: GRANT CREATE ON DATABASE …, or set DATABASE_URL to a database of your own"
}

// makeTopic creates the topic and returns a consumer that reads it from its present end on.
func makeTopic(ctx context.Context, p *parts) (*kgo.Client, error) {
	client, err := p.client()
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, partitions, -1, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return nil, fmt.Errorf("create topic %s on %v: %w", topic, p.brokers, err)
	}
	ends, err := endOffsets(ctx, admin)
	if err != nil {
		return nil, err
	}
	return p.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: ends}), kgo.FetchMaxWait(100*time.Millisecond))
}

// endOffsets asks until every partition of a topic that may be new has a leader.
func endOffsets(ctx context.Context, admin *kadm.Client) (map[int32]kgo.Offset, error) {
	for {
		listed, err := admin.ListEndOffsets(ctx, topic)
		if err == nil {
			err = listed.Error()
		}
		if err == nil {
			ends := map[int32]kgo.Offset{}
			listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = kgo.NewOffset().At(o.Offset) })
			return ends, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("find the end of topic %s: %w", topic, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func makeRelay(pool *pgxpool.Pool, p *parts, log *slog.Logger) (*relay.Relay, error) {
	source, err := postgres.New(pool, postgres.Config{Table: table, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("make source: %w", err)
	}
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: p.brokers, ClientID: "outbox-demo", Logger: log})
	if err != nil {
		return nil, fmt.Errorf("make publisher: %w", err)
	}
	return relay.New(source, publisher, relay.Config{Logger: log})
}
