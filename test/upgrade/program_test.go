//go:build integration && unix

package upgrade_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
)

// top is the top of this checkout.
const top = "../.."

// program is the command outbox of one version.
type program struct{ path string }

// build builds the command of the sources in a folder; flags are more of go build's.
func build(sources, to string, flags ...string) (program, error) {
	p := program{filepath.Join(to, "outbox")}
	cmd := exec.Command("go", append(append([]string{"build", "-o", p.path}, flags...), "./cmd/outbox")...)
	cmd.Dir = sources
	if out, err := cmd.CombinedOutput(); err != nil {
		return program{}, fmt.Errorf("build outbox in %s: %w\n%s", sources, err, out)
	}
	return p, nil
}

func mustBuild(t *testing.T, sources string, flags ...string) program {
	t.Helper()
	p, err := build(sources, t.TempDir(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func older(t *testing.T) program {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files(t, open(t)) {
		write(t, filepath.Join(folder, name), text)
	}
	return mustBuild(t, folder)
}

// next is today's program with more migrations, by name, without their numbers.
func next(t *testing.T, migrations ...migration) program {
	t.Helper()
	folder := t.TempDir()
	replace := map[string]string{}
	put := func(name, text string) {
		place := filepath.Join(folder, filepath.Base(name))
		write(t, place, text)
		absolute, err := filepath.Abs(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		replace[absolute] = place
	}
	newest := newest(t)
	for i, m := range migrations {
		put("migrate/sql/"+m.file(newest+1+i), m.text)
	}
	put("internal/schema/schema.go", bumped(t, newest, newest+len(migrations)))
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(folder, "overlay.json")
	write(t, place, string(overlay))
	return mustBuild(t, top, "-overlay", place)
}

func write(t *testing.T, place, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(place, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// environment is that of every program: the database and the brokers, and no setting of whoever runs the tests.
func (s *shop) environment() []string {
	kept := []string{"DATABASE_URL=" + s.db.URL, "KAFKA_BROKERS=" + strings.Join(brokers, ",")}
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); name == "PATH" || name == "HOME" || name == "TMPDIR" {
			kept = append(kept, e)
		}
	}
	return kept
}

// run runs a command of the program to its end.
func (s *shop) run(t *testing.T, p program, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.path, args...)
	cmd.Env = s.environment()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// relay is a running relay.
type relay struct {
	name string
	log  *await.Journal
	// stop asks it to stop, as a deploy does, and fails the test unless it ends with 0.
	stop func()
}

// start starts a relay of the program, until it is stopped or the test ends.
func (s *shop) start(t *testing.T, p program, name string) *relay {
	t.Helper()
	r := &relay{name: name, log: &await.Journal{Out: t.Output()}}
	cmd := exec.Command(p.path, "relay", "--relay-name", name)
	cmd.Env = s.environment()
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	end := func(signal syscall.Signal) int {
		code := 0
		once.Do(func() {
			_ = cmd.Process.Signal(signal)
			_ = cmd.Wait() // the exit code tells
			code = cmd.ProcessState.ExitCode()
		})
		return code
	}
	r.stop = func() {
		t.Helper()
		if code := end(syscall.SIGTERM); code != 0 {
			t.Errorf("the relay %s ended with %d", name, code)
		}
	}
	t.Cleanup(func() { end(syscall.SIGKILL) })
	return r
}
