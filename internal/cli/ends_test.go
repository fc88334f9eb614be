package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/relay"
)

// failedRelay starts a relay that cannot work, and returns what it said on stderr.
func failedRelay(t *testing.T, args ...string) (said string, exit int) {
	t.Helper()
	var out bytes.Buffer
	exit = Run(t.Context(), append([]string{"relay"}, args...), strings.NewReader(""), &bytes.Buffer{}, &out, nil)
	return out.String(), exit
}

func TestARelayWhoseLogIsJSONTellsItsEndInALineOfJSON(t *testing.T) {
	t.Parallel()
	said, exit := failedRelay(t)
	var line struct {
		Level, Msg, Error string
		ExitCode          int `json:"exit_code"`
	}
	if err := json.Unmarshal([]byte(said), &line); err != nil || strings.Count(said, "\n") != 1 {
		t.Fatalf("want one line of JSON: %v: %s", err, said)
	}
	if line.Level != "ERROR" || line.Msg != "relay failed" || line.ExitCode != exitConfig || exit != exitConfig {
		t.Errorf("exit %d: %+v", exit, line)
	}
	if !strings.HasPrefix(line.Error, "configuration: no brokers") || !strings.Contains(line.Error, "; no database") || strings.Contains(line.Error, "\n") {
		t.Errorf("error: %s", line.Error)
	}
}

func TestARelayWhoseLogIsTextTellsItsEndInText(t *testing.T) {
	t.Parallel()
	if said, _ := failedRelay(t, "--log-format", "text"); !strings.HasPrefix(said, "outbox: configuration:\n  no brokers") {
		t.Errorf("said: %s", said)
	}
}

func TestAnErrorInOneLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"configuration:\n  PostgreSQL at h:1: no\n    hint: mend it": "configuration: PostgreSQL at h:1: no; mend it",
		"one":                          "one",
		"configuration:\n  a\n  b":     "configuration: a; b",
		"source a: x\n\nsource b: y\n": "source a: x; source b: y",
	} {
		if got := inOneLine(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestTheLogSaysWhereARefusedPasswordCameFrom(t *testing.T) {
	t.Parallel()
	_, admin := guardedServer(t)
	run(t, admin, "CREATE ROLE relay LOGIN PASSWORD 'right'")
	cfg := admin.Config().Copy()
	cfg.User, cfg.Password = "relay", "wrong"
	_, err := pgx.ConnectConfig(context.WithoutCancel(t.Context()), cfg)
	if err == nil {
		t.Fatal("the password was taken")
	}
	var out bytes.Buffer
	log := newPlacing((&app{stderr: &out}).formatted(&out, slog.LevelInfo, logJSON), "OUTBOX_DATABASE_PASSWORD_FILE", nil)
	log.With("source", "orders").Error("interrupted", "error", err, "again_in", "1s")
	var line struct{ Error, Source string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(line.Error, "was taken from OUTBOX_DATABASE_PASSWORD_FILE") || strings.Contains(line.Error, "\n") || line.Source != "orders" {
		t.Errorf("log: %s", out.String())
	}
}

func TestEveryErrorOfTheLogIsOneLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	(&app{stderr: &out}).formatted(&out, slog.LevelInfo, logJSON).Error("x", "error", errors.New("a:\n  b"))
	if !strings.Contains(out.String(), `"a: b"`) {
		t.Errorf("log: %s", out.String())
	}
}

func TestARefusalOfTheBrokersNamesTheSettings(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	rewrite(t, secret, "plantedsecret\n")
	load := func(more config.Environment) *config.Source {
		env := config.Environment{"KAFKA_BROKERS": "h:1", "DATABASE_URL": "postgres://h/d"}
		maps.Copy(env, more)
		fs := pflag.NewFlagSet("relay", pflag.ContinueOnError)
		config.Flags(fs)
		cfg, err := config.Load(t.Context(), fs, env)
		if err != nil {
			t.Fatal(err)
		}
		return &cfg.Sources[0]
	}
	scram := load(config.Environment{"KAFKA_SASL_MECHANISM": "SCRAM-SHA-512", "KAFKA_SASL_USERNAME": "relay", "KAFKA_SASL_PASSWORD_FILE": secret})
	for name, c := range map[string]struct {
		code   string
		err    error
		source *config.Source
		want   string
	}{
		"a wrong password":   {"SASL_AUTHENTICATION_FAILED", errors.New("no"), scram, "the user is relay, by KAFKA_SASL_USERNAME, and the password was taken from KAFKA_SASL_PASSWORD_FILE"},
		"another CA":         {"BROKERS_UNREACHABLE", x509.UnknownAuthorityError{}, load(config.Environment{"KAFKA_SSL_CA": secret}), "the CA file is that of KAFKA_SSL_CA"},
		"no CA":              {"BROKERS_UNREACHABLE", x509.UnknownAuthorityError{}, load(config.Environment{"KAFKA_TLS_ENABLED": "true"}), "the CA file is set by KAFKA_SSL_CA, or --tls-ca"},
		"TLS that is not on": {"BROKERS_UNREACHABLE", errors.New("the listener speaks TLS: turn TLS on"), scram, "TLS is set by KAFKA_TLS_ENABLED=true, or --tls"},
		"no TLS there":       {"BROKERS_UNREACHABLE", tls.RecordHeaderError{}, load(config.Environment{"KAFKA_SSL_CA": secret}), "TLS was turned on by KAFKA_SSL_CA"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outage := &relay.PublishError{Class: relay.ClassOutage, Code: c.code, Err: fmt.Errorf("%w: %w", relay.ErrConfiguration, c.err)}
			err := explain(told(fmt.Errorf("open publisher: %w", outage), "", c.source))
			if exitCode(err) != exitConfig || !strings.HasSuffix(err.Error(), "\n    hint: "+c.want) || strings.Contains(err.Error(), "plantedsecret") {
				t.Errorf("exit code %d: %v", exitCode(err), err)
			}
		})
	}
}
