package cli

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/fleet"
)

// serving returns the address of the paths of no relay at all.
func serving(t *testing.T) string {
	t.Helper()
	log := &lines{}
	server, err := (&app{}).serve("--listen", "127.0.0.1:0", served{relays: fleet.New[*sourceRelay](nil, fleet.Config{})}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	_, address, _ := strings.Cut(log.String(), "address=")
	return strings.TrimSpace(address)
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Whoever holds connections open, with headers that never end, takes neither the memory of the process nor the probe's turn.
func TestAProbeGetsInHoweverManyConnectionsAreHeldOpen(t *testing.T) {
	t.Parallel()
	address := serving(t)
	var closed atomic.Int64
	for range 3 * mostConnections {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
			continue // it was dismissed already
		}
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			closed.Add(1)
		}()
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + address + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	await.Until(t, "the connections that are too many are closed", func() bool { return closed.Load() >= mostConnections })
}

func TestHeadersThatAreTooLargeAreRefused(t *testing.T) {
	t.Parallel()
	conn, err := net.Dial("tcp", serving(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = fmt.Fprintf(conn, "GET /livez HTTP/1.1\r\nHost: x\r\nX-Large: %s\r\n\r\n", strings.Repeat("x", 2*mostHeaderBytes))
	}()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "431") {
		t.Errorf("the answer is %q: %v", line, err)
	}
}

func TestOneThatIsAnsweredIsNotDismissedForOneThatWaits(t *testing.T) {
	t.Parallel()
	c := &crowd{}
	pipe := func() net.Conn { a, b := net.Pipe(); t.Cleanup(func() { _, _ = a.Close(), b.Close() }); return a }
	busy, idle := pipe(), pipe()
	for _, conn := range []net.Conn{busy, idle} {
		c.note(conn, http.StateNew)
	}
	c.note(busy, http.StateActive)
	for range mostConnections - 1 {
		c.note(pipe(), http.StateNew)
	}
	if err := idle.SetDeadline(time.Now()); err == nil || len(c.open) != mostConnections || c.open[0].conn != busy {
		t.Errorf("of %d the one that waits is still there: %v", len(c.open), err)
	}
}

// All who scrape at once get the numbers, by one reading.
func TestAllWhoAskAtOnceHaveOneAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shared[int64]
		var asked atomic.Int64
		ask := func() int64 {
			<-time.After(time.Second)
			return asked.Add(1)
		}
		for round := int64(1); round <= 2; round++ {
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					if got := s.get(ask); got != round {
						t.Errorf("the answer is %d, want %d", got, round)
					}
				})
			}
			wg.Wait()
		}
	})
}
