package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandHasAnExampleThatNamesIt(t *testing.T) {
	t.Parallel()
	a := &app{stdout: os.Stdout, stderr: os.Stderr}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Short == "" || !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s: wants a short help and an example with its name; it has %q and %q", cmd.CommandPath(), cmd.Short, cmd.Example)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(a.root())
}

// What programs read is written down.
func TestTheJSONOfEveryCommandIsInTheDocs(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	visit(t, func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "outbox ")
		if cmd.Flags().Lookup("json") == nil || cmd.Flags().Lookup("all") != nil {
			// Those that change many things have a line together.
			return
		}
		if verb, _, _ := strings.Cut(name, " "); name != "pause list" && (verb == "pause" || verb == "resume") {
			name = verb
		}
		if !strings.Contains(string(docs), "\n| `"+name+"` | ") && !strings.Contains(string(docs), "\n| `pause`, `"+name+"` | ") && !strings.Contains(string(docs), "\n| `"+name+"`, `resume` | ") {
			t.Errorf("docs/cli.md does not tell what outbox %s --json prints", name)
		}
	})
}

// A default that is nothing is none.
func TestNoHelpNamesADefaultOfNothing(t *testing.T) {
	t.Parallel()
	visit(t, func(cmd *cobra.Command) {
		if usage := cmd.UsageString(); strings.Contains(usage, "(default 0)") || strings.Contains(usage, "(default 0s)") {
			t.Errorf("%s: %s", cmd.CommandPath(), usage)
		}
	})
}

func TestAFlagWinsOverTheEnvironment(t *testing.T) {
	t.Parallel()
	env := environment{"OUTBOX_TABLE": "a.b", "DATABASE_URL": "postgres://localhost/x"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "a.b"},
		{[]string{"--table", "c.d"}, "c.d"},
	} {
		a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, env: env}
		cmd := a.status()
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		if err := a.fromEnvironment(cmd); err != nil {
			t.Fatal(err)
		}
		if got := cmd.Flags().Lookup("table").Value.String(); got != c.want {
			t.Errorf("with %v the table is %s, want %s", c.args, got, c.want)
		}
	}
}

func TestTextFromTheDatabaseCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"order-17":        "order-17",
		"":                `""`,
		"\x1b[31mred":     `"\x1b[31mred"`,
		"a\nb":            `"a\nb"`,
		`say "hello"`:     `"say \"hello\""`,
		"Überweisung":     "Überweisung",
		"tab\tand bell\a": `"tab\tand bell\a"`,
	} {
		if got := printable(text); got != want {
			t.Errorf("printable(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestALongTextIsShortened(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		strings.Repeat("x", 100):      strings.Repeat("x", 100),
		strings.Repeat("x", 115):      strings.Repeat("x", 115),
		strings.Repeat("x", 120):      strings.Repeat("x", 100) + "… (120 bytes)",
		strings.Repeat("ü", 60) + "x": strings.Repeat("ü", 50) + "… (121 bytes)",
	} {
		if got := abridged(text); got != want {
			t.Errorf("abridged(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestAPasswordInAConnectionStringIsSeen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"postgres://me@host/x":                    false,
		"postgres://me:secret@host/x":             true,
		"postgres://me@host/x?password=secret":    true,
		"postgres://me@host/x?sslpassword=secret": true,
		"host=h user=u password=secret":           true,
		"host=h password = secret":                true,
		"host=h SSLPassword=secret":               true,
		"host=h passfile=/etc/pgpass":             false,
		"host=password":                           false,
	} {
		if got := hasPassword(text); got != want {
			t.Errorf("hasPassword(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestAConnectionStringThatCannotBeReadIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"postgres://me:hunter2@hunter2@h:port/d", "postgres://me:hunter2/x@h:port/d", "postgres://me:hunter2%@h/d", "host=h password = hunter2 port=x",
		"host=h password='hunter2 x", "host=h port=x password=hunter2`: hunter", "postgres://h/d?sslpassword=hunter2&sslmode=bad",
	} {
		_, err := target{url: text, table: "t", urlName: "DATABASE_URL"}.parse(t.Context(), nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), "DATABASE_URL: ") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
