//go:build integration

package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devkafka"
)

// brokers is set once, before the first test.
var brokers []string

// authorizing lets everybody do everything that no rule denies: the tests deny.
var authorizing = map[string]string{
	"authorizer.class.name":          "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
	"allow.everyone.if.no.acl.found": "true",
	"super.users":                    "User:nobody",
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if given := os.Getenv("KAFKA_BROKERS"); given != "" {
		brokers = strings.Split(given, ",")
		return m.Run()
	}
	cluster, err := devkafka.Start(context.Background(), devkafka.Options{Log: slog.Default(), Config: authorizing})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer cluster.Close()
	brokers = cluster.Brokers()
	return m.Run()
}

// topic makes a topic of one partition with a name of its own, and removes it after the test. config holds pairs of name and value.
func topic(t *testing.T, config ...string) string {
	t.Helper()
	settings := map[string]string{}
	for i := 0; i < len(config); i += 2 {
		settings[config[i]] = config[i+1]
	}
	name := "test-service.fact." + uuid.NewString()
	if err := devkafka.CreateTopic(t.Context(), brokers, name, 1, settings); err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(client(t))
	t.Cleanup(func() { _, _ = admin.DeleteTopic(context.Background(), name) })
	return name
}

func client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(100 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// produceTogether sends the records in one batch and returns what became of each.
func produceTogether(t *testing.T, cl *kgo.Client, records ...*kgo.Record) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	errs := make([]error, len(records))
	for i, r := range records {
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) { errs[i] = err })
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatalf("flush: %v", err)
	}
	return errs
}

// read returns the first n records of the topic.
func read(t *testing.T, topic string, n int) []*kgo.Record {
	t.Helper()
	cl := client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}
