//go:build integration && unix

package upgrade_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/devkafka"
)

// brokers, and today, the program of this checkout, are set once, before the first test.
var (
	brokers []string
	today   program
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "outbox-bin-")
	if err == nil {
		defer os.RemoveAll(folder)
		today, err = build(top, folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if given := os.Getenv("KAFKA_BROKERS"); given != "" {
		brokers = strings.Split(given, ",")
		return m.Run()
	}
	cluster, err := devkafka.Start(context.Background(), devkafka.Options{Log: slog.Default()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer cluster.Close()
	brokers = cluster.Brokers()
	return m.Run()
}
