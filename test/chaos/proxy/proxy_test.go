//go:build unix

package proxy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/test/chaos/proxy"
)

func TestMain(m *testing.M) { await.Main(m) }

// patience is how long a test waits for what must come, glance for what must not.
const patience, glance = await.Limit, 50 * time.Millisecond

// pair is a connection through a proxy, with both ends in hand.
type pair struct {
	*proxy.Proxy
	client, server *net.TCPConn
}

func newPair(t *testing.T) *pair {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := proxy.Listen(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	client, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	// Both ends are connected before the proxy has joined them.
	send(t, client, "joined?")
	receive(t, server, "joined?")
	return &pair{p, client.(*net.TCPConn), server.(*net.TCPConn)}
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatalf("send %q: %v", text, err)
	}
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("received %q, %v, want %q", got[:n], err, want)
	}
}

// silent fails the test when anything comes. It can miss what comes later, and never fails without a reason.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(glance))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v, want nothing", n, err)
	}
}

// ends waits for the end of a connection and returns how it was told; what comes before is thrown away.
func ends(t *testing.T, c net.Conn) (before []byte, err error) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	var b bytes.Buffer
	_, err = io.Copy(&b, c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection does not end")
	}
	return b.Bytes(), err
}

func TestDataPassesInBothDirections(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	send(t, p.client, "question")
	receive(t, p.server, "question")
	send(t, p.server, "answer")
	receive(t, p.client, "answer")
	if ports := p.Ports(); len(ports) != 1 || ports[0] != p.server.RemoteAddr().(*net.TCPAddr).Port {
		t.Errorf("ports %v, the server sees %s", ports, p.server.RemoteAddr())
	}
	p.client.CloseWrite()
	if rest, err := ends(t, p.server); len(rest) > 0 || err != nil {
		t.Errorf("the end came as %q, %v", rest, err)
	}
}

func TestACutHoldsWhatIsSentUntilItHeals(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Cut()
	send(t, p.client, "question")
	send(t, p.server, "answer")
	silent(t, p.server)
	silent(t, p.client)
	p.Heal()
	receive(t, p.server, "question")
	receive(t, p.client, "answer")
}

func TestAHoldLeavesTheOtherDirectionOpen(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Hold(proxy.Up)
	send(t, p.client, "question")
	send(t, p.server, "answer")
	receive(t, p.client, "answer")
	silent(t, p.server)
}

func TestWhatASenderHasResetDuringACutNeverArrives(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 1 << 20} {
		p := newPair(t)
		p.Cut()
		p.client.SetWriteDeadline(time.Now().Add(glance))
		p.client.Write(make([]byte, size)) // as much as the kernels take
		p.client.SetLinger(0)
		p.client.Close()
		silent(t, p.server)
		p.Heal()
		if got, _ := ends(t, p.server); len(got) > 0 {
			t.Errorf("%d of %d bytes came although their sender had reset the connection", len(got), size)
		}
	}
}

func TestWhatASenderHasClosedDuringACutArrives(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Cut()
	send(t, p.client, "last words")
	p.client.Close()
	silent(t, p.server)
	p.Heal()
	if got, _ := ends(t, p.server); string(got) != "last words" {
		t.Errorf("received %q", got)
	}
}

func TestAResetReachesBothEnds(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Reset()
	for name, c := range map[string]net.Conn{"client": p.client, "server": p.server} {
		if _, err := ends(t, c); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the %s's connection ended with %v, want a reset", name, err)
		}
	}
}

func TestAfterAHalfCloseTheServerHearsNothing(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.HalfClose()
	if _, err := ends(t, p.client); err != nil {
		t.Errorf("the client's connection ended with %v, want an orderly end", err)
	}
	silent(t, p.server)
	send(t, p.client, "still there")
	receive(t, p.server, "still there")
}

func TestNewConnectionsAreRefused(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Refuse()
	c, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer c.Close()
		_, err = ends(t, c)
	}
	if err == nil {
		t.Error("the connection ended in order")
	}
}

func TestAWatcherSeesDataBeforeItArrivesAndMayHoldIt(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Watch(func(d proxy.Direction, data []byte) {
		if d == proxy.Down && bytes.Contains(data, []byte("stop here")) {
			p.Hold(proxy.Up)
		}
	})
	send(t, p.server, "stop here")
	receive(t, p.client, "stop here")
	send(t, p.client, "too late")
	silent(t, p.server)
	p.Watch(nil)
	p.Heal()
	receive(t, p.server, "too late")
}

func TestASlowProxyPassesEverything(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Slow(time.Millisecond)
	text := string(bytes.Repeat([]byte("0123456789abcdef"), 20_000))
	go io.WriteString(p.client, text)
	receive(t, p.server, text)
}
