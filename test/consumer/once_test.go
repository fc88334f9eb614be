//go:build integration && unix

package consumer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

const (
	accounts   = 200
	partitions = 6
)

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q is no number", variable, text)
	}
	return n
}

// Members are killed, frozen beyond their session, stopped, cut off from the database, and come back, until everything is handled; a tenth of the events are there more
// than once. Each event's effect is there once, those of an account in their order, and what cannot be handled is in the dead-letter topic.
func TestEachEffectIsThereOnceWhateverBecomesOfTheMembers(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]setup{"a transaction for each": {Batch: 1}, "batches, brokers assign": {Batch: 50, NextGen: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			s.URL, s.Brokers = db.URL, brokers
			f := newFlow(t, s, seedOf(t), db.Pool(t), number(t, "OUTBOX_TEST_CONSUMER_EVENTS", 20_000))
			f.run(t)
			f.judge(t)
		})
	}
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(number(t, "OUTBOX_TEST_SEED", int(time.Now().UnixNano()&0xffffff)))
	t.Logf("seed %d", seed)
	return seed
}

// flow is events on their way through a group.
type flow struct {
	setup
	random  *rand.Rand
	pool    *pgxpool.Pool
	client  *kgo.Client
	events  int
	poison  int
	members []*process
	faults  []func(*flow, *testing.T)
	// least is how many faults must happen; each of them happens before one does again. The events are spread over them.
	least    int
	torments atomic.Int64
	// committed is the sum of the group's offsets, moved when it has grown.
	committed int64
	moved     time.Time
}

// newFlow begins the members. The setup has the database and the brokers that they are to use; the pool leads to the same database.
func newFlow(t *testing.T, s setup, seed uint64, pool *pgxpool.Pool, events int) *flow {
	t.Helper()
	if _, err := pool.Exec(t.Context(), effectTable+`;
		CREATE TABLE account (name text PRIMARY KEY, balance int NOT NULL DEFAULT 0)`); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO account (name) SELECT 'account ' || g FROM generate_series(0, $1) g`, accounts-1); err != nil {
		t.Fatal(err)
	}
	s.Group, s.Topic = "payments-"+uuid.NewString()[:8], "test-service.payment."+uuid.NewString()[:8]
	for topic, n := range map[string]int32{s.Topic: partitions, inbox.DeadLetterTopic(s.Topic): 1} {
		if err := devkafka.CreateTopic(t.Context(), s.Brokers, topic, n, nil); err != nil {
			t.Fatal(err)
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f := &flow{setup: s, random: rand.New(rand.NewPCG(seed, 0)), pool: pool, client: client, events: events, members: make([]*process, 3), faults: memberFaults}
	for i := range f.members {
		f.begin(t, i)
	}
	t.Cleanup(func() {
		for _, m := range f.members {
			m.kill()
		}
	})
	return f
}

// begin starts a member. The last one is static: it has its partitions back at once.
func (f *flow) begin(t *testing.T, i int) {
	t.Helper()
	s := f.setup
	if i == len(f.members)-1 {
		s.Instance = "static"
	}
	f.members[i] = begin(t, s, t.Output())
}

// run produces and torments until all is handled.
func (f *flow) run(t *testing.T) {
	t.Helper()
	began := time.Now()
	produced := make(chan error, 1)
	go func(random *rand.Rand) { produced <- f.produce(t.Context(), random) }(rand.New(rand.NewPCG(f.random.Uint64(), 1)))
	order := f.random.Perm(len(f.faults))
	for all := false; !all || !f.settled(t); {
		select {
		case err := <-produced:
			if err != nil {
				t.Fatal(err)
			}
			all, f.moved = true, time.Now()
		case <-time.After(time.Duration(100+f.random.IntN(900)) * time.Millisecond):
		}
		next := f.random.IntN(len(f.faults))
		if n := int(f.torments.Load()); n < len(order) {
			next = order[n]
		}
		f.faults[next](f, t)
		f.torments.Add(1)
		if all && time.Since(f.moved) > await.Limit {
			t.Fatalf("the group has committed nothing for %s, of %d events it has %d", await.Limit, f.events, f.committed)
		}
	}
	took := time.Since(began)
	t.Logf("%d events and %d torments in %s, %.0f events/s", f.events, f.torments.Load(), took.Round(time.Second), float64(f.events)/took.Seconds())
}

// pace waits until as many of the faults have happened as of the events were sent.
func (f *flow) pace(ctx context.Context, sent int) error {
	for int64(sent)*int64(f.least) > f.torments.Load()*int64(f.events) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// produce sends the events of each account in their order, some of them again.
func (f *flow) produce(ctx context.Context, random *rand.Rand) error {
	seqs := make([]int, accounts)
	var sent []*kgo.Record
	for len(sent) < f.events {
		var batch []*kgo.Record
		for range 500 {
			n := random.IntN(accounts)
			account := fmt.Sprintf("account %d", n)
			seqs[n]++
			poison := 0
			if random.IntN(500) == 0 {
				poison = -1
				f.poison++
			}
			batch = append(batch, &kgo.Record{
				Topic: f.Topic, Key: []byte(account), Value: fmt.Appendf(nil, `{"account": %q, "seq": %d, "poison": %d}`, account, seqs[n], poison),
				Headers: []kgo.RecordHeader{{Key: "x-event-id", Value: []byte(uuid.NewString())}, {Key: "x-event-type", Value: []byte(paidType)}},
			})
		}
		sent = append(sent, batch...)
		for range 50 {
			again := *sent[random.IntN(len(sent))]
			batch = append(batch, &kgo.Record{Topic: again.Topic, Key: again.Key, Value: again.Value, Headers: again.Headers})
		}
		if err := f.client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
			return err
		}
		if err := f.pace(ctx, min(len(sent), f.events)); err != nil {
			return err
		}
	}
	f.events = len(sent)
	return nil
}

// memberFaults happen to a member, or to the group's connections to the database.
var memberFaults = []func(*flow, *testing.T){killMember, killMember, stopMember, freezeMember, endSessions}

func killMember(f *flow, t *testing.T) {
	i := f.random.IntN(len(f.members))
	f.members[i].kill()
	f.begin(t, i)
}

func stopMember(f *flow, t *testing.T) {
	i := f.random.IntN(len(f.members))
	f.members[i].signal(t, syscall.SIGTERM)
	<-f.members[i].ended
	f.begin(t, i)
}

// freezeMember has a member say nothing for a while, beyond its session some of the times.
func freezeMember(f *flow, t *testing.T) {
	m := f.members[f.random.IntN(len(f.members))]
	d := time.Duration(100+f.random.IntN(3000)) * time.Millisecond
	if f.random.IntN(4) == 0 {
		d += sessionTimeout
	}
	m.signal(t, syscall.SIGSTOP)
	time.AfterFunc(d, func() { _ = m.Process.Signal(syscall.SIGCONT) }) // it may be gone by then
}

func endSessions(f *flow, t *testing.T) {
	if _, err := f.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
		t.Log(err)
	}
}

// settled tells that the group has committed everything, and notes when it has committed anything.
func (f *flow) settled(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	admin := kadm.NewClient(f.client)
	ends, err := admin.ListEndOffsets(ctx, f.Topic)
	if err != nil || ends.Error() != nil {
		return false
	}
	committed, err := admin.FetchOffsets(ctx, f.Group)
	if err != nil {
		return false
	}
	behind, sum := 0, int64(0)
	ends.Each(func(end kadm.ListedOffset) {
		at, _ := committed.Lookup(end.Topic, end.Partition)
		sum += at.At
		if at.At < end.Offset {
			behind++
		}
	})
	if sum > f.committed {
		f.committed, f.moved = sum, time.Now()
	}
	return behind == 0
}

func (f *flow) judge(t *testing.T) {
	t.Helper()
	count := func(what, query string, want int) {
		t.Helper()
		var n int
		if err := f.pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != want {
			t.Errorf("%s: %d, want %d", what, n, want)
		}
	}
	good := f.events - f.poison
	count("effects", effects, good)
	count("events with an effect", `SELECT count(DISTINCT event_id) FROM effect`, good)
	count("the sum of the balances", `SELECT sum(balance) FROM account`, good)
	count("effects out of their account's order", outOfOrder, 0)
	count("remembered events", `SELECT count(*) FROM outbox.inbox`, good)
	dead := map[string]bool{}
	reader, err := kgo.NewClient(kgo.SeedBrokers(f.Brokers...), kgo.ConsumeTopics(inbox.DeadLetterTopic(f.Topic)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	await.Until(t, "the dead letters are read", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			for _, h := range r.Headers {
				if h.Key == "x-event-id" {
					dead[string(h.Value)] = true
				}
			}
		})
		return len(dead) == f.poison
	})
}
