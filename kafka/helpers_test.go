package kafka

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/relay"
)

// patience bounds every wait of a test; nothing is expected to take nearly as long.
const patience = await.Limit

// fake starts a cluster of one broker.
func fake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// anyBrokers are those of KAFKA_BROKERS, or a fake's: for tests that a real cluster must pass as well.
func anyBrokers(t testing.TB) []string {
	t.Helper()
	if brokers := anyBrokersGiven(); brokers != nil {
		return brokers
	}
	return fake(t).ListenAddrs()
}

func anyBrokersGiven() []string {
	if given := os.Getenv("KAFKA_BROKERS"); given != "" {
		return strings.Split(given, ",")
	}
	return nil
}

// opened returns an open publisher. Its lease bounds every request: it is as patient as the test.
func opened(t testing.TB, c Config) *Publisher {
	t.Helper()
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 3*patience)
	p := newPublisher(t, c)
	if err := p.Open(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return p
}

func newPublisher(t testing.TB, c Config) *Publisher {
	t.Helper()
	p, err := NewPublisher(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Destroy)
	return p
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func plainClient(t testing.TB, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// makeTopic makes a topic and returns its name. config holds pairs of name and value.
func makeTopic(t testing.TB, brokers []string, partitions int32, config ...string) string {
	t.Helper()
	name := "test-service.order." + uuid.NewString()
	remakeTopic(t, brokers, name, partitions, config...)
	return name
}

func remakeTopic(t testing.TB, brokers []string, name string, partitions int32, config ...string) {
	t.Helper()
	settings := map[string]*string{}
	for i := 0; i < len(config); i += 2 {
		settings[config[i]] = &config[i+1]
	}
	admin := kadm.NewClient(plainClient(t, brokers))
	if _, err := admin.CreateTopic(testContext(t), partitions, -1, settings, name); err != nil {
		t.Fatalf("create topic: %v", err)
	}
	eventually(t, "the brokers to know the topic", func() bool {
		found, err := admin.ListTopics(testContext(t), name)
		return err == nil && found[name].Err == nil && len(found[name].Partitions) == int(partitions)
	})
}

func alterTopic(t testing.TB, brokers []string, topic, name, value string) {
	t.Helper()
	_, err := kadm.NewClient(plainClient(t, brokers)).AlterTopicConfigs(testContext(t),
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err != nil {
		t.Fatalf("alter topic: %v", err)
	}
}

// event makes an event; its payload begins with its id.
func event(id int, topic, key string) *relay.Event {
	return &relay.Event{
		ID: int64(id), EventID: uuid.New(), Type: "order.confirmed.v1", Topic: topic, PartitionKey: key,
		Payload: []byte(`{"id": ` + strconv.Itoa(id) + `}`),
	}
}

// sized makes an event whose record has exactly size bytes as the broker counts them.
func sized(t testing.TB, id int, topic, key string, size int) *relay.Event {
	t.Helper()
	e := event(id, topic, key)
	pad := size - 200
	for range 5 { // a longer payload may have a longer length field
		e.Payload = fmt.Appendf(nil, `{"id":%d,"pad":"%s"}`, id, strings.Repeat("x", max(pad, 0)))
		got := newCall([]*relay.Event{e}, nil).items[0].size + batchOverhead
		if got == size {
			return e
		}
		pad += size - got
	}
	t.Fatalf("no payload makes a record of %d bytes", size)
	return nil
}

// outcomes collects what done is told.
type outcomes struct {
	t testing.TB

	inDone atomic.Bool
	mu     sync.Mutex
	byID   map[int64]error
	more   chan struct{}
}

func newOutcomes(t testing.TB) *outcomes {
	return &outcomes{t: t, byID: map[int64]error{}, more: make(chan struct{}, 1)}
}

func (o *outcomes) done(e *relay.Event, err error) {
	if !o.inDone.CompareAndSwap(false, true) {
		o.t.Error("two calls of done at a time")
	}
	defer o.inDone.Store(false)
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, twice := o.byID[e.ID]; twice {
		o.t.Errorf("event %d is done twice", e.ID)
	}
	o.byID[e.ID] = err
	poke(o.more)
}

func (o *outcomes) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.byID)
}

// wait returns the outcomes when there are n.
func (o *outcomes) wait(n int) map[int64]error {
	o.t.Helper()
	o.await(fmt.Sprintf("%d outcomes", n), func() bool { return o.count() >= n })
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byID
}

func (o *outcomes) await(what string, is func() bool) {
	o.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !is() {
		select {
		case <-o.more:
		case <-deadline.C:
			o.t.Fatalf("no %s within %s; there are %d", what, patience, o.count())
		}
	}
}

// want compares the class and code of every outcome; "" means published.
func (o *outcomes) want(want map[int64]string) {
	o.t.Helper()
	got := map[int64]string{}
	for id, err := range o.wait(len(want)) {
		got[id] = short(err)
	}
	for id := range want {
		if got[id] != want[id] {
			o.t.Errorf("event %d: %q, want %q", id, got[id], want[id])
		}
	}
	if len(got) != len(want) {
		o.t.Errorf("%d outcomes, want %d", len(got), len(want))
	}
}

func short(err error) string {
	if err == nil {
		return ""
	}
	if p, ok := err.(*relay.PublishError); ok {
		return p.Class.String() + " " + p.Code
	}
	return "unclassified " + err.Error()
}

// consumed reads the records of a topic, as many as its partitions hold now.
func consumed(t testing.TB, brokers []string, topic string) []*kgo.Record {
	t.Helper()
	ctx := testContext(t)
	ends, err := kadm.NewClient(plainClient(t, brokers)).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	cl := plainClient(t, brokers, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var records []*kgo.Record
	for int64(len(records)) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("read %s: %v after %d of %d records", topic, err, len(records), n)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// idsByKey returns the ids in the payloads, in the order of the log, for each key.
func idsByKey(t testing.TB, records []*kgo.Record) map[string][]int {
	t.Helper()
	byKey := map[string][]int{}
	for _, r := range records {
		byKey[string(r.Key)] = append(byKey[string(r.Key)], idOf(t, r))
	}
	return byKey
}

func idOf(t testing.TB, r *kgo.Record) int {
	t.Helper()
	var id int
	if _, err := fmt.Sscanf(string(r.Value), `{"id":%d`, &id); err != nil {
		t.Fatalf("record's value begins with %.20q", r.Value)
	}
	return id
}
