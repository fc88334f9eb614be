//go:build integration && unix

package chaos_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/test/chaos/broken"
)

// shared is what the tests share. Its parts are made by the first test that asks, and are removed after the last.
var shared = &facility{binaries: map[string]string{}, clusters: map[int]*cluster{}}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "outbox-chaos-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared.dir = dir
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "the logs of the relays, the brokers and PostgreSQL are in", dir)
		return code
	}
	os.RemoveAll(dir)
	return 0
}

// facility holds servers and programs. The tests run one after the other: each may stop a server.
type facility struct {
	dir string

	mu       sync.Mutex
	binaries map[string]string
	clusters map[int]*cluster
	server   *devpg.Server
}

func (f *facility) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, c := range f.clusters {
		errs = append(errs, c.close())
	}
	if f.server != nil {
		errs = append(errs, f.server.Cleanup())
	}
	return errors.Join(errs...)
}

// database returns the PostgreSQL server. It has few connections, so that a test can use them up.
func (f *facility) database(t *testing.T) *devpg.Server {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.server == nil {
		server, err := devpg.Start(t.Context(), devpg.Options{
			Version: os.Getenv("OUTBOX_TEST_PG_VERSION"),
			Params:  map[string]string{"max_connections": fmt.Sprint(maxConnections), "log_line_prefix": "%m [%p] %a %r "},
		})
		if err != nil {
			t.Fatalf("the laboratory needs a PostgreSQL server of its own: %v", err)
		}
		f.server = server
	}
	if err := f.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f.server
}

// cluster returns Kafka with so many nodes.
func (f *facility) cluster(t *testing.T, nodes int) *cluster {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clusters[nodes] == nil {
		c, err := startCluster(t.Context(), nodes, filepath.Join(f.dir, fmt.Sprintf("kafka-%d", nodes)))
		if err != nil {
			t.Fatalf("the laboratory needs a Kafka of its own: %v", err)
		}
		f.clusters[nodes] = c
	}
	return f.clusters[nodes]
}

// healthy is the build without a broken line.
const healthy = "healthy"

// binary builds the command, healthy or broken in the ways of package broken: their names, with a plus between.
func (f *facility) binary(t *testing.T, build string) string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.binaries[build] != "" {
		return f.binaries[build]
	}
	const top = "../.."
	bin := filepath.Join(f.dir, "outbox-"+build)
	args := []string{"build", "-ldflags", "-s -w", "-o", bin} // without what debuggers want, half the time
	if os.Getenv("OUTBOX_CHAOS_RACE") != "" {
		args = append(args, "-race")
	}
	if build != healthy {
		overlay, err := broken.Overlay(top, filepath.Join(f.dir, "overlay-"+build), strings.Split(build, "+")...)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "-overlay", overlay)
	}
	if out, err := exec.Command("go", append(args, top+"/cmd/outbox")...).CombinedOutput(); err != nil {
		t.Fatalf("build outbox (%s): %v\n%s", build, err, out)
	}
	f.binaries[build] = bin
	return bin
}
