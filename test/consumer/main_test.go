//go:build integration && unix

package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/cli"
	"github.com/outbox-relay/outbox/internal/devkafka"
)

// brokers is set once, before the first test.
var brokers []string

// commandVariable makes this program the command outbox.
const commandVariable = "TEST_OF_COMMAND"

// TestMain is a member of a consumer group, or the command, when the environment says so: the tests start this program again, to kill it.
func TestMain(m *testing.M) {
	if os.Getenv(commandVariable) != "" {
		os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
	}
	if os.Getenv(memberVariable) != "" {
		os.Exit(member())
	}
	os.Exit(run(m))
}

// shortSessions has brokers that assign partitions take those of a killed member away as soon as the members that assign them do.
var shortSessions = map[string]string{
	"group.consumer.min.session.timeout.ms": "1000", "group.consumer.session.timeout.ms": "6000",
	"group.consumer.min.heartbeat.interval.ms": "500", "group.consumer.heartbeat.interval.ms": "1000",
}

func run(m *testing.M) int {
	if given := os.Getenv("KAFKA_BROKERS"); given != "" {
		brokers = strings.Split(given, ",")
		return m.Run()
	}
	cluster, err := devkafka.Start(context.Background(), devkafka.Options{Log: slog.Default(), Config: shortSessions})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer cluster.Close()
	brokers = cluster.Brokers()
	return m.Run()
}
