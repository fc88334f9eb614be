package devpg

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// freePort finds a port of 127.0.0.1 that nobody listens on. It stays below the ranges that systems draw client ports from, so that no
// connection takes the port while its server restarts.
func freePort() (int, error) {
	const first, count, tries = 16000, 16000, 50
	for range tries {
		port := first + rand.IntN(count)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		l.Close()
		return port, nil
	}
	return 0, errors.New("no free port between 16000 and 32000")
}
