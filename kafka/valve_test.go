package kafka

import (
	"net"
	"sync"
	"sync/atomic"
)

// valve is the network in front of a fake broker. While it is shut nothing passes, as behind a cable that was pulled: the sender sees
// only that its socket fills up.
type valve struct {
	mu      sync.Mutex
	open    chan struct{} // closed while the valve is open
	waiting atomic.Int64  // bytes that have arrived and are held
	conns   atomic.Int64  // connections that the broker has not given up
}

func newValve() *valve {
	v := &valve{open: make(chan struct{})}
	close(v.open)
	return v
}

func (v *valve) shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open = make(chan struct{})
}

func (v *valve) heal() {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.open:
	default:
		close(v.open)
	}
}

func (v *valve) pass() {
	v.mu.Lock()
	open := v.open
	v.mu.Unlock()
	<-open
}

// listen is for kfake.ListenFn.
func (v *valve) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return &valveListener{l, v}, nil
}

type valveListener struct {
	net.Listener
	valve *valve
}

func (l *valveListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := c.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil { // what has arrived and was not read must be less than a record
		return nil, err
	}
	l.valve.conns.Add(1)
	return &valveConn{Conn: c, valve: l.valve}, nil
}

type valveConn struct {
	net.Conn
	valve *valve
	once  sync.Once
}

func (c *valveConn) Read(b []byte) (int, error) {
	c.valve.pass()
	n, err := c.Conn.Read(b)
	c.valve.waiting.Add(int64(n))
	c.valve.pass() // it was shut while the read was waiting
	c.valve.waiting.Add(int64(-n))
	return n, err
}

func (c *valveConn) Close() error {
	c.once.Do(func() { c.valve.conns.Add(-1) })
	return c.Conn.Close()
}
