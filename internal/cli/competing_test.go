package cli

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestTheModesRefuseEachOtherWhileARelayLives(t *testing.T) {
	t.Parallel()
	for mode, refusal := range map[string]struct{ other, says, status string }{
		"competing": {"leased", "stop all relays with --mode competing first", "competes for rows"},
		"leased":    {"competing", "stop all relays with --mode leased first", "8 lanes"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			env := []string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + newCluster(t, "shop.order").ListenAddrs()[0]}
			run := func(ctx context.Context, args ...string) (code int, printed string) {
				var out bytes.Buffer
				code = Run(ctx, args, strings.NewReader(""), &out, &out, env)
				return code, out.String()
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan int, 1)
			go func() {
				code, _ := run(ctx, "relay", "--mode", mode)
				ended <- code
			}()
			await.Until(t, "the status tells of the relay", func() bool {
				_, printed := run(t.Context(), "status")
				return strings.Contains(printed, refusal.status)
			})
			// On a busy machine the time may be over before the table is looked at.
			await.Until(t, "mode "+refusal.other+" beside it is refused", func() bool {
				code, printed := run(t.Context(), "relay", "--once", "--mode", refusal.other, "--start-timeout", "3s")
				if code != exitFailed {
					t.Errorf("mode %s beside it ended with %d: %s", refusal.other, code, printed)
				}
				return strings.Contains(printed, refusal.says)
			})
			stop()
			if code := <-ended; code != exitOK {
				t.Errorf("the relay ended with %d", code)
			}
			if code, printed := run(t.Context(), "relay", "--once", "--mode", refusal.other); code != exitOK {
				t.Errorf("mode %s after it ended with %d: %s", refusal.other, code, printed)
			}
		})
	}
}

// An alarm on a metric leads to commands: they must show what it counts, or say where it is shown.
func TestMetricsAndCommandsAgreeOnWhatACompetingRelayHolds(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	cluster := newCluster(t, "shop.order")
	fleet := fleetOf(t, config.Source{DatabaseURL: db.URL, Brokers: cluster.ListenAddrs(), Mode: modeCompeting})
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 'shop.missing', '1'),
       (gen_random_uuid(), 'Order', '2', 'order.placed.v1', jsonb_build_object('x', repeat('x', 2000000)), 'shop.order', '2')`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- fleet.Run(ctx) }()
	defer func() { cancel(); <-done }()
	server := httptest.NewServer(served{relays: fleet}.handler())
	defer server.Close()
	run := func(args ...string) (code int, printed string) {
		var out bytes.Buffer
		code = Run(t.Context(), args, strings.NewReader(""), &out, &out, []string{"DATABASE_URL=" + db.URL})
		return code, out.String()
	}

	const of = `{source="public.outbox_event"} `
	await.Until(t, "the metrics count the topic and the key, and no parked key", func() bool {
		_, body := get(t, server.URL+"/metrics")
		return strings.Contains(body, "\noutbox_held_topics"+of+"1\n") && strings.Contains(body, "\noutbox_held_keys"+of+"1\n") &&
			strings.Contains(body, "\noutbox_parked_keys"+of+"0\n")
	})
	await.Until(t, "the status shows the topic and where the key is told of", func() bool {
		_, printed := run("status")
		return strings.Contains(printed, "UNKNOWN_TOPIC_OR_PARTITION") && strings.Contains(printed, "outbox_held_keys")
	})
	if code, printed := run("keys", "list"); code != exitOK || !strings.Contains(printed, "no key is parked, paused, or waits for an attempt\n") || !strings.Contains(printed, "outbox_held_keys") {
		t.Errorf("keys list ended with %d: %s", code, printed)
	}
	for _, args := range [][]string{
		{"keys", "unpark", "--topic", "shop.order", "--key", "2"},
		{"keys", "skip", "--topic", "shop.order", "--key", "2", "--reason", "test"},
	} {
		if code, printed := run(args...); code != exitFailed || !strings.Contains(printed, "mend the event, it is tried again by itself") {
			t.Errorf("%v ended with %d: %s", args, code, printed)
		}
	}
}

func TestSettingsOfTheOtherModeAreWarnedOf(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	run := func(args ...string) (code int, said string) {
		var out bytes.Buffer
		env := []string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + newCluster(t, "shop.order").ListenAddrs()[0], "OUTBOX_SWEEP_INTERVAL=1m"}
		code = Run(t.Context(), append([]string{"relay", "--once"}, args...), strings.NewReader(""), &out, &out, env)
		return code, out.String()
	}
	const warning = "have no effect in mode competing"
	code, said := run("--mode", modeCompeting, "--max-in-flight", "100")
	if code != exitOK || strings.Count(said, warning) != 1 || !strings.Contains(said, "--max-in-flight, OUTBOX_SWEEP_INTERVAL") {
		t.Errorf("ended with %d, want one warning that names both settings: %s", code, said)
	}
	if code, said := run("--max-in-flight", "100"); code != exitOK || strings.Contains(said, warning) {
		t.Errorf("mode leased ended with %d: %s", code, said)
	}
}
