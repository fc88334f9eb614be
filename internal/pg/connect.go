package pg

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultApplicationName is what the relay's own connections are called, and how they are told from writers.
const DefaultApplicationName = "outbox-relay"

// OfRelay tells of a session of pg_stat_activity, as a, that it is a relay's: the name of a source may follow.
const OfRelay = `coalesce(a.application_name, '') ~ '^` + DefaultApplicationName + `( |$)'`

// connectTimeout bounds one attempt to connect where the pool's own configuration sets no bound.
const connectTimeout = 10 * time.Second

// keepAlive makes the kernel notice within about half a minute that the other end is gone without a word.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

// Connector makes the source's own connections the way the application's pool makes its: same server, same credentials, same
// dialer and BeforeConnect. AfterConnect is not called: what the application wants of its sessions is none of ours.
type Connector struct {
	Pool *pgxpool.Pool
	// ApplicationName is shown in pg_stat_activity.
	ApplicationName string
}

// Connect sends the wishes of all.
func (c Connector) Connect(ctx context.Context) (*pgx.Conn, error) {
	return c.ConnectWith(ctx, wishes())
}

// ConnectWith sends other wishes.
func (c Connector) ConnectWith(ctx context.Context, wishes map[string]string) (*pgx.Conn, error) {
	settings := c.settings()
	maps.Copy(settings, wishes)
	conn, err := c.attempt(ctx, settings)
	if refusesSettings(err) {
		return c.attempt(ctx, c.settings())
	}
	return conn, err
}

// settings are sent in the startup message, so no statement is needed for them and none is left behind in a pooler's connection. Every
// pooler knows these. Without a DateStyle of its own, a session would give times in the database's, which the driver does not read.
func (c Connector) settings() map[string]string {
	return map[string]string{"application_name": c.ApplicationName, "datestyle": "ISO"}
}

// wishes are sent too where no pooler refuses them. The work needs none of them to be right: they keep a session from waiting for ever when
// this process is gone.
func wishes() map[string]string {
	return map[string]string{
		"default_transaction_isolation":       "read committed",
		"statement_timeout":                   Milliseconds(CallTimeout),
		"idle_in_transaction_session_timeout": Milliseconds(CallTimeout),
		"lock_timeout":                        Milliseconds(CallTimeout / 3),
	}
}

// refusesSettings recognises a pooler that lets only a few settings through, as PgBouncer does. Others word it otherwise under the same code.
func refusesSettings(err error) bool { return Code(err) == protocolViolation }

func (c Connector) attempt(ctx context.Context, settings map[string]string) (*pgx.Conn, error) {
	cfg := c.Pool.Config()
	cc := cfg.ConnConfig
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cc); err != nil {
			return nil, fmt.Errorf("prepare the connection's configuration: %w", err)
		}
	}
	// The server folds the case of names: of two spellings it would take the later, and a map has no order.
	maps.DeleteFunc(cc.RuntimeParams, func(name, _ string) bool { return settings[strings.ToLower(name)] != "" })
	if cc.RuntimeParams == nil {
		cc.RuntimeParams = map[string]string{}
	}
	maps.Copy(cc.RuntimeParams, settings)
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = connectTimeout
	}
	cc.DialFunc = keepingAlive(cc.DialFunc)
	// Nothing is prepared: a pooler may give each statement another session, and a plan that is made each time knows the table as it is.
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, err
	}
	// What is not prepared takes the types of its parameters from here.
	conn.TypeMap().RegisterDefaultPgType([]uuid.UUID(nil), "_uuid")
	if err := AsUTF8(ctx, conn); err != nil {
		// Closing says no more than that it is gone.
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// keepingAlive dials as dial does and switches the kernel's keepalive on.
func keepingAlive(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			// Some systems cannot set all of it; calls are bounded by their contexts all the same.
			_ = tcp.SetKeepAliveConfig(keepAlive)
		}
		return conn, err
	}
}

// Milliseconds is a duration as the server's settings have it.
func Milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
