package cli

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// closeLimit is how long the end of a command waits for the server's goodbye.
const closeLimit = 2 * time.Second

// closeSoon closes the pools that are there. A pool waits for every connection that is being made, used or closed, and each of them for its server: one that is silent would keep the process for more than a
// minute, and a service manager kill it. The end of the process closes what is left.
func closeSoon(pools ...*pgxpool.Pool) {
	soon(func() {
		var wg sync.WaitGroup
		for _, pool := range pools {
			if pool != nil {
				wg.Go(pool.Close)
			}
		}
		wg.Wait()
	})
}

// soon waits for f, but not longer than the limit.
func soon(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(closeLimit):
	}
}

func closePools(parts []*part) {
	var pools []*pgxpool.Pool
	for _, p := range parts {
		pools = append(pools, p.pool)
	}
	closeSoon(pools...)
}
