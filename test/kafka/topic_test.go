//go:build integration

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/relay"
)

// anonymous is who everybody is at a listener without authentication.
const anonymous = "User:ANONYMOUS"

// newAuthorizingFixture has brokers that look at rules. Brokers that were given to the tests may not.
func newAuthorizingFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	if os.Getenv("KAFKA_BROKERS") != "" {
		f.brokers = ownAuthorizer(t)
	}
	return f
}

var authorizer struct {
	sync.Mutex
	brokers []string
	uses    int
	close   func() error
}

// ownAuthorizer is a broker that the tests in need of one share; it ends with the last of them.
func ownAuthorizer(t *testing.T) []string {
	t.Helper()
	authorizer.Lock()
	defer authorizer.Unlock()
	if authorizer.uses == 0 {
		cluster, err := devkafka.Start(t.Context(), devkafka.Options{Config: authorizing})
		if err != nil {
			t.Fatal(err)
		}
		authorizer.brokers, authorizer.close = cluster.Brokers(), cluster.Close
	}
	authorizer.uses++
	t.Cleanup(func() {
		authorizer.Lock()
		defer authorizer.Unlock()
		if authorizer.uses--; authorizer.uses == 0 {
			_ = authorizer.close()
		}
	})
	return authorizer.brokers
}

func denied(topic string) *kadm.ACLBuilder {
	return kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Deny(anonymous).DenyHosts().Operations(kadm.OpWrite)
}

// forbid lets nobody write to the topic.
func (f *fixture) forbid(t *testing.T, topic string) {
	t.Helper()
	results, err := f.admin(t).CreateACLs(t.Context(), denied(topic))
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		t.Fatalf("forbid %s: %v", topic, err)
	}
	f.awaitRules(t, topic, 1)
}

func (f *fixture) allow(t *testing.T, topic string) {
	t.Helper()
	results, err := f.admin(t).DeleteACLs(t.Context(), denied(topic))
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		t.Fatalf("allow %s: %v", topic, err)
	}
	f.awaitRules(t, topic, 0)
}

// awaitRules waits until the broker goes by as many rules for the topic: the controller agrees to them before.
func (f *fixture) awaitRules(t *testing.T, topic string, want int) {
	t.Helper()
	admin := f.admin(t)
	await.Until(t, "the broker knows the rules", func() bool {
		results, err := admin.DescribeACLs(t.Context(), denied(topic))
		n := 0
		for _, r := range results {
			n += len(r.Described)
		}
		return err == nil && n == want
	})
}

// setLimit changes the topic's max.message.bytes.
func (f *fixture) setLimit(t *testing.T, topic, limit string) {
	t.Helper()
	results, err := f.admin(t).AlterTopicConfigs(t.Context(), []kadmAlter{{Op: kadmSet, Name: "max.message.bytes", Value: &limit}}, topic)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		t.Fatalf("set the limit of %s: %v", topic, err)
	}
	f.awaitLimit(t, topic, limit)
}

// deleteTopic returns when the broker does not know the topic any more.
func (f *fixture) deleteTopic(t *testing.T, topic string) {
	t.Helper()
	admin := f.admin(t)
	if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatalf("delete topic %s: %v", topic, err)
	}
	await.Until(t, "the topic is gone", func() bool {
		found, err := admin.ListTopics(t.Context(), topic)
		return err == nil && errors.Is(found[topic].Err, kerr.UnknownTopicOrPartition)
	})
}

func TestAForbiddenTopicStopsOnlyItselfAndGoesOnWithTheGrant(t *testing.T) {
	t.Parallel()
	f := newAuthorizingFixture(t)
	good, forbidden := f.topic(t, name("good"), 3), f.topic(t, name("forbidden"), 3)
	f.forbid(t, forbidden)
	f.insert(t, good, "first", `{}`)
	e := f.start(t, relay.Config{})
	f.awaitPublished(t)
	write := func(from int) {
		for n := from; n < from+200; n++ {
			f.insert(t, []string{good, forbidden}[n%2], fmt.Sprintf("k%d", n%10), fmt.Sprintf(`{"n":%d}`, n))
		}
	}
	write(0)
	held := func() bool {
		why := e.Stats().HeldTopics[forbidden]
		return why != nil && strings.Contains(why.Error(), "TOPIC_AUTHORIZATION_FAILED")
	}
	await.Until(t, "the good topic's events are published, and the other one is held", func() bool { return f.pending(t) == 100 && held() })
	f.allow(t, forbidden)
	f.awaitPublished(t)
	// Taken away while it is in use.
	f.forbid(t, forbidden)
	write(200)
	await.Until(t, "the good topic's events are published, and the other one is held again", func() bool { return f.pending(t) == 100 && held() })
	f.allow(t, forbidden)
	f.awaitPublished(t)
	for _, topic := range []string{good, forbidden} {
		if repeats := f.compareOrder(t, topic); repeats != 0 {
			t.Errorf("%d records of %s came twice", repeats, topic)
		}
	}
	if n := f.count(t, "SELECT count(*) FROM outbox.failure") + f.count(t, "SELECT count(*) FROM outbox.parked_key"); n != 0 {
		t.Errorf("%d attempts or parked keys: no event is to blame for a forbidden topic", n)
	}
}

func TestATopicDeletedAndMadeAgainGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	good, remade := f.topic(t, name("good"), 3), f.topic(t, name("remade"), 3)
	for n := range 100 {
		f.insert(t, remade, fmt.Sprintf("k%d", n%10), `{"old":true}`)
	}
	e := f.start(t, relay.Config{})
	f.awaitPublished(t)
	last := f.count(t, "SELECT max(id) FROM outbox_event")
	f.deleteTopic(t, remade)
	for n := range 200 {
		f.insert(t, []string{good, remade}[n%2], fmt.Sprintf("k%d", n%10), fmt.Sprintf(`{"n":%d}`, n))
	}
	await.Until(t, "only the topic that is gone waits", func() bool { return f.pending(t) == 100 && len(e.Stats().HeldTopics) == 1 })
	f.topic(t, remade, 5)
	f.awaitPublished(t)
	f.compareOrder(t, good)
	f.db.Exec(t, "DELETE FROM outbox_event WHERE topic = $1 AND id <= $2", remade, last)
	if repeats := f.compareOrder(t, remade); repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
	// Deleted and made again before anybody looks: it is another topic under the same name.
	f.deleteTopic(t, remade)
	f.topic(t, remade, 2)
	for n := range 100 {
		f.insert(t, remade, fmt.Sprintf("k%d", n%10), fmt.Sprintf(`{"again":%d}`, n))
	}
	f.awaitPublished(t)
	f.db.Exec(t, "DELETE FROM outbox_event WHERE topic = $1 AND NOT payload ? 'again'", remade)
	if repeats := f.compareOrder(t, remade); repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
	if n := f.count(t, "SELECT count(*) FROM outbox.failure") + f.count(t, "SELECT count(*) FROM outbox.parked_key"); n != 0 {
		t.Errorf("%d attempts or parked keys: no event is to blame for a topic that is gone", n)
	}
}

// A topic is deleted and made again under load. What it held is gone with it; what it holds then is in order.
func TestATopicDeletedUnderLoadKeepsItsOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("pulled"), 3)
	e := f.start(t, relay.Config{})
	stop := f.writing(t, topic)
	gone := 0
	for partitions := range int32(3) {
		before := e.Stats().Published
		await.Until(t, "events flow", func() bool { return e.Stats().Published > before+50 })
		f.deleteTopic(t, topic)
		gone = f.count(t, "SELECT max(id) FROM outbox_event")
		await.Until(t, "a backlog grows", func() bool { return f.pending(t) > 20 })
		f.topic(t, topic, 2+partitions)
	}
	// The last topic has to see something of every key.
	before := e.Stats().Published
	await.Until(t, "events flow again", func() bool { return e.Stats().Published > before+100 })
	stop()
	f.awaitPublished(t)
	keys, repeats := kafkatest.ByKey(f.records(t, topic))
	for key, ids := range kafkatest.InTable(t, f.pool, topic) {
		got := keys[key]
		if last := ids[max(len(ids)-len(got), 0):]; !slices.Equal(got, last) {
			t.Errorf("key %s: the topic holds %d events, and not the last of %d in their order\ngot  %v\nwant %v", key, len(got), len(ids), got, last)
		}
		if least := f.count(t, "SELECT count(*) FROM outbox_event WHERE partition_key = $1 AND id > $2", key, gone); len(got) < least {
			t.Errorf("key %s: the topic holds %d events, want at least the %d that were written when the topic before it was gone", key, len(got), least)
		}
	}
	t.Logf("%d records came twice", repeats)
}

// Events that are too large come one after the other, beside a topic whose events are small: nobody else is held up by the broker's refusals, because there
// are none.
func TestASmallTopicBesideAHealthyOneCostsItNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	small, healthy := f.topic(t, name("small"), 3, "max.message.bytes", "5000"), f.topic(t, name("healthy"), 3)
	e := f.start(t, relay.Config{})
	stop := f.writing(t, healthy)
	const bad = 300
	for n := range bad {
		f.insert(t, small, fmt.Sprint("bad", n), oversized(n))
		f.insert(t, small, fmt.Sprint("good", n%7), fmt.Sprintf(`{"n":%d}`, n))
	}
	f.awaitParked(t, bad)
	written := stop()
	await.Until(t, "the others are published", func() bool { return f.pending(t) == bad })
	if n := len(f.records(t, healthy)); n != written {
		t.Errorf("the healthy topic holds %d records of %d events", n, written)
	}
	inOrder(t, f.records(t, healthy))
	if n := len(f.records(t, small)); n != bad {
		t.Errorf("the small topic holds %d records, want %d", n, bad)
	}
	if errs := e.Stats().Errors; errs[relay.ClassEvent] != bad || errs[relay.ClassOutage]+errs[relay.ClassTopic]+errs[relay.ClassUnknown] != 0 {
		t.Errorf("errors by class: %v, want %d of the events and no others", errs, bad)
	}
	if e.log.Says("kafka rejected records") {
		t.Error("the broker had to refuse a batch: the relay should have known the topic's limit")
	}
	f.logLatency(t, healthy)
}

// The limit is lowered under the relay's feet: the broker refuses whole batches, and which event it was has to be found out. The innocent lose no attempt.
func TestALimitThatIsLoweredUnderLoadBlamesOnlyTheLargeEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lowered, healthy := f.topic(t, name("lowered"), 1), f.topic(t, name("healthy"), 3)
	e := f.start(t, relay.Config{})
	f.insert(t, lowered, "first", `{"n":1}`)
	f.awaitPublished(t)
	stop := f.writing(t, healthy)
	f.setLimit(t, lowered, "5000")
	const bad, good = 20, 200
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	// In one transaction, so that they come to the broker together.
	if _, err := tx.Exec(t.Context(), `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', k, 'order.changed.v1', jsonb_build_object('n', i, 'x', CASE WHEN k LIKE 'bad%' THEN repeat('x', 6000) ELSE '' END), $1, k
FROM generate_series(1, $2::int) i, LATERAL (SELECT CASE WHEN i % ($2::int / $3::int) = 0 THEN 'bad' || i ELSE 'good' || i % 17 END) v(k)`, lowered, bad+good, bad); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.awaitParked(t, bad)
	written := stop()
	await.Until(t, "the others are published", func() bool { return f.pending(t) == bad })
	records := f.records(t, lowered)
	inOrder(t, records)
	if len(records) != 1+good {
		t.Errorf("the topic holds %d records, want %d", len(records), 1+good)
	}
	if n := len(f.records(t, healthy)); n != written {
		t.Errorf("the healthy topic holds %d records of %d events", n, written)
	}
	if n := f.count(t, "SELECT count(*) FROM outbox.failure WHERE attempts <> 1 OR partition_key NOT LIKE 'bad%'"); n != 0 {
		t.Errorf("%d events are blamed wrongly, or more than once", n)
	}
	t.Logf("the broker refused a batch: %t; errors by class: %v", e.log.Says("kafka rejected records"), e.Stats().Errors)
	f.logLatency(t, healthy)
}

// logLatency tells how long the topic's events waited; it is no measure that a busy machine could fail.
func (f *fixture) logLatency(t *testing.T, topic string) {
	t.Helper()
	var median, longest time.Duration
	if err := f.pool.QueryRow(t.Context(), `SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY published_at - created_at), max(published_at - created_at)
FROM outbox_event WHERE topic = $1`, topic).Scan(&median, &longest); err != nil {
		t.Fatal(err)
	}
	t.Logf("events of %s waited for %s in the middle, %s at the longest", topic, median, longest)
}
