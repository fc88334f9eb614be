package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/config"
)

// malformed are connection strings as people write them, with a password at a place where programs differ in what they make of it.
func malformed() []string {
	return []string{
		`"postgres://user:hunter2@h/db"`, "'postgres://user:hunter2@h/db'", " postgres://user:hunter2@h/db", "\npostgres://user:hunter2@h/db",
		"postgresql+asyncpg://user:hunter2@h/db", "jdbc:postgresql://user:hunter2@h/db", "postgres://user@corp:hunter2@h/db", "user:hunter2@h/db", "postgres:/user:hunter2@h/db",
		"host=h 'password'=hunter2", "host=h password: hunter2", "host=h user=u password: hunter2 sslmode=disable", "host=h password='a''hunter2'", "host=h password=a hunter2 user=u",
		"host=h;password=hunter2", "host=h,password=hunter2", "hunter2://h",
		"postgres://user:SEC@hunter2@host/db", "postgres://user:5432/hunter2@h/db", "postgres://us/er:hunter2@h/db", "postgres://user:x?hunter2@h/db", "postgres://u:x#hunter2@h/db", "postgres://u:x[hunter2@h/db",
		"postgres://u:x%hunter2@h/db", "postgres://u:hunter2@h/db?x", "postgres://u@h/db?a=b&hunter2", "postgres://u@h/db?hunter2=a=b", "postgres://u@h/db?a=b%hunter2", "postgres://u@h:hunter2",
	}
}

// Whatever is made of them: neither what is printed, nor an error, nor what the log says of a connection has the password.
func TestMalformedConnectionStringsNeverShowTheirPassword(t *testing.T) {
	t.Parallel()
	for _, text := range malformed() {
		for _, args := range [][]string{{"config", "print"}, {"config", "print", "--json"}} {
			var stdout, stderr bytes.Buffer
			Run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, []string{"DATABASE_URL=" + text, "KAFKA_BROKERS=h:1"})
			if said := stdout.String() + stderr.String(); strings.Contains(said, "hunter2") {
				t.Errorf("%q: %s says:\n%s", text, strings.Join(args, " "), said)
			}
		}
		cfg, err := target{url: text, table: "t", urlName: "DATABASE_URL"}.parse(t.Context(), nil)
		if err != nil {
			if strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), "DATABASE_URL") {
				t.Errorf("%q: got %v", text, err)
			}
			continue
		}
		c := cfg.ConnConfig
		if said := address(&c.Config) + "/" + c.Database + " " + c.User; strings.Contains(said, "hunter2") {
			t.Errorf("%q: the log says %s", text, said)
		}
	}
}

func TestAPasswordOnTheCommandLineIsRefusedHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	for _, text := range append(malformed(), "postgres://u:hunter2@h/db", "postgres://u@h/db?pass%77ord=hunter2", "postgres://u:hunter2#PW@h/db", "postgres://u:hunter2[PW@h/db",
		"postgres://u@h/db?sslpassword=hunter2", "host=h password = hunter2", "host=h\vpassword\t=\nhunter2") {
		_, err := target{url: text, table: "t", urlName: "--database-url", typed: true}.parse(t.Context(), nil)
		if err == nil || !config.Typed(err) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	for _, text := range []string{"postgres://u@h/db?sslmode=disable", "postgres://h1:1,h2:2/db", "host=h user=u dbname='a b'", "postgres://u%40corp@h/db"} {
		if _, err := (target{url: text, table: "t", urlName: "--database-url", typed: true}).parse(t.Context(), nil); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestThePlaceOfAPasswordIsWhereItStands(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://u:hunter2@h/db":         "DATABASE_URL",
		"postgres://u:hunter2#PW@h/db":      "DATABASE_URL",
		"postgres://u@h/db?pass%77ord=PW":   "DATABASE_URL",
		"postgres://u@h/db?passfile=/my/pw": "",
		"postgres://u@h/db":                 "",
	} {
		target := target{url: text, table: "t", urlName: "DATABASE_URL"}
		cfg, err := target.parse(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := target.passwordPlace(nil, cfg); got != want {
			t.Errorf("%s: the password is from %q, want %q", text, got, want)
		}
	}
}

func TestBrokersThatMayHoldAPasswordAreNotRepeated(t *testing.T) {
	t.Parallel()
	for _, brokers := range []string{"sasl_ssl://u:hunter2@k:9092", "u:hunter2@k:9092", "hunter2@k:9092", "k:9092,hunter2@k:9092", "k:hunter2@k", "SASL_SSL://hunter2:9092"} {
		for _, args := range [][]string{{"config", "print"}, {"config", "print", "--json"}, {"relay"}, {"demo"}, {"status", "--json"}} {
			var stdout, stderr bytes.Buffer
			env := []string{"DATABASE_URL=postgres://u@127.0.0.1:1/db", "KAFKA_BROKERS=" + brokers, "OUTBOX_START_TIMEOUT=1ms"}
			Run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, env)
			if said := stdout.String() + stderr.String(); strings.Contains(said, "hunter2") {
				t.Errorf("%s: %s says:\n%s", brokers, args[0], said)
			}
		}
	}
}
