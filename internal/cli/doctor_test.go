package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/devcert"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// What cannot be used is found like everything else, and the other one is looked at all the same.
func TestTheDoctorLooksAtTheOneWhereTheOtherCannotBeUsed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	brokers := "KAFKA_BROKERS=" + strings.Join(brokersOf(t), ",")
	authority := newAuthority(t)
	dir := t.TempDir()
	cert, key, err := issue(t, authority, devcert.Request{Name: "relay", Until: time.Now().Add(-time.Minute)}).Write(dir, "old")
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		rewrite(t, path, string(content))
		return path
	}
	certificate := []string{"KAFKA_SSL_CERT=" + cert, "KAFKA_SSL_KEY=" + key}
	sasl := []string{"KAFKA_TLS_ENABLED=true", "KAFKA_SASL_MECHANISM=SCRAM-SHA-512", "KAFKA_SASL_USERNAME=relay"}
	const ofDatabase, ofKafka = "ok       the server takes writes\n", "ok       every broker answers\n"
	here, away := "DATABASE_URL="+db.URL, "DATABASE_URL=postgres://me@127.0.0.1:1/d"
	for what, c := range map[string]struct {
		env   []string
		words []string
	}{
		"expired certificate":  {append(certificate, here, brokers), []string{"the certificate has expired on", "[kafka-unusable]", ofDatabase, "unseen   kafka\n"}},
		"no CA file":           {[]string{here, brokers, "KAFKA_SSL_CA=" + dir + "/none.pem"}, []string{"TLS CA file: open ", "[kafka-unusable]", ofDatabase}},
		"another kind of file": {[]string{here, brokers, "KAFKA_SSL_CA=" + file("ca.jks", []byte{1, 2})}, []string{"is not in PEM form", "[kafka-unusable]", ofDatabase}},
		"CA cut short":         {[]string{here, brokers, "KAFKA_SSL_CA=" + file("ca.pem", append(authority.PEM, "-----BEGIN"...))}, []string{"block 2", "[kafka-unusable]", ofDatabase}},
		"a secret not to read": {append(sasl, here, brokers, "KAFKA_SASL_PASSWORD_FILE="+dir+"/none"), []string{"KAFKA_SASL_PASSWORD_FILE: open ", "[kafka-unusable]", ofDatabase}},
		"a database away":      {[]string{away, brokers}, []string{"PostgreSQL at 127.0.0.1:1: ", "[database-unusable]", "mend: start the server", ofKafka, "unseen   database\n"}},
		"both":                 {append(certificate, away, brokers), []string{"[kafka-unusable]", "[database-unusable]"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			got := runWith(t, c.env, "doctor")
			if got.code != exitFailed || got.errs != "" {
				t.Errorf("%+v", got)
			}
			for _, word := range c.words {
				if !strings.Contains(got.out, word) {
					t.Errorf("%q is not in\n%s", word, got.out)
				}
			}
		})
	}
}

func TestTheDoctorWarnsOfSecretsThatOthersMayRead(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	dir := t.TempDir()
	_, key, err := issue(t, newAuthority(t), devcert.Request{Name: "relay"}).Write(dir, "relay")
	if err != nil {
		t.Fatal(err)
	}
	password, passfile := filepath.Join(dir, "password"), filepath.Join(dir, "pgpass")
	rewrite(t, password, "hunter2")
	rewrite(t, passfile, "*:*:*:*:hunter2")
	env := []string{
		"DATABASE_URL=" + db.URL, "PGPASSFILE=" + passfile, "KAFKA_BROKERS=127.0.0.1:1", "KAFKA_SSL_CERT=" + filepath.Join(dir, "relay.crt"), "KAFKA_SSL_KEY=" + key,
		"KAFKA_SASL_MECHANISM=SCRAM-SHA-512", "KAFKA_SASL_USERNAME=relay", "KAFKA_SASL_PASSWORD_FILE=" + password,
	}
	const sound = "ok       no secret's file can be read by others\n"
	if got := runWith(t, env, "doctor"); !strings.Contains(got.out, sound) || strings.Contains(got.out, "secret-exposed") {
		t.Errorf("files of one's own: %+v", got)
	}
	for path, name := range map[string]string{key: "KAFKA_SSL_KEY", password: "KAFKA_SASL_PASSWORD_FILE"} {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		got := runWith(t, env, "doctor")
		want := "warning  " + path + ", of " + name + ", can be read or changed by others than its owner (mode 0644) [secret-exposed]\n"
		if !strings.Contains(got.out, want) || !strings.Contains(got.out, "mend: chmod 600 "+path) || strings.Contains(got.out, sound) || strings.Contains(got.out, "hunter2") {
			t.Errorf("want %s\n%s", want, got.out)
		}
	}
}
