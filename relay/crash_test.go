package relay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// A relay in a process of its own kills itself at each step of read, publish and settle, again and again, while writers write. A checker then reads
// the topic: nothing lost, no key turned, nothing uncommitted, and what came twice was unpublished right after a kill.

const (
	crashStep  = "OUTBOX_TEST_CRASH_STEP"
	crashAfter = "OUTBOX_TEST_CRASH_AFTER"
	crashURL   = "OUTBOX_TEST_CRASH_DATABASE"
	crashKafka = "OUTBOX_TEST_CRASH_BROKERS"
	crashType  = "OUTBOX_TEST_CRASH_EVENT_TYPE"
)

// crashChild is the process that dies: TestMain calls it when it finds its variables.
func crashChild() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv(crashURL))
	exitOn(err)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	source, err := postgres.New(pool, postgres.Config{Logger: log})
	exitOn(err)
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: strings.Split(os.Getenv(crashKafka), ","), LeaseTTL: 8 * time.Second, Logger: log})
	exitOn(err)
	left, err := strconv.ParseInt(os.Getenv(crashAfter), 10, 64)
	exitOn(err)
	var count atomic.Int64
	cfg := relay.WithStep(relay.Config{LeaseTTL: 8 * time.Second, Logger: log, Once: os.Getenv(crashStep) == ""}, func(point string) {
		if point == os.Getenv(crashStep) && count.Add(1) == left {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	engine, err := relay.New(source, mortal{publisher, os.Getenv(crashType)}, cfg)
	exitOn(err)
	exitOn(engine.Run(ctx))
	os.Exit(0)
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

func TestKilledAtEveryStepNothingIsLostAndNoKeyTurns(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("OUTBOX_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("seed %d (repeat with OUTBOX_TEST_SEED=%d)", seed, seed)
	c := newCrashBench(t, rand.New(rand.NewPCG(seed, 1)))
	for _, step := range []string{"read", "publish", "acked", "settle", "settled", "publish", "acked", "settle"} {
		c.write(t, 150)
		c.runChild(t, step, 1+c.rand.IntN(4))
		c.noteUnpublished(t)
		c.write(t, 20)
	}
	c.runChild(t, "", 0)
	c.check(t)
}

// crashBench is one database, one broker and what was written.
type crashBench struct {
	rand    *rand.Rand
	pool    *pgxpool.Pool
	url     string
	brokers []string
	topic   string
	events  *outbox.Writer
	// committed are the events by key in commit order, rolledBack those that must never arrive.
	committed  map[string][]uuid.UUID
	rolledBack map[uuid.UUID]bool
	// mayRepeat are the rows that were unpublished right after a kill.
	mayRepeat map[uuid.UUID]bool
}

func newCrashBench(t *testing.T, r *rand.Rand) *crashBench {
	t.Helper()
	db := pgtest.New(t)
	c := &crashBench{
		rand: r, pool: db.Pool(t), url: db.URL, topic: "crash." + uuid.NewString(),
		committed: map[string][]uuid.UUID{}, rolledBack: map[uuid.UUID]bool{}, mayRepeat: map[uuid.UUID]bool{},
	}
	if given := os.Getenv("KAFKA_BROKERS"); given != "" {
		c.brokers = strings.Split(given, ",")
	} else {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		c.brokers = cluster.ListenAddrs()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 6, 1, nil, c.topic); err != nil {
		t.Fatal(err)
	}
	if c.events, err = outbox.NewWriter(outbox.Config{}); err != nil {
		t.Fatal(err)
	}
	return c
}

var errRollback = errors.New("roll back")

// write commits n transactions of one to three events, of which some roll back.
func (c *crashBench) write(t *testing.T, n int) {
	t.Helper()
	for range n {
		key := fmt.Sprintf("key-%02d", c.rand.IntN(20))
		var events []outbox.Event
		for range 1 + c.rand.IntN(3) {
			events = append(events, outbox.Event{AggregateType: "Order", AggregateID: key, Type: "order.changed.v1", Topic: c.topic, Payload: map[string]int{"n": 1}})
		}
		var ids []uuid.UUID
		err := pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) (err error) {
			if ids, err = c.events.Write(t.Context(), tx, events...); err != nil {
				return err
			}
			if c.rand.IntN(10) == 0 {
				return errRollback
			}
			return nil
		})
		switch {
		case err == nil:
			c.committed[key] = append(c.committed[key], ids...)
		case errors.Is(err, errRollback):
			for _, id := range ids {
				c.rolledBack[id] = true
			}
		default:
			t.Fatal(err)
		}
	}
}

// runChild runs the relay until it kills itself at the step for the after-th time; without a step it drains and ends well.
func (c *crashBench) runChild(t *testing.T, step string, after int) {
	t.Helper()
	c.expireLeases(t)
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	var out bytes.Buffer
	cmd := c.command(ctx, &out, crashStep+"="+step, crashAfter+"="+strconv.Itoa(after))
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }()
	for {
		select {
		case err := <-done:
			if ctx.Err() != nil {
				t.Fatalf("the relay has not ended:\n%s", out.String())
			}
			c.checkExit(t, step, err, out.String())
			return
		case <-time.After(20 * time.Millisecond):
			// A step may be reached only when there is more to do.
			if step != "" {
				c.write(t, 1)
			}
		}
	}
}

// command is a relay in a process of its own.
func (c *crashBench) command(ctx context.Context, out *bytes.Buffer, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(os.Environ(), crashAfter+"=0", crashURL+"="+c.url, crashKafka+"="+strings.Join(c.brokers, ",")), env...)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// expireLeases has the dead owner's lease run out, as far as the database can tell.
func (c *crashBench) expireLeases(t *testing.T) {
	t.Helper()
	for _, sql := range []string{
		"UPDATE outbox.lane SET expires_at = clock_timestamp() WHERE owner IS NOT NULL",
		"UPDATE outbox.relay SET expires_at = clock_timestamp()",
	} {
		if _, err := c.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *crashBench) checkExit(t *testing.T, step string, err error, out string) {
	t.Helper()
	var exit *exec.ExitError
	killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if killed != (step != "") || (step == "" && err != nil) {
		t.Fatalf("relay that should end at %q: %v\n%s", step, err, out)
	}
}

func (c *crashBench) noteUnpublished(t *testing.T) {
	t.Helper()
	rows, err := c.pool.Query(t.Context(), "SELECT event_id FROM outbox_event WHERE published_at IS NULL")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		c.mayRepeat[id] = true
	}
}

// check reads the whole topic and compares.
func (c *crashBench) check(t *testing.T) {
	t.Helper()
	arrived, times := map[string][]uuid.UUID{}, map[uuid.UUID]int{}
	for _, r := range readTopic(t, c.brokers, c.topic) {
		id := uuid.MustParse(string(r.Headers[0].Value))
		if times[id]++; times[id] == 1 {
			arrived[string(r.Key)] = append(arrived[string(r.Key)], id)
		}
		if c.rolledBack[id] {
			t.Errorf("event %s of a rolled-back transaction is in Kafka", id)
		}
	}
	repeated := 0
	for id, n := range times {
		if n > 1 {
			repeated++
			if !c.mayRepeat[id] {
				t.Errorf("event %s came %d times although it was published before every kill", id, n)
			}
		}
	}
	for key, want := range c.committed {
		if got := arrived[key]; !equal(got, want) {
			t.Errorf("key %s: first deliveries differ from commit order\ngot  %v\nwant %v", key, got, want)
		}
	}
	if repeated == 0 {
		t.Error("no event came twice: the kills hit nothing, and this test proves nothing")
	}
	t.Logf("%d events arrived, %d of them more than once", len(times), repeated)
}

func equal(a, b []uuid.UUID) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// readTopic returns all records of the topic, in the order of each partition.
func readTopic(t *testing.T, brokers []string, topic string) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	var records []*kgo.Record
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	for int64(len(records)) < left {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}
