package doctor

import (
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/checkup"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// muteable stands before a server, and lets nothing through any more when it is told to; connections stay open.
type muteable struct {
	net.Listener
	muted atomic.Bool
	ended chan struct{}
}

// end breaks the connections: the driver waits long for a server that is silent when it closes one.
func (m *muteable) end() { close(m.ended) }

// beforeServer returns it, and the server's address by way of it.
func beforeServer(t *testing.T, db *pgtest.DB) (*muteable, string) {
	t.Helper()
	cfg, err := pgconn.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &muteable{Listener: listener, ended: make(chan struct{})}
	t.Cleanup(func() { _ = listener.Close() })
	network, server := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial(network, server)
			if err != nil {
				_ = client.Close()
				return
			}
			go func() {
				<-m.ended
				_, _ = client.Close(), there.Close()
			}()
			go m.pass(client, there)
			go m.pass(there, client)
		}
	}()
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host, u.RawQuery = listener.Addr().String(), "sslmode=disable"
	return m, u.String()
}

func (m *muteable) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if m.muted.Load() {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// soon is a limit for what gets no answer, and whole one that is long enough for what gets one.
const soon, whole = 300 * time.Millisecond, 15 * time.Second

func examineWithin(t *testing.T, pool *pgxpool.Pool, limit time.Duration, limits checkup.Config) Report {
	t.Helper()
	r, err := Examine(t.Context(), Config{Pool: pool, Table: "public.outbox_event", WithoutKafka: "a test without", Limit: limit, Checkups: limits})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// vitals are the subjects of what matters and was not seen.
func vitals(r Report) (list []string) {
	for _, u := range r.NotLookedAt {
		if u.Vital {
			list = append(list, u.What)
		}
	}
	return list
}

func TestALockKeepsNobodyFromAReportAndNothingIsReadyThatWasNotSeen(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tx, err := db.Conn(t).Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "LOCK TABLE outbox.source")
	}
	if err != nil {
		t.Fatal(err)
	}
	r := examineWithin(t, poolOf(t, db.URL), whole, checkup.Config{})
	if got := vitals(r); !slices.Equal(got, []string{schemaSubject}) || r.Ready {
		t.Errorf("not seen of what matters: %q, ready %t", got, r.Ready)
	}
	if !slices.Contains(r.Sound, rightsSubject) || !slices.Contains(r.Sound, "no trigger slows the writers down") {
		t.Errorf("what was to be seen is not in %q", r.Sound)
	}
}

func TestAServerThatFallsSilentEndsTheExaminationSoon(t *testing.T) {
	t.Parallel()
	mute, address := beforeServer(t, pgtest.New(t))
	defer mute.end()
	pool := poolOf(t, address)
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	mute.muted.Store(true)
	r := examineWithin(t, pool, soon, checkup.Config{})
	if got := vitals(r); !slices.Equal(got, []string{writesSubject, poolerSubject, rightsSubject, schemaSubject}) || r.Ready || len(r.Sound) > 0 {
		t.Errorf("not seen of what matters: %q, ready %t, sound %q", got, r.Ready, r.Sound)
	}
	if last := r.NotLookedAt[len(r.NotLookedAt)-2]; last.Why != notAnswered || last.Vital {
		t.Errorf("a look that was not made: %+v", last)
	}
}

func TestAServerThatFallsSilentLaterIsNotAskedForEachOtherThing(t *testing.T) {
	t.Parallel()
	mute, address := beforeServer(t, pgtest.New(t))
	defer mute.end()
	pool := poolOf(t, address)
	// The clocks are compared second.
	r := examineWithin(t, pool, whole, checkup.Config{Now: func() time.Time { mute.muted.Store(true); return time.Now() }})
	var asked, not int
	for _, u := range r.NotLookedAt {
		if strings.HasPrefix(u.Why, "it took longer than ") {
			asked++
		}
		if u.Why == notAnswered {
			not++
		}
	}
	if asked != unanswered || not < 7 || !r.Ready || len(vitals(r)) > 0 {
		t.Errorf("%d looks had no answer, %d were not made: %+v", asked, not, r)
	}
}

func TestAServerThatTakesConnectionsAndSaysNothingIsNotReady(t *testing.T) {
	t.Parallel()
	mute, address := beforeServer(t, pgtest.New(t))
	defer mute.end()
	mute.muted.Store(true)
	if r := examineWithin(t, poolOf(t, address), soon, checkup.Config{}); r.Ready || len(r.Sound) > 0 {
		t.Errorf("the report is %+v", r)
	}
}
