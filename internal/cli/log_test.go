package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestTheLogHasTheFormAndTheLevelThatAreAskedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg   config.Config
		form  string
		least slog.Level
	}{
		"by default": {config.Config{LogFormat: "auto"}, "json", slog.LevelInfo},
		"text":       {config.Config{LogFormat: "text"}, "text", slog.LevelInfo},
		"json, warn": {config.Config{LogFormat: "json", LogLevel: "warn"}, "json", slog.LevelWarn},
		"once":       {config.Config{Once: true}, "json", slog.LevelWarn},
		"once, info": {config.Config{Once: true, LogLevel: "info"}, "json", slog.LevelInfo},
		"verbose":    {config.Config{Once: true, Verbose: true}, "json", slog.LevelDebug},
		"level wins": {config.Config{Verbose: true, LogLevel: "error"}, "json", slog.LevelError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			// Beside an object of JSON the log is text, unless it is to be JSON.
			log := (&app{stderr: &out, asJSON: c.cfg.LogFormat == "json"}).relayLogger(&out, &c.cfg)
			if !log.Enabled(t.Context(), c.least) || log.Enabled(t.Context(), c.least-1) {
				t.Errorf("the least level is not %s", c.least)
			}
			log.Error("topic held", "topic", "shop.order")
			if isJSON := json.Valid(out.Bytes()); isJSON != (c.form == "json") || !strings.Contains(out.String(), "topic held") {
				t.Errorf("want %s: %s", c.form, out.String())
			}
		})
	}
}

// What must be in no log. Each is a word of its own.
const (
	plantedURL     = "plantedurl1"
	plantedFile    = "plantedfile2"
	plantedSASL    = "plantedsasl3"
	plantedPayload = "plantedpayload4"
	plantedKey     = "plantedkey5"
	plantedHeader  = "plantedheader6"
)

func plant(t *testing.T, db *pgtest.DB) {
	t.Helper()
	for _, row := range []struct{ topic, headers string }{{"shop.order", `{"a": "` + plantedHeader + `"}`}, {"shop.bad", `["` + plantedHeader + `"]`}, {"shop.missing", `{}`}} {
		db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, headers)
VALUES (gen_random_uuid(), 'Order', $1, 'order.placed.v1', jsonb_build_object('card', $2::text), $3, $1, $4::jsonb)`, plantedKey, plantedPayload, row.topic, row.headers)
	}
}

// logOf runs a relay on planted events until it has said all that it should.
func logOf(t *testing.T, args ...string) string {
	t.Helper()
	db := pgtest.New(t)
	db.Exec(t, `ALTER TABLE outbox_event ADD COLUMN IF NOT EXISTS headers jsonb`)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "shop.order", "shop.bad"), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "relay", plantedSASL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	at, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword(at.User.Username(), plantedURL)
	folder := t.TempDir()
	database, sasl := filepath.Join(folder, "database"), filepath.Join(folder, "sasl")
	for file, secret := range map[string]string{database: plantedFile, sasl: plantedSASL} {
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{
		"DATABASE_URL=" + at.String(), "OUTBOX_DATABASE_PASSWORD_FILE=" + database, "KAFKA_BROKERS=" + strings.Join(cluster.ListenAddrs(), ","),
		"KAFKA_SASL_MECHANISM=SCRAM-SHA-256", "KAFKA_SASL_USERNAME=relay", "KAFKA_SASL_PASSWORD_FILE=" + sasl,
	}
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key) VALUES (gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 'shop.order', '1')`)
	var log await.Journal
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, append([]string{"relay", "--log-level", "debug"}, args...), strings.NewReader(""), io.Discard, &log, env)
	}()
	conn := db.Conn(t)
	await.Until(t, "the first event is published", func() bool { return countUnpublished(t, conn) == 0 })
	plant(t, db)
	for _, line := range []string{"key parked", "topic held"} {
		await.Until(t, line, func() bool { return log.Says(line) })
	}
	await.Until(t, "the good event is published", func() bool { return countUnpublished(t, conn) == 2 })
	var out bytes.Buffer
	if code := Run(t.Context(), []string{"pause", "key", "shop.order", plantedKey}, strings.NewReader(""), &out, &out, env); code != exitOK {
		t.Fatalf("pause: %s", out.String())
	}
	await.Until(t, "paused", func() bool { return log.Says("paused: nothing of it goes out") })
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	return log.Text()
}

func TestTheLogHasNoSecretAndNothingOfAnEventButItsIDs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		keys bool
	}{
		"json": {[]string{"--log-format", "json"}, false}, "text": {[]string{"--log-format", "text"}, false}, "keys": {[]string{"--log-keys"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := logOf(t, c.args...)
			for _, secret := range []string{plantedURL, plantedFile, plantedSASL, plantedPayload, plantedHeader} {
				if strings.Contains(text, secret) {
					t.Errorf("%s is in the log:\n%s", secret, text)
				}
			}
			if got := strings.Count(text, plantedKey); (got > 0) != c.keys || c.keys && got != 2 {
				t.Errorf("the key is %d times in the log, want it asked for only, then of what is parked and what is paused:\n%s", got, text)
			}
			if strings.Contains(text, `"published":`) && strings.Count(text, "\n") > 40 {
				t.Errorf("%d lines for four events:\n%s", strings.Count(text, "\n"), text)
			}
		})
	}
}

func TestARefusedPasswordIsInNoMessage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "relay", "right"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	for name, env := range map[string][]string{
		"sasl":     {"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + strings.Join(cluster.ListenAddrs(), ","), "KAFKA_SASL_MECHANISM=PLAIN", "KAFKA_SASL_USERNAME=relay", "KAFKA_SASL_PASSWORD=" + plantedSASL},
		"database": {"DATABASE_URL=postgres://relay:" + plantedURL + "@127.0.0.1:1/shop", "KAFKA_BROKERS=" + strings.Join(cluster.ListenAddrs(), ",")},
	} {
		var out bytes.Buffer
		code := Run(t.Context(), []string{"relay", "--start-timeout", "100ms", "--log-level", "debug"}, strings.NewReader(""), &out, &out, env)
		if text := out.String(); code == exitOK || text == "" || strings.Contains(text, plantedSASL) || strings.Contains(text, plantedURL) {
			t.Errorf("%s: exit code %d: %s", name, code, text)
		}
	}
}
