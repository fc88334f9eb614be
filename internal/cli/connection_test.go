package cli

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// outcome runs a command and returns its exit code and what it said on stderr.
// The log, and so the end of a relay, is text.
func outcome(t *testing.T, environ []string, args ...string) (code int, said string) {
	t.Helper()
	var stderr bytes.Buffer
	code = Run(t.Context(), args, strings.NewReader(""), &bytes.Buffer{}, &stderr, append([]string{"OUTBOX_LOG_FORMAT=text"}, environ...))
	return code, stderr.String()
}

// refusingServer answers every start of a session with the error.
func refusingServer(t *testing.T, code, message string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			refuse(conn, code, message)
		}
	}()
	return listener.Addr().String()
}

func refuse(conn net.Conn, code, message string) {
	defer conn.Close()
	backend := pgproto3.NewBackend(conn, conn)
	for {
		start, err := backend.ReceiveStartupMessage()
		if err != nil {
			return
		}
		if _, ok := start.(*pgproto3.StartupMessage); ok {
			break
		}
		if _, err := conn.Write([]byte("N")); err != nil {
			return
		}
	}
	backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: message})
	_ = backend.Flush()
}

func TestAConnectionThatFailsIsSaidInOneLineWithOneRemedy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url  string
		code int
		want []string
		// atOnce tells that a relay does not try again.
		atOnce bool
	}{
		"wrong password": {
			"postgres://me:secret@" + refusingServer(t, "28P01", "password authentication failed") + "/x", exitConfig,
			[]string{"password authentication failed", "hint: correct the password"}, true,
		},
		"no password": {
			"postgres://me@" + refusingServer(t, "28P01", "password authentication failed") + "/x?passfile=none", exitConfig,
			[]string{"hint: no password was given for user me: set PGPASSWORD, or write it into a .pgpass file"}, true,
		},
		"no rule": {
			"postgres://me@" + refusingServer(t, "28000", "no pg_hba.conf entry, no encryption") + "/x", exitConfig,
			[]string{"no pg_hba.conf entry", "try sslmode=require"}, true,
		},
		"no role": {
			"postgres://me@" + refusingServer(t, "28000", `role "me" does not exist`) + "/x", exitConfig,
			[]string{`role "me" does not exist`, "correct the user in DATABASE_URL or PGUSER"}, true,
		},
		"full": {
			"postgres://me@" + refusingServer(t, "53300", "sorry, too many clients already") + "/x", exitFailed,
			[]string{"too many clients already (SQLSTATE 53300)"}, false,
		},
		"a setting that the pooler refuses": {
			"postgres://me@" + refusingServer(t, "08P01", "unsupported startup parameter: search_path") + "/x?search_path=y", exitConfig,
			[]string{"unsupported startup parameter", "hint: take search_path out of the connection string, or add it to ignore_startup_parameters"}, true,
		},
		"a user that the pooler does not know": {
			"postgres://me@" + refusingServer(t, "08P01", "SASL authentication failed") + "/x", exitConfig,
			[]string{"SASL authentication failed", "auth_file or auth_query"}, true,
		},
		"a database that the pooler does not know": {
			"postgres://me@" + refusingServer(t, "08P01", `database "x" does not exist`) + "/x", exitConfig,
			[]string{`database "x" does not exist`, "section [databases] of PgBouncer"}, true,
		},
		"a full pooler": {
			"postgres://me@" + refusingServer(t, "08P01", "no more connections allowed (max_client_conn)") + "/x", exitFailed,
			[]string{"no more connections allowed", "raise max_client_conn"}, false,
		},
		"no TLS": {
			"postgres://me@" + refusingServer(t, "28000", "never sent") + "/x?sslmode=require", exitConfig,
			[]string{"the server does not talk TLS", "sslmode=disable"}, true,
		},
		"nobody listens": {"postgres://me@127.0.0.1:1/x", exitFailed, []string{"PostgreSQL at 127.0.0.1:1: nothing listens there", "start the server"}, false},
		"no such host": {
			"postgres://me:secret@" + strings.Repeat("a", 64) + ".example/x", exitFailed,
			[]string{"there is no host " + strings.Repeat("a", 64), "correct the host"}, false,
		},
		"no such socket": {"postgres:///x?host=/nowhere&user=me", exitFailed, []string{"/nowhere (port 5432)", "nothing listens there"}, false},
	} {
		commands := [][]string{{"status"}, {"keys", "list"}, {"migrate", "up"}, {"migrate", "status"}, {"demo"}}
		if c.atOnce {
			commands = append(commands, []string{"relay"})
		}
		for _, command := range commands {
			code, said := outcome(t, []string{"DATABASE_URL=" + c.url, "KAFKA_BROKERS=" + refusingServer(t, "", "")}, command...)
			said = withoutLog(said)
			if code != c.code {
				t.Errorf("%s: outbox %s ended with %d, want %d: %s", name, command, code, c.code, said)
			}
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("%s: outbox %s does not say %q: %s", name, command, want, said)
				}
			}
			if strings.Count(said, "\n") > 3 || strings.Contains(said, "source") || strings.Contains(said, "secret") {
				t.Errorf("%s: outbox %s says too much: %s", name, command, said)
			}
		}
	}
}

// withoutLog leaves what is said to people.
func withoutLog(said string) string {
	var kept strings.Builder
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "{") && !strings.HasPrefix(line, "time=") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func TestExitCodesTellConfigurationFromFailureAndUsage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	good := "DATABASE_URL=" + db.URL
	missing := "DATABASE_URL=" + strings.Replace(db.URL, "/"+databaseOf(db.URL), "/never_created", 1)
	for _, c := range []struct {
		environ string
		args    string
		code    int
		says    string
	}{
		{good, "status", exitOK, ""},
		{good, "migrate status --table public.other", exitFailed, ""},
		{good, "status --table a.b.c", exitUsage, `--table: table "a.b.c"`},
		{good, "migrate up --table a.b.c", exitUsage, `--table: table "a.b.c"`},
		{good, "migrate status --table a.b.c", exitUsage, `--table: table "a.b.c"`},
		{good, "keys list --table a.b.c", exitUsage, `--table: table "a.b.c"`},
		{good, "migrate grants --role me --table a.b.c", exitUsage, `table "a.b.c"`},
		{good, "migrate up --lanes 2000", exitUsage, `--lanes is "2000": want 1 to 1024`},
		{good, "keys unpark --topic t --key k --wait 0s", exitUsage, `--wait is "0s": want more than 0s`},
		{good, "events list --limit 0", exitUsage, `--limit is "0": want 1 to 500; see outbox events list --help`},
		{good, "events list --newer-than 1w", exitUsage, `--newer-than "1w": want a duration such as 168h or 7d; see outbox events list --help`},
		{good, "events list --min-id x", exitUsage, `--min-id "x": want a whole number, at most 9223372036854775807; see`},
		{good, "events list --max-id 99999999999999999999", exitUsage, `want a whole number, at most 9223372036854775807; see`},
		{good, "audit --job x", exitUsage, `--job "x": want a whole number`},
		{good, "audit --verb nope", exitUsage, `verb "nope": want cancel, dead, forget, pause, prune, purge, redrive, replay, restore, resume, retry, skip or unpark`},
		{good, "jobs list --verb prune", exitUsage, `list jobs: verb "prune": want dead, redrive, replay, restore, retry, skip or unpark`},
		{good, "events list --older-than -5h", exitUsage, "want 0s or more"},
		{good, "events list --state foo", exitUsage, `--state is "foo": want`},
		{good, "replay --all --reason x --rate 0", exitUsage, `--rate is "0"`},
		{good, "lanes set 0", exitUsage, "want 1 to 1024"},
		{good, "lanes set 4", exitUnconfirmed, "no terminal to ask on"},
		{good, "jobs cancel 999 --json", exitFailed, `{"error":"there is no job 999; outbox jobs list shows them","code":"not_found","exit_code":1}`},
		{good, "events list --limit x --json", exitUsage, `{"error":"--limit \"x\": want a whole number; see outbox events list --help","code":"usage","exit_code":2}`},
		{"OUTBOX_LIMIT=0", "events list", exitConfig, `OUTBOX_LIMIT is "0": want 1 to 500`},
		{good, "status --table public.other", exitConfig, "outbox migrate up --table public.other"},
		{good, "status --table public.outbox_evnt", exitConfig, "\n  hint: did you mean --table public.outbox_event?"},
		{good, "relay --brokers 127.0.0.1:1 --table public.outbox_evnt", exitConfig, "outbox: open source: public.outbox_evnt: there is no such table in database "},
		{missing, "status", exitConfig, "createdb never_created"},
		{missing, "migrate up", exitConfig, "createdb never_created"},
		{"DATABASE_URL=mysql://root@localhost/x", "status", exitConfig, "DATABASE_URL begins with mysql://: want postgres://user@host:5432/database"},
		{"DATABASE_URL=mysql://root@localhost/x", "demo", exitConfig, "want postgres://user@host:5432/database"},
		{"", "status", exitConfig, "no database"},
		{"OUTBOX_WAIT=soon", "keys unpark --topic t --key k", exitConfig, "a duration such as 100ms"},
		{"KAFKA_BROKERS=localhost", "demo", exitConfig, "want host:port"},
		{good, "status extra", exitUsage, "outbox status --help"},
		{good, "relay --batch-size much", exitUsage, "--batch-size"},
	} {
		code, said := outcome(t, []string{c.environ}, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("outbox %s with %.30s… ended with %d and %q; want %d and %q", c.args, c.environ, code, said, c.code, c.says)
		}
	}
}

func TestARefusedPasswordIsNamedByItsPlace(t *testing.T) {
	t.Parallel()
	server := refusingServer(t, "28P01", "password authentication failed")
	bare, full := "DATABASE_URL=postgres://me@"+server+"/x?passfile=none", "DATABASE_URL=postgres://me:secret@"+server+"/x"
	secret, listed := filepath.Join(t.TempDir(), "secret"), filepath.Join(t.TempDir(), "outbox.yaml")
	for name, text := range map[string]string{secret: "hunter2\n", listed: "sources:\n- name: orders\n  database-password-file: " + secret + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, environ := range map[string][]string{
		"DATABASE_URL":                            {full},
		"OUTBOX_DATABASE_PASSWORD":                {full, "OUTBOX_DATABASE_PASSWORD=other"},
		"OUTBOX_DATABASE_PASSWORD_FILE":           {bare, "OUTBOX_DATABASE_PASSWORD_FILE=" + secret},
		"OUTBOX_SOURCE_ORDERS__DATABASE_PASSWORD": {bare, "OUTBOX_CONFIG=" + listed, "OUTBOX_SOURCE_ORDERS__DATABASE_PASSWORD=other"},
		"outbox.yaml:3: database-password-file":   {bare, "OUTBOX_CONFIG=" + listed},
	} {
		for _, command := range [][]string{{"status"}, {"migrate", "up"}, {"relay", "--brokers", "127.0.0.1:1"}} {
			code, said := outcome(t, environ, command...)
			if code != exitConfig || !strings.Contains(said, "correct the password of user me, which was taken from "+want+"\n") || strings.Contains(said, "hunter2") {
				t.Errorf("%v with %v ended with %d and %q; want %s", command, environ, code, said, want)
			}
		}
	}
}

func databaseOf(url string) string {
	name := url[strings.LastIndex(url, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	return name
}

func TestTheLogSaysAFailedConnectionInOneLine(t *testing.T) {
	t.Parallel()
	_, cause := pgx.Connect(t.Context(), "postgres://me@127.0.0.1:1/x")
	var out bytes.Buffer
	a := &app{stderr: &out}
	a.logger(&out, slog.LevelInfo).Warn("relay interrupted", "error", fmt.Errorf("open source: %w", cause))
	if want := `"error":"PostgreSQL at 127.0.0.1:1: nothing listens there; start the server`; !strings.Contains(out.String(), want) {
		t.Errorf("got %s, want %s", &out, want)
	}
}

// A standby, or a server in a failover, says so: a relay that starts waits for it.
func TestADatabaseThatIsReadOnlyIsSaidWithItsRemedy(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	brokers := newCluster(t).ListenAddrs()
	environ := []string{"DATABASE_URL=" + db.URL + "&default_transaction_read_only=on", "KAFKA_BROKERS=" + brokers[0]}
	for _, command := range []string{"pause topic x", "events skip 1 --reason x", "lanes set 4 --yes", "keys unpark --topic x --key y", "jobs cancel 1"} {
		code, said := outcome(t, environ, strings.Fields(command)...)
		said = withoutLog(said)
		if code != exitFailed || !strings.Contains(said, "read-only") || !strings.Contains(said, "connect to the primary") || strings.Count(said, "\n") > 2 {
			t.Errorf("outbox %s ended with %d and %q", command, code, said)
		}
	}
	fleet := fleetOf(t, config.Source{DatabaseURL: db.URL + "&default_transaction_read_only=on", Brokers: brokers})
	atWork(t, fleet)
	await.Until(t, "a relay that starts says so and waits", func() bool {
		s := fleet.States()[0]
		return s.Made && s.Engine.Stats().LastError != nil && strings.Contains(s.Engine.Stats().LastError.Error(), "connect to the primary")
	})
}
