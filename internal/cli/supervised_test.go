package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/notify"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

// manager hears what a service says.
func manager(t *testing.T) (socket string, heard *transcript) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	heard = &transcript{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 10_000)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			heard.Write(append(buffer[:n:n], '\n'))
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return socket, heard
}

func TestTheServiceManagerHearsOfStartWorkAndStop(t *testing.T) {
	t.Parallel()
	one := table{pgtest.New(t), "outbox_event"}
	socket, heard := manager(t)
	bin := filepath.Join(t.TempDir(), "outbox")
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../../cmd/outbox").CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v: %s", err, text)
	}
	cmd := exec.CommandContext(t.Context(), bin, "relay")
	log := &await.Journal{Out: t.Output()}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "DATABASE_URL="+one.db.URL, "KAFKA_BROKERS="+newCluster(t, "shop.order").ListenAddrs()[0], "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=300000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is ready and feeds the watchdog", func() bool {
		_, after, ready := strings.Cut(heard.String(), "READY=1\n")
		return ready && strings.Count(after, "WATCHDOG=1\n") >= 3
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	await.Until(t, "the stop is heard", func() bool { return strings.Contains(heard.String(), "STOPPING=1\n") })
	text := heard.String()
	if strings.Count(text, "READY=1\n") != 1 || strings.Count(text, "STOPPING=1\n") != 1 || !strings.Contains(text, "STATUS=ok\n") {
		t.Errorf("the manager heard %s", text)
	}
	if before, _, _ := strings.Cut(text, "READY=1\n"); strings.Contains(before, "STATUS=ok") {
		t.Errorf("the status is ok before it is ready: %s", text)
	}
}

// A relay with nothing in flight has stopped before its supervisor looks.
func TestAStopThatIsOverAtOnceIsHeard(t *testing.T) {
	t.Parallel()
	const rounds = 20
	socket, heard := manager(t)
	watched, err := notify.New(func(name string) string { return map[string]string{"NOTIFY_SOCKET": socket}[name] }, 1)
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range rounds {
		s := &supervisor{manager: watched, states: func() []sourceState { return nil }, log: discard()}
		s.watch(over, over.Done())
	}
	await.Until(t, "each stop is heard", func() bool { return strings.Count(heard.String(), "STOPPING=1\n") == rounds })
}

func TestTheManagerHearsNothingGoodOfARelayThatIsNot(t *testing.T) {
	t.Parallel()
	now := time.Now()
	starting := sourceState{Name: "starting"}
	works := sourceState{Name: "works", Made: true, Engine: &sourceRelay{Engine: idle{relay.Stats{Leading: true, LastTurn: now}}}}
	stuck := sourceState{Name: "stuck", Made: true, Engine: &sourceRelay{Engine: idle{relay.Stats{Leading: true, LastTurn: now.Add(-turnLimit - time.Second)}}}}
	stalled := sourceState{Name: "stalled", Made: true, Engine: &sourceRelay{Engine: idle{relay.Stats{Leading: true, LastTurn: now, Stalled: true, Silent: 17 * time.Second, Outstanding: 7}}}}
	absent := sourceState{Name: "absent", Err: errors.New("no route"), Again: time.Second}
	socket, _ := manager(t)
	watched, err := notify.New(func(name string) string {
		return map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "1000000"}[name]
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		states   []sourceState
		stopping bool
		want     []string
	}{
		"starting":             {[]sourceState{starting}, false, []string{notify.Watchdog, "STATUS=starting"}},
		"at work":              {[]sourceState{works}, false, []string{notify.Watchdog, notify.Ready, "STATUS=ok"}},
		"stuck":                {[]sourceState{stuck, works}, false, []string{notify.Ready, "STATUS=stuck: ok; works: ok"}},
		"one works":            {[]sourceState{absent, works}, false, []string{notify.Watchdog, notify.Ready, "STATUS=absent: does not come up: no route; works: ok"}},
		"none works":           {[]sourceState{absent, starting}, false, []string{notify.Watchdog, "STATUS=absent: does not come up: no route; starting: starting"}},
		"stalled":              {[]sourceState{stalled}, false, []string{notify.Watchdog, "STATUS=Kafka acknowledges nothing; events are outstanding"}},
		"stopping":             {[]sourceState{works}, true, []string{notify.Watchdog}},
		"stuck while stopping": {[]sourceState{stuck}, true, nil},
	} {
		s := &supervisor{manager: watched, states: func() []sourceState { return c.states }}
		if got := s.look(now, c.stopping); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if got := s.look(now, c.stopping); slices.ContainsFunc(got, func(line string) bool { return line != notify.Watchdog }) {
			t.Errorf("%s: said again: %q", name, got)
		}
	}
}

// turning is an engine that comes to lead while it is looked at.
type turning struct{ looks, leads int }

func (e *turning) Run(context.Context) error { return nil }

func (e *turning) Stats() relay.Stats {
	e.looks++
	return relay.Stats{Leading: e.looks >= e.leads, LastTurn: time.Now()}
}

func TestNoStatusIsOKBeforeTheManagerHearsReady(t *testing.T) {
	t.Parallel()
	for leads := range 8 {
		state := sourceState{Made: true, Engine: &sourceRelay{Engine: &turning{leads: leads}}}
		s := &supervisor{states: func() []sourceState { return []sourceState{state} }}
		lines := s.look(time.Now(), false)
		if slices.Contains(lines, "STATUS=ok") != slices.Contains(lines, notify.Ready) {
			t.Errorf("it leads from look %d on, and the manager hears %q", leads, lines)
		}
	}
}

func TestAManagerThatCannotBeMeantIsAFaultOfTheConfiguration(t *testing.T) {
	t.Parallel()
	_, err := (&app{env: environment{"NOTIFY_SOCKET": "nowhere"}}).supervised(t.Context(), nil, discard())
	if err == nil || exitCode(err) != exitConfig {
		t.Errorf("got %v", err)
	}
}

// A manager that is busy for a while hears of the start all the same.
func TestAManagerThatWasDeafIsToldAgain(t *testing.T) {
	t.Parallel()
	gone, err := notify.New(func(name string) string {
		return map[string]string{"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "gone")}[name]
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	works := sourceState{Name: "works", Made: true, Engine: &sourceRelay{Engine: idle{relay.Stats{Leading: true, LastTurn: now}}}}
	s := &supervisor{manager: gone, states: func() []sourceState { return []sourceState{works} }, log: discard()}
	s.tell(t.Context(), s.look(now, false)...)
	if got, want := s.look(now, false), []string{notify.Ready, "STATUS=ok"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Where nobody listens any more, the relay goes on and complains once.
func TestADeafManagerIsComplainedOfOnce(t *testing.T) {
	t.Parallel()
	gone, err := notify.New(func(name string) string {
		return map[string]string{"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "gone")}[name]
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	log := &transcript{}
	s := &supervisor{manager: gone, log: (&app{stderr: log}).logger(log, 0)}
	s.tell(t.Context(), notify.Ready)
	s.tell(t.Context(), notify.Watchdog)
	if n := strings.Count(log.String(), "the service manager does not listen"); n != 1 {
		t.Errorf("complained %d times: %s", n, log)
	}
}
