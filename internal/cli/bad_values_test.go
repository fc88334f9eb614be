package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// badTexts are values that texts of these flags cannot have, whatever a database or a cluster says.
var badTexts = map[string]string{
	"table": "a.b.c", "database-url": "mysql://root@localhost/x", "state": "lost", "from": "soon", "until": "2026-02-31", "before": "soon", "id": "12ab", "as": " ", "reason": " ",
	"mode": "x", "settle": "x", "compression": "x", "sasl-mechanism": "x", "park-scope": "x", "on-failure": "x", "brokers": "localhost", "topics": "a b", "listen": "9090", "role": "a\x00b",
}

// badValue is a value that the flag cannot have; "" where any is possible.
func badValue(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "maybe"
	case "string", "stringSlice":
		return badTexts[f.Name]
	}
	return "x"
}

// wholeArgs are what each command needs to be understood.
var wholeArgs = map[string][]string{
	"events show": {"1"}, "events retry": {"--min-id=1"}, "events skip": {"--min-id=1", "--reason=x"}, "events dead": {"--min-id=1", "--reason=x"}, "events restore": {"--min-id=1"},
	"keys unpark": {"--type=x"}, "keys skip": {"--type=x", "--reason=x"}, "replay": {"--min-id=1", "--reason=x"}, "lanes set": {"4"}, "jobs cancel": {"1"},
	"prune": {"--older-than=1h"}, "inbox forget": {"--consumer=c", "--all"}, "pause topic": {"t"}, "pause key": {"t", "k"}, "resume topic": {"t"}, "resume key": {"t", "k"}, "migrate grants": {"--role=me"},
	"dlt list": {"t"}, "dlt show": {"t/0/1"}, "dlt redrive": {"t/0/1"}, "dlt purge": {"t/0/1"},
}

// A value that cannot be is usage where it was typed, and configuration where a variable has it; either is called by its name. This is so for every flag of every command.
func TestABadValueIsUsageOnTheCommandLineAndConfigurationElsewhere(t *testing.T) {
	t.Parallel()
	env := []string{"DATABASE_URL=postgres://me@127.0.0.1:1/shop", "KAFKA_BROKERS=127.0.0.1:1", "OUTBOX_START_TIMEOUT=1ms"}
	seen := 0
	visit(t, func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "outbox ")
		whole := append(strings.Fields(name), wholeArgs[name]...)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			value := badValue(f)
			if value == "" || f.Name == "help" {
				return
			}
			seen++
			whole := whole
			if f.Name == "id" {
				// Whoever names events filters them by nothing else.
				whole = slices.DeleteFunc(slices.Clone(whole), func(arg string) bool { return arg == "--min-id=1" })
			}
			if got := runWith(t, env, append(whole, "--"+f.Name+"="+value)...); got.code != exitUsage || !strings.Contains(got.errs, "--"+f.Name) || !strings.Contains(got.errs, "--help") {
				t.Errorf("outbox %s --%s=%s: %d %s", name, f.Name, value, got.code, got.errs)
			}
			if f.Name == "as" || f.Name == "reason" || strings.Contains(value, "\x00") || strings.Contains(strings.Join(whole, " "), "--"+f.Name) {
				return
			}
			variable := envNames(f.Name)[0]
			if got := runWith(t, append(env, variable+"="+value), whole...); got.code != exitConfig || !strings.Contains(got.errs, variable) {
				t.Errorf("%s=%s outbox %s: %d %s", variable, value, name, got.code, got.errs)
			}
		})
	})
	if seen < 200 {
		t.Errorf("only %d flags were looked at", seen)
	}
}

func TestAnEmptyTextIsNeverTakenForEverything(t *testing.T) {
	t.Parallel()
	env := []string{"DATABASE_URL=postgres://me@127.0.0.1:1/shop"}
	visit(t, func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "outbox ")
		for _, flag := range []string{"topic", "key", "type", "aggregate-type", "aggregate-id", "error", "code", "state", "id", "from", "until", "reason", "as", "verb", "actor", "source", "role", "after"} {
			if cmd.Flags().Lookup(flag) == nil {
				continue
			}
			if got := runWith(t, env, append(append(strings.Fields(name), wholeArgs[name]...), "--"+flag+"=")...); got.code != exitUsage || !strings.Contains(got.errs, "--"+flag+" is empty: ") {
				t.Errorf("outbox %s --%s=: %d %s", name, flag, got.code, got.errs)
			}
		}
	})
}
