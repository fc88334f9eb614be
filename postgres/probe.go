package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/lanesql"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/schema"
	"github.com/outbox-relay/outbox/relay"
)

// probe is what Open finds.
type probe struct {
	row      pg.Source
	warnings []string
	// pooled tells that the backend changes behind the connection, so that no backend can be called one's own.
	pooled bool
	// indexed tells that the index for what is unpublished is there, canDelete that the role may delete rows.
	indexed, canDelete bool
}

// errReadOnly is what a standby says, and a server that was told to refuse writing.
var errReadOnly = errors.New("the server is read-only: it is a standby, or default_transaction_read_only is on; " +
	"connect to the primary (target_session_attrs=read-write chooses it), or let the role write")

// errOneLane is what a database says that hashes texts otherwise than [relay.Lane] does.
var errOneLane = errors.New(lanesql.Why)

// inspect looks at everything that a term depends on, from the server down to the rights.
func inspect(ctx context.Context, conn *pgx.Conn, table pg.Table, mode SettleMode, scope relay.ParkScope) (probe, error) {
	var p probe
	s, err := readServer(ctx, conn)
	if err != nil {
		return probe{}, err
	}
	if s.recovery {
		return probe{}, errors.New("the server is in recovery: it is a standby, and only the primary can be written to; " +
			"connect to the primary (target_session_attrs=read-write chooses it)")
	}
	if p.row, err = pg.ReadSource(ctx, conn, table); err != nil {
		return probe{}, err
	}
	if err := schema.Lacking(p.row.Lacking, table.String()); err != nil {
		return probe{}, pg.Misconfigured(err)
	}
	if p.row.Lanes > 1 && !p.row.Shareable {
		return probe{}, pg.Misconfigured(fmt.Errorf("the source has %d lanes, and %w; run: outbox lanes set 1 --table %s", p.row.Lanes, errOneLane, advice.Word(table.String())))
	}
	shape, err := readShape(ctx, conn, table)
	if err != nil {
		return probe{}, err
	}
	if err := errors.Join(shape.check(table, mode), shape.checkAggregates(scope)); err != nil {
		return probe{}, err
	}
	p.row.Aggregates = scope == relay.ScopeAggregate
	p.row.Headers, p.row.Sequence, p.row.Partitioned, p.indexed = shape.headers, shape.sequence.Name, shape.partitioned, shape.indexed
	p.canDelete = shape.canDelete
	session, err := readSession(ctx, conn)
	if err != nil {
		return probe{}, err
	}
	p.pooled = session.pid != conn.PgConn().PID()
	if p.pooled {
		if err := allowsTransactions(ctx, conn); err != nil {
			return probe{}, err
		}
	}
	p.warnings = slices.Concat(shape.warnings(table), session.warnings(), encodingWarnings(p.row.Encoding))
	return p, nil
}

// server is the identity of a running server. A pooler hides a restart or a failover from the connection; this does not.
type server struct {
	started  time.Time
	timeline int32
	recovery bool
}

// serverSQL are the columns of a server, in the order of readServer.
const serverSQL = `pg_postmaster_start_time(),
    CASE WHEN pg_is_in_recovery() THEN 0
         ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer END,
    pg_is_in_recovery()`

func readServer(ctx context.Context, q pg.Querier) (server, error) {
	var s server
	if err := q.QueryRow(ctx, "SELECT "+serverSQL).Scan(&s.started, &s.timeline, &s.recovery); err != nil {
		return server{}, fmt.Errorf("read the server's identity: %w", err)
	}
	return s, nil
}

func (s server) same(o server) bool {
	return s.started.Equal(o.started) && s.timeline == o.timeline && !s.recovery
}

func (s server) String() string {
	return fmt.Sprintf("started %s, timeline %d", s.started.UTC().Format(time.RFC3339Nano), s.timeline)
}

// session settings that weaken a guarantee.
type sessionSettings struct {
	pid       uint32
	isolation string
	// asyncCommit are the scopes for which synchronous_commit is off.
	asyncCommit []string
}

func readSession(ctx context.Context, q pg.Querier) (sessionSettings, error) {
	var s sessionSettings
	var pid int32
	err := q.QueryRow(ctx, `
SELECT pg_backend_pid(), current_setting('default_transaction_isolation'), array(
    SELECT CASE WHEN current_setting('synchronous_commit') = 'off' THEN 'this connection' END
    WHERE current_setting('synchronous_commit') = 'off'
    UNION ALL
    SELECT coalesce('role ' || quote_ident(r.rolname), 'database ' || quote_ident(current_database()))
    FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole
    WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
      AND 'synchronous_commit=off' = ANY (s.setconfig))`).Scan(&pid, &s.isolation, &s.asyncCommit)
	if err != nil {
		return sessionSettings{}, fmt.Errorf("read the session's settings: %w", err)
	}
	s.pid = uint32(pid)
	return s, nil
}

func (s sessionSettings) warnings() []string {
	var w []string
	if len(s.asyncCommit) > 0 {
		w = append(w, fmt.Sprintf("synchronous_commit is off for %s: a crash of the server can undo a commit whose event is in Kafka already; "+
			"set it to on for the roles that write events.", strings.Join(s.asyncCommit, ", ")))
	}
	if s.isolation != "read committed" {
		w = append(w, fmt.Sprintf("default_transaction_isolation is %s and the pooler does not let the relay set its own: statements can fail "+
			"with serialization errors and are tried again; run: ALTER ROLE … SET default_transaction_isolation = 'read committed'.", s.isolation))
	}
	return w
}

// encodingWarnings are of the encodings with characters that UTF-8 has not.
func encodingWarnings(encoding string) []string {
	switch encoding {
	case "UTF8", "LATIN1", pg.SQLASCII:
		return nil
	}
	return []string{fmt.Sprintf("The database's encoding is %s. Events are published in UTF-8, and a row with a character that has no equivalent there "+
		"stops all reading until it is mended: use a database in UTF8 where services do not check what they write.", encoding)}
}
