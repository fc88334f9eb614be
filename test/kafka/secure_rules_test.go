//go:build integration

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/relay"
)

// accessOf is how a relay of this process reaches the brokers by a user.
func (f *secureFixture) accessOf(user string) kafka.Config {
	return kafka.Config{Brokers: f.cluster.SASL(), TLSCAFile: filepath.Join(f.dir, "ca.pem"), SASL: &kafka.SASL{Mechanism: kafka.MechanismSCRAMSHA512, Username: user, Password: password}}
}

// The user may write to one topic, and later to another one too: what waits for that goes out without a restart, and the first one never stops.
func TestATopicWithoutARuleGoesOnWhenTheRuleIsMadeWhileTheRelayRuns(t *testing.T) {
	t.Parallel()
	f := newSecureFixture(t)
	f.access = f.accessOf("denied")
	open, closed := f.topic(t, name("open"), 3), f.topic(t, name("closed"), 3)
	f.allowed(t, "User:denied", kafka.RelayACLs([]string{open}, false)...)
	f.insert(t, open, "first", `{}`)
	e := f.start(t, relay.Config{})
	f.awaitPublished(t)
	write := func(n int) {
		f.insert(t, []string{open, closed}[n%2], fmt.Sprintf("k%d", n%10), fmt.Sprintf(`{"n":%d}`, n))
	}
	for n := range 100 {
		write(n)
	}
	await.Until(t, "the open topic's events are published, and the other one is held", func() bool {
		why := e.Stats().HeldTopics[closed]
		return f.pending(t) == 50 && why != nil && strings.Contains(why.Error(), "grant the relay's user WRITE")
	})
	f.allowed(t, "User:denied", kafka.RelayACLs([]string{closed}, false)...)
	for n := range 100 {
		write(100 + n)
	}
	f.awaitPublished(t)
	for _, topic := range []string{open, closed} {
		if repeats := f.compareOrder(t, topic); repeats != 0 {
			t.Errorf("%d records of %s came twice", repeats, topic)
		}
	}
	if n := f.count(t, "SELECT count(*) FROM outbox.failure"); n != 0 {
		t.Errorf("%d attempts: no event is to blame", n)
	}
}

// The relay makes its topics and its dead-letter topics. With the rules that are printed everything works, and with each operation less something does not.
func TestTheRulesOfTheRelaySufficeAndNoneIsTooMany(t *testing.T) {
	t.Parallel()
	f := newSecureFixture(t)
	for _, left := range []string{"", "Write", "Create", "DescribeConfigs"} {
		f := newSecureFixtureOn(t, f.cluster, f.authority)
		topic := name("rules")
		dead := "dead-" + topic
		policy := []string{"relay", "--once", "--create-topics", "--on-failure", "dead-letter topic=dead-{topic}"}
		rules := kafka.RelayACLs([]string{topic, dead}, true)
		for i := range rules {
			rules[i].Operations = without(rules[i].Operations, left)
		}
		f.insert(t, topic, "k", `{"n":1}`)
		bad := f.insert(t, topic, "bad", `{}`)
		f.db.Exec(t, "ALTER TABLE outbox_event ADD COLUMN headers jsonb")
		f.db.Exec(t, "UPDATE outbox_event SET headers = '[1]' WHERE event_id = $1", bad)
		f.allowed(t, "User:exact", rules...)
		stdout, stderr, code := f.run(t, f.sasl("SCRAM-SHA-512", "exact", password), policy...)
		if well := code == 0 && !strings.Contains(stderr, "DESCRIBE_CONFIGS"); well != (left == "") {
			t.Errorf("without %q it ended with %d\n%s%s", left, code, stdout, stderr)
		}
		if left == "" && (len(f.records(t, topic)) != 1 || len(f.records(t, dead)) != 1) {
			t.Errorf("not a record and a letter\n%s%s", stdout, stderr)
		}
		f.withdrawn(t, "User:exact", rules...)
	}
}

func without(list []string, one string) (rest []string) {
	for _, s := range list {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}

// A record fails, is tried again by way of a retry topic, and becomes a dead letter, which an operator sends back and deletes: by the rules that are printed alone.
func TestTheRulesOfTheConsumerAndOfTheOperatorSuffice(t *testing.T) {
	t.Parallel()
	f := newSecureFixture(t)
	topic := f.topic(t, name("consumed"), 1)
	dead, group := topic+"-dlt", name("group")
	c := f.consumer(t, topic, group)
	f.allowed(t, "User:exact", append(c.ACLs(), kafka.RelayACLs([]string{topic}, false)...)...)
	f.insert(t, topic, "k", `{"n":1}`)
	if stdout, stderr, code := f.run(t, f.sasl("SCRAM-SHA-512", "exact", password), "relay", "--once"); code != 0 {
		t.Fatalf("relay ended with %d\n%s%s", code, stdout, stderr)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	await.Until(t, "the record is a dead letter", func() bool { return c.Stats().DeadLettered > 0 })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the consumer ended with %v", err)
	}

	f.allowed(t, "User:operator", kafka.LetterACLs([]string{dead}, []string{topic})...)
	operator := f.sasl("SCRAM-SHA-512", "operator", password)
	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"dlt", "list", topic}, dead + "/0/0"},
		{[]string{"dlt", "show", dead + "/0/0"}, "not today"},
		{[]string{"dlt", "redrive", topic, "--all", "--yes"}, "redrive: 1 of 1 done"},
		{[]string{"dlt", "purge", topic, "--all", "--yes"}, "deleted"},
		{[]string{"dlt", "list", topic}, "no letter matches"},
	} {
		if stdout, stderr, code := f.run(t, operator, step.args...); code != 0 || !strings.Contains(stdout, step.says) {
			t.Errorf("outbox %s ended with %d and does not say %q\n%s%s", strings.Join(step.args, " "), code, step.says, stdout, stderr)
		}
	}
	if n := len(f.records(t, topic)); n != 2 {
		t.Errorf("%d records in the topic, want the first and the one that was sent back", n)
	}
}

// consumer is one whose handler always fails.
func (f *secureFixture) consumer(t *testing.T, topic, group string) *kafka.Consumer {
	t.Helper()
	handlers := inbox.NewHandlers[pgx.Tx]()
	inbox.On(handlers, "order.changed.v1", func(context.Context, pgx.Tx, inbox.Event[map[string]any]) error { return errors.New("not today") })
	p, err := inbox.NewProcessor(group, inbox.Pool(f.pool), handlers, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := f.accessOf("exact")
	cfg.CreateTopics, cfg.Logger = &kafka.TopicSpec{Partitions: 1}, slog.New(slog.NewTextHandler(t.Output(), nil))
	c, err := kafka.NewConsumer(p, kafka.ConsumerConfig{Config: cfg, Topics: []string{topic}, Run: inbox.RunnerConfig{
		Retry: inbox.Retry{Attempts: 1, Topics: []time.Duration{10 * time.Millisecond}, GiveUp: inbox.DeadLetter},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
