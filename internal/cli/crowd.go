package cli

import (
	"net"
	"net/http"
	"sync"
)

// What a client may make the process hold: so many connections, and so many bytes of headers for each. A probe and a scrape need a few hundred bytes of one.
const (
	mostConnections = 128
	mostHeaderBytes = 16 << 10
)

// crowd bounds the connections of a server. The oldest one has to go for a new one, one that waits for a request before one that is answered: so a probe always
// gets in, however many connections somebody holds open.
type crowd struct {
	mu sync.Mutex
	// open are the connections in the order in which they came.
	open []guest
}

type guest struct {
	conn net.Conn
	busy bool
}

// note is the server's ConnState. It is called before the connection is served.
func (c *crowd) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := -1
	for i, g := range c.open {
		if g.conn == conn {
			at = i
		}
	}
	switch state {
	case http.StateNew:
		if len(c.open) >= mostConnections {
			c.dismiss()
		}
		c.open = append(c.open, guest{conn: conn})
	case http.StateActive, http.StateIdle:
		if at >= 0 {
			c.open[at].busy = state == http.StateActive
		}
	case http.StateHijacked, http.StateClosed:
		if at >= 0 {
			c.open = append(c.open[:at], c.open[at+1:]...)
		}
	}
}

func (c *crowd) dismiss() {
	leaves := 0
	for i, g := range c.open {
		if !g.busy {
			leaves = i
			break
		}
	}
	_ = c.open[leaves].conn.Close()
	c.open = append(c.open[:leaves], c.open[leaves+1:]...)
}
