package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/inbox"
)

// desk handles records as its function says, and remembers them.
type desk struct {
	handle func(*inbox.Record) error

	mu    sync.Mutex
	seen  map[string][]int64 // offsets handled, by partition and key
	count int
	fails map[inbox.Place]int
}

func (d *desk) Consumer() string { return "desk" }

func (d *desk) Handle(_ context.Context, records []*inbox.Record) []inbox.Outcome {
	out := make([]inbox.Outcome, len(records))
	for i, r := range records {
		if d.handle != nil {
			if out[i].Err = d.handle(r); out[i].Err != nil {
				continue
			}
		}
		d.mu.Lock()
		if d.seen == nil {
			d.seen = map[string][]int64{}
		}
		key := fmt.Sprintf("%s/%d/%s", r.Topic, r.Partition, r.Key)
		d.seen[key] = append(d.seen[key], r.Offset)
		d.count++
		d.mu.Unlock()
	}
	return out
}

func (d *desk) Failed(_ context.Context, r *inbox.Record, _ error) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails == nil {
		d.fails = map[inbox.Place]int{}
	}
	d.fails[r.Place()]++
	return d.fails[r.Place()], nil
}

func (d *desk) Settled(context.Context, *inbox.Record) error { return nil }

func (d *desk) handled() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

// different is how many records were handled, each counted once.
func (d *desk) different() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, offsets := range d.seen {
		n += len(firstTimes(offsets))
	}
	return n
}

// firstTimes leaves out what is there a second time.
func firstTimes(offsets []int64) (first []int64) {
	seen := map[int64]bool{}
	for _, o := range offsets {
		if !seen[o] {
			seen[o] = true
			first = append(first, o)
		}
	}
	return first
}

// consume runs a consumer until the function is called or the test ends.
func consume(t *testing.T, d inbox.Handling, cfg ConsumerConfig) (c *Consumer, stop func()) {
	t.Helper()
	c, err := NewConsumer(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	t.Cleanup(stop)
	return c, stop
}

// produce writes n records over keys, with numbers from first on.
func produce(t *testing.T, brokers []string, topic string, first, n, keys int) {
	t.Helper()
	client := plainClient(t, brokers)
	var records []*kgo.Record
	for i := first; i < first+n; i++ {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i%keys), Value: fmt.Append(nil, i)})
	}
	if err := client.ProduceSync(testContext(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func committed(t *testing.T, brokers []string, group string) (n int64) {
	t.Helper()
	offsets, err := kadm.NewClient(plainClient(t, brokers)).FetchOffsets(testContext(t), group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return 0 // no member has come yet
	}
	if err != nil {
		t.Fatal(err)
	}
	offsets.Each(func(o kadm.OffsetResponse) { n += o.At })
	return n
}

const orders = "shop.order"

func TestAConsumerGoesOnWhereItHasCommitted(t *testing.T) {
	t.Parallel()
	for name, nextGen := range map[string]bool{"members assign": false, "brokers assign": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokers := fake(t, kfake.SeedTopics(4, orders)).ListenAddrs()
			cfg := ConsumerConfig{Config: Config{Brokers: brokers}, Topics: []string{orders}, NextGen: nextGen}
			produce(t, brokers, orders, 0, 300, 20)
			d := &desk{}
			for round := 1; round <= 2; round++ {
				_, stop := consume(t, d, cfg)
				eventually(t, "all records to be handled", func() bool { return d.handled() == 300*round })
				stop()
				if n := committed(t, brokers, "desk"); n != int64(300*round) {
					t.Errorf("round %d: committed %d records, want %d", round, n, 300*round)
				}
				produce(t, brokers, orders, 300*round, 300, 20)
			}
			for key, offsets := range d.seen {
				if !slices.IsSorted(offsets) {
					t.Errorf("%s was handled in the order %v", key, offsets)
				}
			}
		})
	}
}

// What a member could not commit any more comes again, and is a repeat to the inbox; the first time of each record keeps the key's order.
func TestMembersComeAndGoAndNothingIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, nextGen := range map[string]bool{"members assign": false, "brokers assign": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokers := fake(t, kfake.SeedTopics(6, orders)).ListenAddrs()
			cfg := ConsumerConfig{Config: Config{Brokers: brokers}, Topics: []string{orders}, NextGen: nextGen}
			d := &desk{}
			_, stop := consume(t, d, cfg)
			for round := range 3 {
				produce(t, brokers, orders, 1000*round, 1000, 50)
				eventually(t, "some to be handled", func() bool { return d.handled() > 1000*round+100 })
				_, next := consume(t, d, cfg)
				produce(t, brokers, orders, 0, 1000, 50)
				stop()
				stop = next
				eventually(t, "all to be handled", func() bool { return d.different() == 2000*(round+1) })
			}
			// What the member before could not commit may come again only now.
			eventually(t, "all to be committed", func() bool { return committed(t, brokers, "desk") == 6000 })
			stop()
			if n := committed(t, brokers, "desk"); n != 6000 {
				t.Errorf("committed %d, want 6000", n)
			}
			for key, offsets := range d.seen {
				if first := firstTimes(offsets); !slices.IsSorted(first) {
					t.Errorf("%s was handled in the order %v", key, first)
				}
			}
		})
	}
}

func TestAKeyThatIsStuckPausesItsPartitionAtTheLimit(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.SeedTopics(1, orders)).ListenAddrs()
	var mu sync.Mutex
	stuck := true
	d := &desk{handle: func(r *inbox.Record) error {
		mu.Lock()
		defer mu.Unlock()
		if stuck && string(r.Key) == "0" {
			return errors.New("no such account")
		}
		return nil
	}}
	produce(t, brokers, orders, 0, 3000, 100)
	c, _ := consume(t, d, ConsumerConfig{Config: Config{Brokers: brokers}, Topics: []string{orders}, Run: inbox.RunnerConfig{
		MaxUncommitted: 600, Retry: inbox.Retry{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond},
	}})
	eventually(t, "the partition to be full", func() bool { return c.Stats().InFlight >= 600 && c.Stats().Failures > 20 })
	if n := d.handled(); n > 600+pollRecords {
		t.Errorf("%d records were handled behind one that is stuck", n)
	}
	mu.Lock()
	stuck = false
	mu.Unlock()
	eventually(t, "all to be handled", func() bool { return d.handled() == 3000 })
}

func TestWhatFailsGoesThroughRetryTopicsThatAreMade(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.SeedTopics(2, orders)).ListenAddrs()
	d := &desk{handle: func(r *inbox.Record) error {
		if string(r.Value) == "7" {
			return errors.New("no such account")
		}
		return nil
	}}
	produce(t, brokers, orders, 0, 20, 4)
	c, stop := consume(t, d, ConsumerConfig{
		Config: Config{Brokers: brokers, CreateTopics: &TopicSpec{Partitions: 1, Replication: 1}}, Topics: []string{orders},
		Run: inbox.RunnerConfig{Retry: inbox.Retry{
			Attempts: 2, Backoff: time.Millisecond, Topics: []time.Duration{50 * time.Millisecond, 100 * time.Millisecond}, GiveUp: inbox.DeadLetter,
		}},
	})
	eventually(t, "the record to be given up", func() bool { return c.Stats().DeadLettered == 1 && d.handled() == 19 })
	stop()
	reader := plainClient(t, brokers, kgo.ConsumeTopics(orders+"-dlt"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := received(reader.PollRecords(testContext(t), 1).Records())
	if len(got) != 1 || string(got[0].Value) != "7" || string(got[0].Key) != "3" {
		t.Fatalf("the dead-letter topic has %v", got)
	}
	if l := inbox.ReadLetter(got[0]); l.Topic != orders || l.Attempts != 4 || l.Error != "no such account" || l.Consumer != "desk" {
		t.Errorf("the letter says %+v", l)
	}
	if n := committed(t, brokers, "desk"); n != 22 {
		t.Errorf("committed %d records, want 20 and one in each retry topic", n)
	}
}

func TestTopicsThatAreMissingAreNamedAtTheStart(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.SeedTopics(2, orders)).ListenAddrs()
	c, err := NewConsumer(&desk{}, ConsumerConfig{Config: Config{Brokers: brokers}, Topics: []string{orders, "shop.gone"}, Run: inbox.RunnerConfig{
		Retry: inbox.Retry{Topics: []time.Duration{time.Second}, GiveUp: inbox.DeadLetter},
	}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Run(testContext(t))
	for _, want := range []string{"shop.gone", "shop.order-retry-1000", "shop.order-dlt", "shop.gone-retry-1000", "shop.gone-dlt"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	for _, want := range []string{"topic shop.gone is not there: create it, or correct the name", "CreateTopics"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if text := err.Error(); strings.Contains(text, "published") || strings.Count(text, "check topics") != 1 {
		t.Errorf("%v speaks of publishing, or says twice what it is about", err)
	}
}

func TestATopicIsReadWithoutTheRightToWriteToIt(t *testing.T) {
	t.Parallel()
	name := orders
	for want, operations := range map[string]int32{"": 1 << kmsg.ACLOperationRead, "grant the consumer's user READ": 1 << kmsg.ACLOperationDescribe} {
		topic := &kmsg.MetadataResponseTopic{Topic: &name, Partitions: make([]kmsg.MetadataResponseTopicPartition, 1), AuthorizedOperations: operations}
		if err := readError(topic); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestAConsumerIsRunOnce(t *testing.T) {
	t.Parallel()
	c, err := NewConsumer(&desk{}, ConsumerConfig{Config: Config{Brokers: []string{"127.0.0.1:1"}}, Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Run(ended); err != nil {
		t.Errorf("the first run: %v", err)
	}
	if err := c.Run(ended); err == nil || !strings.Contains(err.Error(), "make another one") {
		t.Errorf("the second run: %v", err)
	}
}

func TestAConsumersConfigurationIsCheckedAsAWhole(t *testing.T) {
	t.Parallel()
	_, err := NewConsumer(&desk{}, ConsumerConfig{
		Config: Config{Brokers: []string{"nowhere"}},
		Topics: []string{"a b", "a-dlt", "a", "a"},
		Run:    inbox.RunnerConfig{Workers: -1, Retry: inbox.Retry{GiveUp: inbox.DeadLetter, Topics: []time.Duration{time.Second, time.Millisecond}}},
	})
	for _, want := range []string{`"nowhere"`, `"a b"`, `"a" is named twice`, `"a-dlt" is a retry topic`, "Workers -1", "longer than the one before"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}
