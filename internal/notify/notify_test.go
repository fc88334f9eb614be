package notify

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func variables(list ...string) func(string) string {
	return func(name string) string {
		for _, v := range list {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func TestTheManagerHearsWhatIsSaidByPathAndByAbstractName(t *testing.T) {
	t.Parallel()
	for name, socket := range map[string]string{"path": filepath.Join(t.TempDir(), "notify"), "abstract": "@outbox-" + uuid.NewString()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			m, err := New(variables("NOTIFY_SOCKET="+socket), 1)
			if err != nil || !m.Present() {
				t.Fatalf("got %+v, %v", m, err)
			}
			if err := m.Tell(t.Context(), Ready, Status("two\nlines")); err != nil {
				t.Fatal(err)
			}
			buffer := make([]byte, 1000)
			if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			n, err := conn.Read(buffer)
			if want := "READY=1\nSTATUS=two; lines"; err != nil || string(buffer[:n]) != want {
				t.Errorf("got %q, %v, want %q", buffer[:n], err, want)
			}
		})
	}
}

func TestWithoutAManagerNothingIsSaid(t *testing.T) {
	t.Parallel()
	m, err := New(variables("WATCHDOG_USEC=1000000"), 1)
	if err != nil || m.Present() || m.Watchdog() != 0 {
		t.Errorf("got %+v, %v", m, err)
	}
	if err := m.Tell(t.Context(), Ready); err != nil {
		t.Error(err)
	}
}

func TestAManagerThatIsGoneIsAnError(t *testing.T) {
	t.Parallel()
	m, err := New(variables("NOTIFY_SOCKET="+filepath.Join(t.TempDir(), "gone")), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Tell(t.Context(), Ready); err == nil || !strings.Contains(err.Error(), "connect to the service manager: ") {
		t.Errorf("got %v", err)
	}
}

func TestTheWatchdogOfAnotherProcessIsNotOurs(t *testing.T) {
	t.Parallel()
	const socket = "NOTIFY_SOCKET=/run/notify"
	for name, c := range map[string]struct {
		given []string
		want  time.Duration
	}{
		"none":          {[]string{socket}, 0},
		"for everybody": {[]string{socket, "WATCHDOG_USEC=30000000"}, 30 * time.Second},
		"for us":        {[]string{socket, "WATCHDOG_USEC=30000000", "WATCHDOG_PID=17"}, 30 * time.Second},
		"for another":   {[]string{socket, "WATCHDOG_USEC=30000000", "WATCHDOG_PID=18"}, 0},
	} {
		if m, err := New(variables(c.given...), 17); err != nil || m.Watchdog() != c.want {
			t.Errorf("%s: got %s, %v, want %s", name, m.Watchdog(), err, c.want)
		}
	}
}

func TestVariablesThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	for _, given := range [][]string{
		{"NOTIFY_SOCKET=run/notify"},
		{"NOTIFY_SOCKET=/run/notify", "WATCHDOG_USEC=30s"},
		{"NOTIFY_SOCKET=/run/notify", "WATCHDOG_USEC=0"},
		{"NOTIFY_SOCKET=/run/notify", "WATCHDOG_USEC=99999999999999"},
	} {
		last := given[len(given)-1]
		name, _, _ := strings.Cut(last, "=")
		if _, err := New(variables(given...), 1); err == nil || !strings.HasPrefix(err.Error(), "environment variable "+name+": ") || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%s: got %v", last, err)
		}
	}
}
