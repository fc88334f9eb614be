package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
)

// wire is what stands between the source and its server. Its zero value passes everything on.
type wire struct {
	// refuse names a setting that ends a startup, as at a pooler.
	refuse string
	// otherPID makes the startup tell a process id that is not the backend's, as poolers do.
	otherPID bool
	// cut makes the network swallow all that is sent, without a word; connections that exist already stay so.
	cut     atomic.Bool
	dialled atomic.Int64
}

// through returns a pool of the same database whose configuration leads through the wire.
func (w *wire) through(t *testing.T, db *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	return reconfigured(t, db, func(c *pgxpool.Config) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			w.dialled.Add(1)
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &wireConn{Conn: conn, wire: w}, nil
		}
	})
}

type wireConn struct {
	net.Conn
	wire *wire

	mu      sync.Mutex
	refusal []byte
	refused bool
	dead    bool
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = c.dead || c.wire.cut.Load()
	if c.dead {
		return len(p), nil
	}
	if c.wire.refuse != "" && bytes.Contains(p, []byte("\x00"+c.wire.refuse+"\x00")) {
		c.refused = true
		refusal := &pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + c.wire.refuse}
		var err error
		if c.refusal, err = refusal.Encode(nil); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *wireConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	if c.refused {
		defer c.mu.Unlock()
		n := copy(p, c.refusal)
		c.refusal = c.refusal[n:]
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	c.mu.Unlock()
	n, err := c.Conn.Read(p)
	if at := bytes.Index(p[:n], []byte("K\x00\x00\x00\x0c")); c.wire.otherPID && at >= 0 && at+9 <= n {
		binary.BigEndian.PutUint32(p[at+5:], 1<<30)
	}
	return n, err
}

// PgBouncer lets only a few settings through, and refuses the connection for any other.
func TestAPoolerThatRefusesSettingsIsAskedForNone(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `ALTER DATABASE `+pgx.Identifier{db.Config().ConnConfig.Database}.Sanitize()+` SET default_transaction_isolation = 'serializable'`)
	w := &wire{refuse: "statement_timeout"}
	s := newSource(t, w.through(t, db), Config{ApplicationName: "shop relay"})
	info, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "dials", w.dialled.Load(), int64(10))
	wantText(t, textError(strings.Join(info.Warnings, "\n")), "default_transaction_isolation is serializable")
	same(t, "sessions by name", queryOne[int](t, db, `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'shop relay'`), 5)
	c := claim(t, s, owner("a"))
	callAll(t, s, c, insert(t, db, orders, 1)[0], "behind a pooler")
}

// A pooler's process ids name backends that may be anybody's: a writer's locks must not be taken for the source's own.
func TestBehindAPoolerNoBackendIsTheSourcesOwn(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	for _, w := range []*wire{{}, {otherPID: true}} {
		s := openSource(t, w.through(t, db), Config{})
		own := s.open.Load().reader.locks.own
		if w.otherPID != (len(own) == 0) {
			t.Errorf("own backends = %v with foreign process ids %t", own, w.otherPID)
		}
	}
}

func TestOwnSessionsCannotWaitForEver(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	backlog(t, s)
	for _, session := range append(s.term(), s.watch) {
		err := session.Run(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
			var got []string
			err := conn.QueryRow(ctx, `SELECT array(SELECT name || '=' || setting FROM pg_settings
WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'lock_timeout', 'application_name') ORDER BY name)`).Scan(&got)
			same(t, "settings of the "+session.name, got, []string{
				"application_name=outbox-relay", "idle_in_transaction_session_timeout=30000", "lock_timeout=10000", "statement_timeout=30000",
			})
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// The network swallows everything and nobody is told (BL-094): calls end by their limit, and Open gives up the dead connections.
func TestAHalfOpenConnectionIsNoticedAndReplaced(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	var w wire
	s := openSource(t, w.through(t, db), Config{})
	c := claim(t, s, owner("a"))
	ref := insert(t, db, orders, 1)[0]
	backlog(t, s)
	for _, session := range append(s.term(), s.watch) {
		session.limit = 300 * time.Millisecond
	}
	w.cut.Store(true)
	for name, call := range calls(s, c, ref) {
		if err := call(context.Background()); err == nil {
			t.Errorf("%s through a cut network gave no error", name)
		}
	}
	if _, err := s.Open(t.Context()); err == nil {
		t.Error("Open through a cut network gave no error")
	}
	w.cut.Store(false)
	for _, session := range append(s.term(), s.watch) {
		session.limit = pg.CallTimeout
	}
	if _, err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	callAll(t, s, claim(t, s, c.Owner), ref, "when the network is back")
}

func TestBeforeConnectGivesTheCredentials(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	var asked atomic.Int64
	refuse := errors.New("no token")
	pool := reconfigured(t, db, func(c *pgxpool.Config) {
		c.BeforeConnect = func(_ context.Context, cc *pgx.ConnConfig) error {
			if asked.Add(1) > 5 {
				return refuse
			}
			cc.RuntimeParams["search_path"] = "pg_catalog"
			return nil
		}
	})
	s := openSource(t, pool, Config{})
	same(t, "asked for each connection", asked.Load(), int64(5))
	if _, err := s.Backlog(t.Context()); !errors.Is(err, refuse) {
		t.Errorf("Backlog = %v, want the error of BeforeConnect", err)
	}
	claim(t, s, owner("a"))
}
