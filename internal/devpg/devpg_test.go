package devpg_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devpg"
)

// holderVariable, "dir:" and a folder or nothing, makes the test binary hold a server there until it is killed.
const holderVariable = "DEVPG_TEST_HOLDER"

func TestMain(m *testing.M) {
	if dir, ok := strings.CutPrefix(os.Getenv(holderVariable), "dir:"); ok {
		holdServer(dir)
	}
	os.Exit(m.Run())
}

// holdServer prints the server's pid and folder, and never returns.
func holdServer(dir string) {
	s, err := devpg.Start(context.Background(), devpg.Options{Dir: dir})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(s.PID(), filepath.Dir(s.LogFile()))
	select {}
}

func start(t *testing.T, o devpg.Options) *devpg.Server {
	t.Helper()
	s, err := devpg.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t *testing.T, s *devpg.Server) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func query[T any](t *testing.T, c *pgx.Conn, sql string) T {
	t.Helper()
	var v T
	if err := c.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func exec1(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestCommittedRowsSurviveARestartAndACrash(t *testing.T) {
	t.Parallel()
	s := start(t, devpg.Options{})
	url := s.URL("postgres")
	exec1(t, connect(t, s), "CREATE TABLE kept AS SELECT 1 AS n")

	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec1(t, connect(t, s), "INSERT INTO kept VALUES (2)")

	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if pid := s.PID(); pid != 0 {
		t.Errorf("a killed server has pid %d", pid)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, connect(t, s), "SELECT count(*) FROM kept"); n != 2 {
		t.Errorf("%d rows after a restart and a crash, want 2", n)
	}
	if s.URL("postgres") != url {
		t.Errorf("the address changed from %s to %s", url, s.URL("postgres"))
	}
}

func TestParametersOverrideTheDefaults(t *testing.T) {
	t.Parallel()
	s := start(t, devpg.Options{Durable: true, Params: map[string]string{"max_connections": "37"}})
	c := connect(t, s)
	for name, want := range map[string]string{"fsync": "on", "max_connections": "37", "synchronous_commit": "on"} {
		if got := query[string](t, c, "SELECT current_setting('"+name+"')"); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestAFolderOfTheCallerIsKeptAndUsedAgain(t *testing.T) {
	t.Parallel()
	dir := callersFolder(t)
	first := start(t, devpg.Options{Dir: dir})
	exec1(t, connect(t, first), "CREATE TABLE kept AS SELECT 1 AS n")
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Cleanup(); err != nil {
		t.Fatal(err)
	}
	second := start(t, devpg.Options{Dir: dir})
	if n := query[int](t, connect(t, second), "SELECT count(*) FROM kept"); n != 1 {
		t.Errorf("%d rows in the folder that was kept, want 1", n)
	}
}

// callersFolder is a temporary folder that the server's user can reach: those of the testing package are closed to it.
func callersFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "devpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestCleanupRemovesTheFolder(t *testing.T) {
	t.Parallel()
	s, err := devpg.Start(t.Context(), devpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(s.LogFile())
	if err := s.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("folder %s is still there: %v", dir, err)
	}
}

func TestTheFolderGoesWhenTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	holder, _, dir := startHolder(t, "")
	kill(holder)
	await.Until(t, "the folder is gone", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

// In a folder that is kept, the server cannot notice by itself that it is to end.
func TestTheServerGoesWhenTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	dir := callersFolder(t)
	holder, pid, _ := startHolder(t, dir)
	if ended(pid) {
		t.Fatal("the server does not run")
	}
	kill(holder)
	await.Until(t, "the server is gone", func() bool { return ended(pid) })
	if _, err := os.Stat(filepath.Join(dir, "data", "PG_VERSION")); err != nil {
		t.Errorf("the data is gone too: %v", err)
	}
}

// startHolder runs this test binary as a process that holds a server.
func startHolder(t *testing.T, dir string) (holder *exec.Cmd, pid int, folder string) {
	t.Helper()
	holder = exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holderVariable+"=dir:"+dir)
	holder.Stderr = os.Stderr
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holder.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pidText, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
	if pid, err = strconv.Atoi(pidText); err != nil {
		t.Fatalf("the holder said %q", line)
	}
	return holder, pid, folder
}

// kill leaves the process no time for anything.
func kill(holder *exec.Cmd) {
	holder.Process.Kill()
	holder.Wait()
}

// ended counts a process that nobody has collected yet as ended.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestAnImpossibleVersionIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"9", "x", "99"} {
		s, err := devpg.Start(t.Context(), devpg.Options{Version: version})
		if err == nil {
			s.Cleanup()
			t.Errorf("version %q was started", version)
			continue
		}
		if !strings.Contains(err.Error(), "14") {
			t.Errorf("version %q: the error does not name the versions that there are: %v", version, err)
		}
	}
}

func TestTheVersionAskedForRuns(t *testing.T) {
	t.Parallel()
	s := start(t, devpg.Options{Version: "18"})
	if got := query[int](t, connect(t, s), "SELECT current_setting('server_version_num')::int / 10000"); got != 18 {
		t.Errorf("version %d runs, want 18", got)
	}
	if s.Major() != 18 || !strings.HasPrefix(s.Version(), "18") {
		t.Errorf("it says that it is %d, %s", s.Major(), s.Version())
	}
}
