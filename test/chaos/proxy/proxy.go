//go:build unix

// Package proxy is a TCP connection that can be broken in the ways in which networks break: cut with a reset, silent, silent in one
// direction, slow, half closed. It changes no byte.
//
//	client ──▶ [accept] ── up ──▶ server        each direction is a pump that can be held: it then reads nothing, so that what is sent
//	client ◀── [dialled] ◀ down ── server       stays in the sender's own kernel, as it does on a network that is cut
package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Direction is one of the two ways of a connection.
type Direction int

// The directions: from the client to the server, and back.
const (
	Up Direction = iota
	Down
)

// Proxy listens on the loopback interface and joins each connection to its target. Its methods may be called from any goroutine.
type Proxy struct {
	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu     sync.Mutex
	held   [2]bool
	delay  time.Duration
	refuse bool
	closed bool
	watch  func(Direction, []byte)
	links  map[*link]struct{}
	// changed is closed, and another one put in its place, whenever something above changes.
	changed chan struct{}
}

// Listen starts a proxy on a free port of 127.0.0.1. Nothing needs to listen at the target yet.
func Listen(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", target, err)
	}
	p := &Proxy{target: target, listener: l, links: map[*link]struct{}{}, changed: make(chan struct{})}
	p.pumps.Go(p.accept)
	return p, nil
}

// Addr is where clients connect to, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close resets all connections and stops listening; it returns when nothing moves any more.
func (p *Proxy) Close() {
	p.listener.Close()
	p.change(func() { p.closed = true })
	p.Reset()
	p.pumps.Wait()
}

// Hold stops everything that goes in the direction, of all connections, those to come too. The other end notices nothing.
func (p *Proxy) Hold(d Direction) { p.change(func() { p.held[d] = true }) }

// Cut is Hold in both directions: the network is silent.
func (p *Proxy) Cut() { p.change(func() { p.held = [2]bool{true, true} }) }

// Slow keeps each piece of data, up to 32 KiB, for the time d.
func (p *Proxy) Slow(d time.Duration) { p.change(func() { p.delay = d }) }

// Refuse makes the proxy reset each new connection at once.
func (p *Proxy) Refuse() { p.change(func() { p.refuse = true }) }

// Heal lets everything pass as before. What a sender has given up meanwhile, by a reset, never arrives.
func (p *Proxy) Heal() {
	p.change(func() { p.held, p.delay, p.refuse = [2]bool{}, 0, false })
}

// Reset cuts the connections of now by a reset at both ends.
func (p *Proxy) Reset() {
	for _, l := range p.current() {
		l.reset()
	}
}

// HalfClose tells the clients of now that the server has closed, and the servers nothing.
func (p *Proxy) HalfClose() {
	for _, l := range p.current() {
		_ = l.client.CloseWrite() // a connection that is gone already is closed enough
	}
}

// Watch has f called with every piece of data before it is passed on, or held; nil ends that. f may hold the proxy.
func (p *Proxy) Watch(f func(Direction, []byte)) { p.change(func() { p.watch = f }) }

// Ports are the local ports of the connections to the server: by them the server knows its clients.
func (p *Proxy) Ports() []int {
	var ports []int
	for _, l := range p.current() {
		ports = append(ports, l.server.LocalAddr().(*net.TCPAddr).Port)
	}
	return ports
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) current() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*link, 0, len(p.links))
	for l := range p.links {
		all = append(all, l)
	}
	return all
}

// dialTimeout bounds the way to the target, which is on this machine.
const dialTimeout = 5 * time.Second

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.pumps.Go(func() { p.join(conn.(*net.TCPConn)) })
	}
}

// join connects a client with the target and moves data until both directions have ended.
func (p *Proxy) join(client *net.TCPConn) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.target)
	if err != nil {
		resetConn(client)
		return
	}
	l := &link{proxy: p, client: client, server: server.(*net.TCPConn), gone: make(chan struct{})}
	if !p.add(l) {
		l.reset()
		return
	}
	defer p.remove(l)
	var both sync.WaitGroup
	both.Go(func() { l.pump(Up, l.client, l.server) })
	both.Go(func() { l.pump(Down, l.server, l.client) })
	both.Wait()
	l.client.Close()
	l.server.Close()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || p.closed {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
