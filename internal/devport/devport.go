// Package devport chooses ports of 127.0.0.1 for servers that go away and come back at the same address.
//
// They are below the ranges that systems draw client ports from. Above, a client that dials a server that is down could be given the server's own port and
// connect to itself, and the server could not come back.
package devport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
)

// Free chooses n ports that nobody listens on.
func Free(n int) ([]int, error) {
	const low, high, tries = 16000, 32000, 1000
	ports := make([]int, 0, n)
	for range tries {
		port := low + rand.IntN(high-low)
		if slices.Contains(ports, port) || !isFree(port) {
			continue
		}
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("find %d free ports between %d and %d: only %d found", n, low, high, len(ports))
}

// One is a single such port.
func One() (int, error) {
	ports, err := Free(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
