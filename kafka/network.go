package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errDestroyed = errors.New("the client was destroyed")
	errLate      = errors.New("the lease has run out: the client was destroyed before it sent anything more")
)

// network makes and remembers the sockets of one client, so that they can be reset. It also holds back requests while records are
// being buffered.
type network struct {
	// secured returns the configuration of TLS for a new connection; nil for one without.
	secured func() *tls.Config
	dialled func(address string)
	lenient bool
	// late tells that nothing may be sent any more; expired is called when a request would have been.
	late    func() bool
	expired func()
	naming  naming

	// gate is held while records are being buffered. It is never held during I/O: a socket that does not move must not stop Publish.
	gate sync.Mutex

	mu        sync.Mutex
	sockets   map[net.Conn]struct{}
	destroyed bool
}

func newNetwork(c Config) *network {
	return &network{secured: c.secured(), naming: naming{now: c.now}, dialled: c.dialled, lenient: c.lenient, sockets: map[net.Conn]struct{}{},
		late: func() bool { return false }, expired: func() {}}
}

// dial is the client's dialer. The client ignores its own dial timeout when it has one, so the timeout is here.
func (n *network) dial(ctx context.Context, proto, address string) (net.Conn, error) {
	if n.dialled != nil {
		n.dialled(address)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, proto, address)
	if err != nil {
		return nil, err
	}
	if err := n.remember(raw); err != nil {
		return nil, err
	}
	secured, certified, err := n.secure(ctx, raw, address)
	if err != nil {
		n.forget(raw)
		return nil, errors.Join(err, raw.Close())
	}
	return &socket{Conn: secured, raw: raw, network: n, certified: certified}, nil
}

// secure encrypts a connection, and tells whether it has brought a client certificate.
func (n *network) secure(ctx context.Context, raw net.Conn, address string) (conn net.Conn, certified bool, err error) {
	cfg := n.secured()
	if cfg == nil {
		return raw, false, nil
	}
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, false, err
		}
		cfg.ServerName = host
	}
	encrypted := tls.Client(raw, cfg)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return nil, false, refusedHere(err, cfg)
	}
	return encrypted, hasCertificate(cfg), nil
}

// secured says how connections are encrypted.
func (c Config) secured() func() *tls.Config {
	if c.tlsFiles != nil {
		return c.tlsFiles.config
	}
	return func() *tls.Config { return c.TLSConfig }
}

// remember takes a socket into care, or resets it when it came too late.
func (n *network) remember(raw net.Conn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.destroyed {
		reset(raw)
		return errDestroyed
	}
	n.sockets[raw] = struct{}{}
	return nil
}

func (n *network) forget(raw net.Conn) {
	n.mu.Lock()
	delete(n.sockets, raw)
	n.mu.Unlock()
}

// destroy resets every socket, and every one to come. When it returns, nothing leaves the process any more: linger 0 makes the kernel
// throw away what it has buffered, and Close waits for a write that is under way.
func (n *network) destroy() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lenient {
		return
	}
	n.destroyed = true
	for raw := range n.sockets {
		reset(raw)
	}
	clear(n.sockets)
}

// lingerNot makes Close throw away what the kernel has buffered, and end the connection with a reset.
func lingerNot(raw net.Conn) {
	if c, ok := raw.(interface{ SetLinger(sec int) error }); ok {
		_ = c.SetLinger(0) // it fails only on a socket that is closed already
	}
}

func reset(raw net.Conn) {
	lingerNot(raw)
	_ = raw.SetDeadline(time.Unix(1, 0)) // wakes a write that hangs, so that Close need not wait for it
	_ = raw.Close()
}

// hold keeps requests from leaving until release.
func (n *network) hold() { n.gate.Lock() }

func (n *network) release() { n.gate.Unlock() }

// socket is a connection as the client sees it.
type socket struct {
	net.Conn // the encrypted side when there is one
	raw      net.Conn
	network  *network
	tap      wiretap
	// heard tells that the broker has answered.
	heard atomic.Bool
	// certified tells that it has brought a client certificate.
	certified bool
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.tap.read(b[:n], &s.network.naming)
	if n > 0 {
		s.heard.Store(true)
	}
	if err != nil {
		err = refusedThere(err, s.certified)
	}
	return n, err
}

// Write waits while records are being buffered. The process may have stood still until now, so whether it may still send is asked last.
func (s *socket) Write(b []byte) (int, error) {
	s.network.gate.Lock()
	s.network.gate.Unlock() //nolint:staticcheck // passing the gate is all that is wanted
	if s.network.late() {
		s.network.expired()
		return 0, errLate
	}
	s.tap.wrote(b, &s.network.naming)
	n, err := s.Conn.Write(b)
	if err != nil && !s.heard.Load() {
		err = s.hear(err)
	}
	return n, err
}

// hear returns what the broker has said before it hung up. One that does not accept a client certificate does so when the handshake has ended for this side, which may
// notice by its first write. Nobody else reads before that.
func (s *socket) hear(unsaid error) error {
	if _, encrypted := s.Conn.(*tls.Conn); !encrypted || s.SetReadDeadline(time.Now().Add(time.Second)) != nil {
		return unsaid
	}
	_, err := s.Conn.Read(make([]byte, 1))
	if refusal := refusedThere(err, s.certified); isA[*tlsError](refusal) {
		return refusal
	}
	return unsaid
}

// Close resets the connection. The client closes one whose request was not answered in time, and the kernel would go on sending what it holds of it for
// minutes: behind a network that heals, that is after another relay has taken over. Nothing is owed to a broker here.
func (s *socket) Close() error {
	s.network.forget(s.raw)
	lingerNot(s.raw)
	return s.Conn.Close()
}
