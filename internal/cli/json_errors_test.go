package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/operate"
)

// said is what one command has said.
type said struct {
	out, errs string
	code      int
}

func runWith(t *testing.T, env []string, args ...string) said {
	t.Helper()
	var out, errs bytes.Buffer
	code := Run(t.Context(), args, strings.NewReader(""), &out, &errs, env)
	return said{out.String(), errs.String(), code}
}

// object is the one JSON object that stands on stderr.
func (s said) object(t *testing.T) (e errorObject) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(s.errs))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil || decoder.More() || strings.Count(s.errs, "\n") != 1 {
		t.Errorf("stderr is not one JSON object in one line: %v: %q", err, s.errs)
	}
	return e
}

func TestUnderJSONStderrIsOneObjectOrNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, published_at)
SELECT gen_random_uuid(), 'Order', i::text, 'order.placed.v1', '{}', 'shop.order', i::text, now() FROM generate_series(1, 3) i`)
	typo := "OUTBOX_TABEL=x"
	env := []string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=127.0.0.1:1"}
	for _, c := range []struct {
		args, code string
		exit       int
	}{
		{"events dead --state pending --all --reason x --json", "usage", exitUsage},
		{"replay --all --reason x --json", "unconfirmed", exitUnconfirmed},
		{"prune --older-than 0s --json", "unconfirmed", exitUnconfirmed},
		{"lanes set 3 --json", "unconfirmed", exitUnconfirmed},
		{"events show 99 --json", "not_found", exitFailed},
		{"events list --limit x --json", "usage", exitUsage},
		{"events list --json --state x", "usage", exitUsage},
		{"events list --json --after x", "invalid", exitUsage},
		{"status --json --table a.b", "configuration", exitConfig},
		{"replay 1 --reason x --yes --json", "unavailable", exitFailed},
	} {
		got := runWith(t, append(env, typo), strings.Fields(c.args)...)
		object := got.object(t)
		if object.Code != c.code || object.ExitCode != c.exit || got.code != c.exit {
			t.Errorf("outbox %s: %d, %+v; want %s, %d", c.args, got.code, object, c.code, c.exit)
		}
		if c.exit != exitUsage && (len(object.Warnings) == 0 || !strings.Contains(object.Warnings[0], "OUTBOX_TABEL")) {
			t.Errorf("outbox %s: warnings %q, want the one of OUTBOX_TABEL", c.args, object.Warnings)
		}
		if (object.Plan != nil) != (c.exit == exitUnconfirmed && !strings.HasPrefix(c.args, "lanes")) {
			t.Errorf("outbox %s: plan %v", c.args, object.Plan)
		}
	}
	if got := runWith(t, env, "events", "list", "--json"); got.code != exitOK || got.errs != "" {
		t.Errorf("all is well, and yet %d: %q", got.code, got.errs)
	}
	if got := runWith(t, append(env, typo, "OUTBOX_JSON=true"), "events", "list"); got.code != exitOK || len(got.object(t).Warnings) != 1 {
		t.Errorf("a warning: %d: %q", got.code, got.errs)
	}
}

// Every command that prints JSON, and connects, calls a database that cannot be reached by the same code. For the doctor it is a finding: it has brokers to look at.
func TestAnUnreachableDatabaseIsUnavailableToEveryCommand(t *testing.T) {
	t.Parallel()
	env := []string{"DATABASE_URL=postgres://me@127.0.0.1:1/shop", "KAFKA_BROKERS=127.0.0.1:1"}
	visit(t, func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("json") == nil || cmd.Name() == "version" || cmd.Name() == "demo" || cmd.Name() == "doctor" || cmd.Parent().Name() == "config" {
			return
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "outbox ")
		got := runWith(t, env, append(append(strings.Fields(name), wholeArgs[name]...), "--json")...)
		if object := got.object(t); object.Code != "unavailable" || got.code != exitFailed {
			t.Errorf("outbox %s: %d %+v, want unavailable and %d", name, got.code, object, exitFailed)
		}
	})
}

// visit calls do for every command that does something.
func visit(t *testing.T, do func(*cobra.Command)) {
	t.Helper()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() {
			do(cmd)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
}

// How far a long job is has no place in an object, however long it takes.
func TestUnderJSONNoProgressIsSaid(t *testing.T) {
	t.Parallel()
	for asJSON, want := range map[bool]string{true: "", false: "job 1: 2 of 3 done, 0 failed\n"} {
		var errs bytes.Buffer
		bar := newJobBar((&app{stderr: &errs, asJSON: asJSON}).progressOut())
		bar.now = func() time.Time { return bar.said.Add(sayEvery) }
		bar.show(operate.Progress{Job: 1, Total: 3, Done: 2})
		bar.end()
		if errs.String() != want {
			t.Errorf("asJSON %v: said %q, want %q", asJSON, errs.String(), want)
		}
	}
}
