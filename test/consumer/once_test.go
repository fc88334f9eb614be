//go:build integration && unix

package consumer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
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

// Members are killed, frozen beyond their session, stopped, cut off from the database, and come back, while events flow, a tenth of them more than once. Each event's
// effect is there once, those of an account in their order, and what cannot be handled is in the dead-letter topic.
func TestEachEffectIsThereOnceWhateverBecomesOfTheMembers(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]setup{"a transaction for each": {Batch: 1}, "batches, brokers assign": {Batch: 50, NextGen: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(number(t, "OUTBOX_TEST_SEED", int(time.Now().UnixNano()&0xffffff)))
			t.Logf("seed %d", seed)
			f := newFlow(t, s, rand.New(rand.NewPCG(seed, 0)), number(t, "OUTBOX_TEST_CONSUMER_EVENTS", 20_000))
			f.run(t)
			f.judge(t)
		})
	}
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
}

func newFlow(t *testing.T, s setup, random *rand.Rand, events int) *flow {
	t.Helper()
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE effect (n bigserial, event_id text NOT NULL, account text NOT NULL, seq int NOT NULL);
		CREATE TABLE account (name text PRIMARY KEY, balance int NOT NULL DEFAULT 0)`)
	db.Exec(t, `INSERT INTO account (name) SELECT 'account ' || g FROM generate_series(0, $1) g`, accounts-1)
	s.URL, s.Brokers, s.Group, s.Topic = db.URL, brokers, "payments-"+uuid.NewString()[:8], "test-service.payment."+uuid.NewString()[:8]
	for topic, n := range map[string]int32{s.Topic: partitions, inbox.DeadLetterTopic(s.Topic): 1} {
		if err := devkafka.CreateTopic(t.Context(), brokers, topic, n, nil); err != nil {
			t.Fatal(err)
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f := &flow{setup: s, random: random, pool: db.Pool(t), client: client, events: events}
	for range 3 {
		f.members = append(f.members, begin(t, s, t.Output()))
	}
	t.Cleanup(func() {
		for _, m := range f.members {
			m.kill()
		}
	})
	return f
}

// run produces and torments until all is handled.
func (f *flow) run(t *testing.T) {
	t.Helper()
	produced := make(chan error, 1)
	go func(random *rand.Rand) { produced <- f.produce(t.Context(), random) }(rand.New(rand.NewPCG(f.random.Uint64(), 1)))
	for {
		select {
		case err := <-produced:
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				f.torment(t)
			}
			f.settle(t)
			return
		case <-time.After(time.Duration(100+f.random.IntN(900)) * time.Millisecond):
			f.torment(t)
		}
	}
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
	}
	f.events = len(sent)
	return nil
}

// torment does something to a member, or to the group's connections.
func (f *flow) torment(t *testing.T) {
	t.Helper()
	i := f.random.IntN(len(f.members))
	switch f.random.IntN(5) {
	case 0, 1:
		f.members[i].kill()
		f.members[i] = begin(t, f.setup, t.Output())
	case 2:
		f.members[i].signal(t, syscall.SIGTERM)
		<-f.members[i].ended
		f.members[i] = begin(t, f.setup, t.Output())
	case 3:
		m := f.members[i]
		m.signal(t, syscall.SIGSTOP)
		time.AfterFunc(time.Duration(100+f.random.IntN(3000))*time.Millisecond, func() { _ = m.Process.Signal(syscall.SIGCONT) })
	case 4:
		if _, err := f.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
			t.Fatal(err)
		}
	}
}

// settle waits until the group has committed everything.
func (f *flow) settle(t *testing.T) {
	t.Helper()
	admin := kadm.NewClient(f.client)
	await.Until(t, "the group has committed everything", func() bool {
		ends, err := admin.ListEndOffsets(t.Context(), f.Topic)
		if err != nil {
			return false
		}
		committed, err := admin.FetchOffsets(t.Context(), f.Group)
		if err != nil {
			return false
		}
		behind := 0
		ends.Each(func(end kadm.ListedOffset) {
			if at, _ := committed.Lookup(end.Topic, end.Partition); at.At < end.Offset {
				behind++
			}
		})
		return behind == 0
	})
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
	count("effects", `SELECT count(*) FROM effect`, good)
	count("events with an effect", `SELECT count(DISTINCT event_id) FROM effect`, good)
	count("the sum of the balances", `SELECT sum(balance) FROM account`, good)
	count("effects out of their account's order", `SELECT count(*) FROM (SELECT seq, lag(seq) OVER (PARTITION BY account ORDER BY n) AS before FROM effect) e WHERE seq <= before`, 0)
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
