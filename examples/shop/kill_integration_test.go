//go:build integration && unix

package main

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/devkafka"
)

// number is a setting of the test; OUTBOX_TEST_SEED is the seed of the kills, OUTBOX_TEST_SHOP_ORDERS how many orders are placed.
func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s=%q is no number", variable, text)
	}
	return n
}

// The services and their relays are killed while orders flow, on a real Kafka. Every order is paid once and shipped once, or declined, and no money is lost.
func TestKillingTheShopsProcessesCostsNobodyMoney(t *testing.T) {
	t.Parallel()
	seed := number(t, "OUTBOX_TEST_SEED", uint64(time.Now().UnixNano()&0xffffff))
	t.Logf("seed %d", seed)
	o := options{Orders: int(number(t, "OUTBOX_TEST_SHOP_ORDERS", 4000)), Rate: 100, Kill: 600 * time.Millisecond, Seed: seed, Brokers: realKafka(t)}
	r := open(t, o)
	if !r.sound() {
		t.Errorf("seed %d: %+v", seed, r)
	}
	if r.Orders != o.Orders || r.Paid < o.Orders/2 || r.Declined == 0 {
		t.Errorf("%d orders, %d paid, %d declined: want %d, most of them paid, some declined", r.Orders, r.Paid, r.Declined, o.Orders)
	}
	for _, name := range processNames() {
		if r.Kills[name] == 0 {
			t.Errorf("%s was never killed", name)
		}
	}
}

// realKafka returns the brokers at KAFKA_BROKERS, or starts one.
func realKafka(t *testing.T) []string {
	t.Helper()
	if given := os.Getenv("KAFKA_BROKERS"); given != "" {
		return strings.Split(given, ",")
	}
	cluster, err := devkafka.Start(context.WithoutCancel(t.Context()), devkafka.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	return cluster.Brokers()
}
