//go:build integration

package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/devkafka"
	"github.com/outbox-relay/outbox/internal/devpg"
)

// partitions is how many every topic has here; the recorded vectors count on it.
const partitions = 12

// parts are the real servers and programs. They are set once, before the first test.
var parts struct {
	pg      *devpg.Server
	brokers []string
	outbox  string // the program
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	closers, err := prepare(context.Background())
	defer func() {
		if err := closers(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// prepare gets everything that the tests share. What it returns undoes it, also when it fails.
func prepare(ctx context.Context) (undo func() error, err error) {
	var closers []func() error
	undo = func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	if err := buildNode(ctx); err != nil {
		return undo, err
	}
	dir, err := os.MkdirTemp("", "outbox-interop-")
	if err != nil {
		return undo, err
	}
	closers = append(closers, func() error { return os.RemoveAll(dir) })
	if parts.outbox, err = buildOutbox(ctx, dir); err != nil {
		return undo, err
	}
	if parts.pg, err = devpg.Start(ctx, devpg.Options{Version: os.Getenv("OUTBOX_TEST_PG_VERSION")}); err != nil {
		return undo, err
	}
	closers = append(closers, parts.pg.Cleanup)
	kafka, err := devkafka.Start(ctx, devkafka.Options{})
	if err != nil {
		return undo, err
	}
	parts.brokers = kafka.Brokers()
	closers = append(closers, kafka.Close)
	return undo, nil
}

func buildNode(ctx context.Context) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("find npm: not in PATH; install Node.js 20 or newer with npm (Debian: apt-get install nodejs npm)")
	}
	for _, args := range [][]string{{"ci"}, {"run", "build"}} {
		if out, err := exec.CommandContext(ctx, npm, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("run npm %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// buildOutbox builds the program, unless OUTBOX_BIN names one that is built.
func buildOutbox(ctx context.Context, dir string) (string, error) {
	if bin := os.Getenv("OUTBOX_BIN"); bin != "" {
		return bin, nil
	}
	bin := filepath.Join(dir, "outbox")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "../cmd/outbox").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cmd/outbox: %w: %s", err, out)
	}
	return bin, nil
}

// world is one test's database and topic.
type world struct {
	t     *testing.T
	url   string
	conn  *pgx.Conn
	topic string
}

func setup(t *testing.T) *world {
	t.Helper()
	id := strings.ReplaceAll(uuid.NewString(), "-", "")
	admin := connect(t, parts.pg.URL("postgres"))
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE interop_"+id); err != nil {
		t.Fatalf("create database: %v", err)
	}
	w := &world{t: t, url: parts.pg.URL("interop_" + id), topic: "order-service.order.confirmed-" + id}
	w.conn = connect(t, w.url)
	if err := devkafka.CreateTopic(t.Context(), parts.brokers, w.topic, partitions, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect to PostgreSQL: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// exec runs a program with the addresses of the test's own database and topic, and returns what it prints.
func (w *world) exec(stdin, name string, args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+w.url, "KAFKA_BROKERS="+strings.Join(parts.brokers, ","), "TOPIC="+w.topic)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

func (w *world) outbox(args ...string) {
	w.t.Helper()
	w.exec("", parts.outbox, append(args, "--table", "public.outbox_event")...)
}
