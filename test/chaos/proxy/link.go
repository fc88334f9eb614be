//go:build unix

package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// link is one connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn
	once           sync.Once
	// gone is closed by reset.
	gone chan struct{}
}

func (l *link) reset() {
	l.once.Do(func() {
		close(l.gone)
		resetConn(l.client)
		resetConn(l.server)
	})
}

func resetConn(c *net.TCPConn) {
	_ = c.SetLinger(0) // fails only on a closed one
	c.Close()
}

// pump moves one direction. An orderly end of the source is passed on as such; any other end resets the connection.
func (l *link) pump(d Direction, from, to *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		if !l.passable(d, from) {
			return
		}
		n, err := from.Read(buf)
		if n > 0 && !l.forward(d, from, to, buf[:n]) {
			return
		}
		switch {
		case errors.Is(err, io.EOF):
			// The end may not be told before a cut is over either.
			if l.passable(d, from) {
				_ = to.CloseWrite() // a connection that is gone needs no end
			}
			return
		case err != nil:
			l.failed(d, from)
			return
		}
	}
}

// forward passes a piece on, unless the sender has given the connection up while the direction was held.
func (l *link) forward(d Direction, from, to *net.TCPConn, data []byte) bool {
	watch, delay := l.settings()
	if watch != nil {
		watch(d, data)
	}
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.gone:
			return false
		}
	}
	if !l.passable(d, from) {
		return false
	}
	if _, err := to.Write(data); err != nil {
		l.failed(d, to)
		return false
	}
	return true
}

func (l *link) settings() (func(Direction, []byte), time.Duration) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	return l.proxy.watch, l.proxy.delay
}

// failed passes a reset on to the other end, when the network lets it through.
func (l *link) failed(d Direction, from *net.TCPConn) {
	if l.passable(d, from) {
		l.reset()
	}
}

// passable waits while the direction is held. It is false when the connection is over: reset by the proxy, or, found out after a hold,
// by the sender. On a real network, what such a sender had in its buffers is gone with the reset; here it has reached this process's kernel,
// and must be thrown away.
func (l *link) passable(d Direction, from *net.TCPConn) bool {
	waited := false
	for {
		l.proxy.mu.Lock()
		held, changed := l.proxy.held[d], l.proxy.changed
		l.proxy.mu.Unlock()
		if !held {
			break
		}
		waited = true
		select {
		case <-changed:
		case <-l.gone:
			return false
		}
	}
	if waited && wasReset(from) {
		l.reset()
		return false
	}
	return true
}

// wasReset asks the kernel for what the other end has done, without reading.
func wasReset(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	pending := 0
	var failed error
	err = raw.Control(func(fd uintptr) {
		pending, failed = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
	})
	return err != nil || failed != nil || pending != 0
}
