package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A pool that is told to keep connections would make them at once.
func TestTheSettingsAreLookedAtWithoutConnecting(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			_ = conn.Close()
		}
	}()
	at := listener.Addr().String()
	env := []string{"DATABASE_URL=postgres://me@" + at + "/shop?pool_min_conns=2&pool_min_idle_conns=2", "KAFKA_BROKERS=" + at, "OUTBOX_TOPICS=shop.order"}
	for _, args := range [][]string{{"config", "validate"}, {"config", "print"}, {"config", "validate", "--mode", "competing"}} {
		if got := runWith(t, env, args...); got.code != exitOK {
			t.Errorf("%v: %+v", args, got)
		}
	}
	// Who has dialled by now is in the queue of the listener before this call.
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the listener closes what it accepts")
	}
	_ = conn.Close()
	_ = listener.Close()
	<-done
	if n := calls.Load() - 1; n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// Whatever a file is, the command ends with one line and 78.
func TestAFileThatCannotBeReadEndsWith78(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"a tab": "sources:\n\t- name: a\n", "no unit": "poll-interval: 100\n", "no UTF-8": "relay-name: M\xfcnchen\n", "empty": "", "a key twice": "settle: mark\nsettle: mark\n", "no for a word": "settle: no\n",
	} {
		path := filepath.Join(t.TempDir(), "outbox.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		env := []string{"DATABASE_URL=postgres://me@127.0.0.1:1/shop", "KAFKA_BROKERS=127.0.0.1:1", "OUTBOX_LOG_FORMAT=text"}
		for _, args := range [][]string{{"config", "validate", path}, {"config", "print", "--config", path}, {"relay", "--config", path}} {
			got := runWith(t, env, args...)
			if got.code != exitConfig || strings.Count(got.errs, "\n") != 1 || !strings.HasPrefix(got.errs, "outbox: configuration: outbox.yaml:") || got.out != "" {
				t.Errorf("%s: outbox %v: %+v", name, args, got)
			}
		}
	}
}
