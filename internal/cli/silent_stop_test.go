package cli

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// freezer stands between a relay and its server. It can fall silent, as a server does that is stopped or behind a network that swallows everything: connections stay, new ones are taken, and nothing
// is answered.
type freezer struct {
	mu     sync.Mutex
	frozen bool
	down   bool
	conns  []net.Conn
}

// freezing returns the freezer and the database's URL through it.
func freezing(t *testing.T, databaseURL string) (f *freezer, throughIt string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f = &freezer{}
	var wg sync.WaitGroup
	server := u.Host
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.between(client, server) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		f.cut()
		wg.Wait()
	})
	u.Host = listener.Addr().String()
	return f, u.String()
}

func (f *freezer) between(client net.Conn, address string) {
	f.keep(client)
	if f.isFrozen() {
		return
	}
	server, err := net.Dial("tcp", address)
	if err != nil {
		_ = client.Close()
		return
	}
	f.keep(server)
	var wg sync.WaitGroup
	wg.Go(func() { f.copy(server, client) })
	f.copy(client, server)
	wg.Wait()
}

func (f *freezer) keep(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, c)
	if f.down {
		_ = c.Close()
	}
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
}

// cut ends all connections, and those that come.
func (f *freezer) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = true
	for _, c := range f.conns {
		_ = c.Close()
	}
}

func (f *freezer) isFrozen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frozen
}

// copy swallows what comes when nothing is answered any more.
func (f *freezer) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if f.isFrozen() {
			if err != nil {
				return
			}
			continue
		}
		if n > 0 {
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			_ = to.Close()
			if err != io.EOF {
				_ = from.Close()
			}
			return
		}
	}
}

// Nobody waits for the goodbye of a server that says nothing: a service manager would kill the relay.
func TestAStopDoesNotWaitForAServerThatIsSilent(t *testing.T) {
	t.Parallel()
	server, address := freezing(t, pgtest.New(t).URL)
	cluster := newCluster(t, "shop.order")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log := &transcript{}
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"relay", "--retain", "1h"}, strings.NewReader(""), &bytes.Buffer{}, log,
			[]string{"DATABASE_URL=" + address, "KAFKA_BROKERS=" + strings.Join(cluster.ListenAddrs(), ",")})
	}()
	await.Until(t, "the relay has lanes", func() bool { return strings.Contains(log.String(), `"msg":"lanes taken"`) })
	server.freeze()
	stop()
	if <-ended; !strings.Contains(log.String(), `"msg":"stopped"`) {
		t.Errorf("the log does not tell of the stop: %s", log)
	}
}

// A pool alone would wait for the statement, and for ever.
func TestPoolsAreClosedSoonWhileAStatementWaitsForASilentServer(t *testing.T) {
	t.Parallel()
	server, address := freezing(t, pgtest.New(t).URL)
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.freeze()
	var statement sync.WaitGroup
	statement.Go(func() {
		// It ends when the connections are cut.
		_, _ = pool.Exec(context.WithoutCancel(t.Context()), "SELECT 1")
	})
	await.Until(t, "the statement is sent", func() bool { return pool.Stat().AcquiredConns() == 1 })
	closeSoon(pool, nil)
	server.cut()
	statement.Wait()
	pool.Close()
}

func TestAServerThatIsSilentIsNoMatterOfTLS(t *testing.T) {
	t.Parallel()
	server, address := freezing(t, pgtest.New(t).URL)
	server.freeze()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = "sslmode=require"
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = pgconn.Connect(ctx, u.String())
	if text := explain(err).Error(); !strings.Contains(text, "no answer in time") || strings.Contains(text, "sslmode") {
		t.Errorf("got %s", text)
	}
}
