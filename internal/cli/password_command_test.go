package cli

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/await"
)

// script is a command of sh.
func script(text string) []string { return []string{"sh", "-c", text} }

func TestAPasswordCommandRunsForNewConnectionsAndNotForEachOfAFew(t *testing.T) {
	t.Parallel()
	runs := filepath.Join(t.TempDir(), "runs")
	p := newPasswordCommand(script("echo x >>"+runs+"; echo token-$(wc -l <"+runs+")"), "here")
	now := time.Now()
	p.now = func() time.Time { return now }
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{0, "token-1"}, {passwordFresh - 1, "token-1"}, {1, "token-2"}, {passwordFresh, "token-3"}} {
		now = now.Add(c.after)
		if got, err := p.password(t.Context()); err != nil || strings.ReplaceAll(got, " ", "") != c.want {
			t.Errorf("after %s: %q, %v; want %q", c.after, got, err, c.want)
		}
	}
}

func TestAPasswordCommandThatFailsSaysWhyAndNothingOfWhatItPrints(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"fails":        {"echo hunter2; echo no credentials >&2; exit 3", "here: sh fails: exit status 3: no credentials"},
		"says nothing": {"exit 4", "here: sh fails: exit status 4"},
		"no password":  {"echo region? >&2", "here: sh prints no password: region?"},
		"much":         {"echo hunter2; echo hunter3", "here: sh prints more than a line: want the password alone"},
		"too much":     {"head -c 100000 /dev/zero | tr '\\0' x", "here: sh prints more than a line: want the password alone"},
		"long":         {"yes complaint | head -c 100000 >&2; echo the end >&2; exit 1", "complaint the end"},
	} {
		_, err := newPasswordCommand(script(c.text), "here").password(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter") || len(err.Error()) > 600 {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := newPasswordCommand([]string{"no-such-program"}, "here").check(); err == nil || !strings.HasPrefix(err.Error(), "here: ") {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestAPasswordCommandThatHangsIsEnded(t *testing.T) {
	t.Parallel()
	started := filepath.Join(t.TempDir(), "started")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := newPasswordCommand(script("echo x >"+started+"; exec sleep 1000"), "here").password(ctx)
		done <- err
	}()
	await.Until(t, "the command runs", func() bool {
		_, err := os.Stat(started)
		return err == nil
	})
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "gives no password in time") {
		t.Errorf("%v", err)
	}
}

func TestACommandGivesThePasswordOfACommandsConnections(t *testing.T) {
	t.Parallel()
	server, admin := guardedServer(t)
	run(t, admin, "CREATE ROLE relay LOGIN SUPERUSER PASSWORD 'hunter2'")
	const variable = "OUTBOX_DATABASE_PASSWORD_COMMAND"
	for command, c := range map[string]struct {
		code int
		want string
	}{
		"echo,hunter2":    {exitOK, ""},
		"echo,hunter3":    {exitConfig, "hint: correct the password of user relay, which was taken from " + variable},
		"cat,/nowhere":    {exitFailed, variable + ": cat fails: exit status 1: cat: /nowhere: No such file or directory"},
		"no-such-program": {exitConfig, variable + `: exec: "no-such-program": executable file not found in $PATH`},
	} {
		environ := []string{"DATABASE_URL=postgres://relay:old@127.0.0.1:" + strconv.Itoa(server.Port()) + "/postgres?sslmode=disable", variable + "=" + command}
		code, said := outcome(t, environ, "status")
		if code != c.code || !strings.Contains(said, c.want) || strings.Contains(said, "hunter") {
			t.Errorf("%s: %d %s, want %d %s", command, code, said, c.code, c.want)
		}
		if code, said = outcome(t, append(environ, "OUTBOX_DATABASE_PASSWORD=x"), "status"); code != exitConfig || !strings.Contains(said, "both give the database's password") {
			t.Errorf("%s beside a password: %d %s", command, code, said)
		}
	}
}
