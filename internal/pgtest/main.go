package pgtest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devpg"
)

// Main runs the tests of a package as [Runner] does, and fails when a goroutine is left. A package calls it from its TestMain; without it the server ends
// with the process as well, unchecked.
func Main(m *testing.M, leakOptions ...goleak.Option) {
	code := Runner{m}.Run()
	if code == 0 {
		if err := await.NoGoroutine(leakOptions...); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left after the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Runner is for packages whose TestMain is somebody else's, who runs it in place of M.
type Runner struct{ M *testing.M }

// Run runs the tests, several at a time even on a small machine, and stops the server that they shared. It returns the code to exit with.
func (r Runner) Run() (code int) {
	flag.Parse()
	if err := moreAtATime(flag.CommandLine); err != nil {
		fmt.Fprintln(os.Stderr, "choose how many tests run at a time:", err)
		return 1
	}
	code = r.M.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the PostgreSQL server of the tests:", err)
		code = 1
	}
	return code
}

func stopShared() error {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	s := sharedOne
	if s == nil {
		return nil
	}
	sharedOne = nil
	s.pool.Close()
	if s.own == nil {
		return nil
	}
	return s.own.Cleanup()
}

// Server starts a server for this test alone, one that it may stop, kill and start again; it is removed when the test ends.
// OUTBOX_TEST_PG_VERSION chooses the version where the options leave it open.
func Server(t testing.TB, o devpg.Options) *devpg.Server {
	t.Helper()
	if o.Version == "" {
		o.Version = os.Getenv("OUTBOX_TEST_PG_VERSION")
	}
	s, err := devpg.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("this test needs a PostgreSQL server of its own: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Cleanup(); err != nil {
			t.Errorf("remove the PostgreSQL server of the test: %v", err)
		}
	})
	return s
}
