package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/devport"
	"github.com/outbox-relay/outbox/relay"
)

func TestAfterDestroyNothingLeavesEvenWhenTheNetworkHeals(t *testing.T) {
	t.Parallel()
	for name, secured := range map[string]bool{"plain": false, "under TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newBlackHole(t, secured, false)
			h.fillAndDestroy()
			h.heal()
			h.eventually("all connections of the client to end", func() bool { return h.valve.conns.Load() <= h.observers })
			if n := h.records(); n != 1 {
				t.Errorf("%d records in the topic, want the 1 from before", n)
			}
		})
	}
}

// The same test on a publisher that only stops using its client: what it had buffered arrives. So the test above can fail.
func TestJustNotUsingTheClientIsNotEnough(t *testing.T) {
	t.Parallel()
	h := newBlackHole(t, false, true)
	session := h.publisher.session()
	t.Cleanup(func() { session.net.lenient = false; session.net.destroy(); session.producers[0].client.Close() })
	h.fillAndDestroy()
	h.heal()
	h.eventually("a buffered record to arrive", func() bool { return h.records() > 1 })
}

type blackHole struct {
	t         *testing.T
	valve     *valve
	publisher *Publisher
	admin     *kadm.Client
	observers int64
	topic     string
	outcomes  *outcomes
}

func newBlackHole(t *testing.T, secured, lenient bool) *blackHole {
	h := &blackHole{t: t, valve: newValve(), topic: "test-service.hole", outcomes: newOutcomes(t)}
	opts := []kfake.Opt{kfake.SeedTopics(1, h.topic), kfake.ListenFn(h.valve.listen)}
	cfg, observe := Config{lenient: lenient}, []kgo.Opt{}
	if secured {
		server, client := certificates(t)
		opts = append(opts, kfake.TLS(server))
		cfg.TLSConfig = client
		observe = append(observe, kgo.DialTLSConfig(client))
	}
	c := fake(t, opts...)
	t.Cleanup(h.valve.heal)
	cfg.Brokers = c.ListenAddrs()
	h.admin = kadm.NewClient(plainClient(t, c.ListenAddrs(), observe...))
	h.records()
	h.observers = h.valve.conns.Load()

	h.publisher = opened(t, cfg)
	h.publisher.Publish([]*relay.Event{event(0, h.topic, "a")}, h.outcomes.done)
	h.outcomes.wait(1)
	return h
}

// fillAndDestroy publishes more than sockets hold into the black hole, in records each of which is more than a broker's side of a socket holds, and destroys
// the publisher when some of it is on the way.
func (h *blackHole) fillAndDestroy() {
	h.valve.shut()
	const n = 30
	var events []*relay.Event
	want := map[int64]string{0: ""}
	for id := 1; id <= n; id++ {
		events = append(events, sized(h.t, id, h.topic, "a", 700_000))
		want[int64(id)] = "unknown " + codeDestroyed
	}
	h.publisher.Publish(events, h.outcomes.done)
	h.eventually("bytes on the way", func() bool { return h.valve.waiting.Load() > 0 })
	h.publisher.Destroy()
	if got := h.outcomes.count(); got != n+1 {
		h.t.Errorf("%d events are done when Destroy returns, want %d", got, n+1)
	}
	h.outcomes.want(want)
}

func (h *blackHole) heal() { h.valve.heal() }

func (h *blackHole) records() int64 {
	ends, err := h.admin.ListEndOffsets(testContext(h.t), h.topic)
	if err != nil {
		h.t.Fatal(err)
	}
	end, _ := ends.Lookup(h.topic, 0)
	return end.Offset
}

func (h *blackHole) eventually(what string, is func() bool) { eventually(h.t, what, is) }

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); !is(); <-again.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// certificates returns the two sides of TLS for 127.0.0.1.
func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(cert)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	return server, &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
}

// writes is a connection that tells of its writes.
type writes struct {
	net.Conn
	wrote func()
}

func (w writes) Write(b []byte) (int, error) {
	w.wrote()
	return len(b), nil
}

func TestNoRequestLeavesWhileRecordsAreBeingBuffered(t *testing.T) {
	t.Parallel()
	n := newNetwork(Config{})
	var released atomic.Bool
	done := make(chan struct{})
	s := &socket{network: n, Conn: writes{wrote: func() {
		if !released.Load() {
			t.Error("a request left")
		}
	}}}
	n.hold()
	go func() {
		defer close(done)
		_, _ = s.Write([]byte("request"))
	}()
	for range 1000 {
		runtime.Gosched() // the writer has every chance
	}
	released.Store(true)
	n.release()
	<-done
}

func TestASocketThatIsDialledDuringDestroyIsResetToo(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	n := newNetwork(Config{})
	n.destroy()
	if c, err := n.dial(testContext(t), "tcp", l.Addr().String()); err == nil {
		t.Errorf("a destroyed network gave a connection: %v", c)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = accepted.Close() }()
	if _, err := accepted.Read(make([]byte, 1)); err == nil {
		t.Error("the connection stayed open")
	}
}

// The client closes a connection whose request took too long. What the kernel still holds of it must not arrive when the network heals.
func TestAConnectionThatTheClientClosesIsReset(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c, err := newNetwork(Config{}).dial(testContext(t), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = accepted.Close() }()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := accepted.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the other side sees %v, want a reset", err)
	}
}

// The broker is gone with events outstanding: the client tries again and again, but not in a busy loop, and goes on when it is back.
func TestDialsArePacedWhileTheBrokerIsDownAndEverythingFlowsWhenItIsBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port, err := devport.One()
	if err != nil {
		t.Fatal(err)
	}
	start := func() *kfake.Cluster {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.SeedTopics(2, "test-service.paced"), kfake.Ports(port))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := start()
	var dials atomic.Int64
	p := opened(t, Config{Brokers: c.ListenAddrs(), dialled: func(string) { dials.Add(1) }})
	o := newOutcomes(t)
	p.Publish([]*relay.Event{event(0, "test-service.paced", "a")}, o.done)
	o.wait(1)
	c.Close()

	before, since := dials.Load(), time.Now()
	want := map[int64]string{0: ""}
	var events []*relay.Event
	for id := 1; id <= 1000; id++ {
		events = append(events, event(id, "test-service.paced", fmt.Sprint(id%20)))
		want[int64(id)] = ""
	}
	p.Publish(events, o.done)
	const tries = 16
	eventually(t, "the client to dial again", func() bool { return dials.Load()-before >= tries })
	// Each of the few loops of the client pauses a quarter of a second between two dials.
	if took := time.Since(since); took < tries/8*retryBackoff {
		t.Errorf("%d dials in %s", tries, took)
	}

	c = start()
	t.Cleanup(c.Close)
	o.want(want)
}
