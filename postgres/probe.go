package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/lanesql"
	"github.com/outbox-relay/outbox/internal/schema"
	"github.com/outbox-relay/outbox/relay"
)

// sourceRow is what the database says of a source: its row in outbox.source, and the shape of its table.
type sourceRow struct {
	id    uuid.UUID
	table tableName
	lanes int
	// encoding is the database's.
	encoding string
	// shareable tells that there may be more than one lane.
	shareable bool
	// firstPublished is zero before the first publication.
	firstPublished time.Time
	// headers tells that the table has the optional column headers.
	headers bool
	// sequence is the quoted name of the sequence that the ids are drawn from.
	sequence string
	// aggregates tells that events are read with their aggregates.
	aggregates bool
	// partitioned tells that the table is the parent of partitions.
	partitioned bool
	// lacking are the migrations that this program knows and the database does not have.
	lacking []int32
}

// probe is what Open finds.
type probe struct {
	row      sourceRow
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

// querier is a connection, a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// inspect looks at everything that a term depends on, from the server down to the rights.
func inspect(ctx context.Context, conn *pgx.Conn, table tableName, mode SettleMode, scope relay.ParkScope) (probe, error) {
	var p probe
	s, err := readServer(ctx, conn)
	if err != nil {
		return probe{}, err
	}
	if s.recovery {
		return probe{}, errors.New("the server is in recovery: it is a standby, and only the primary can be written to; " +
			"connect to the primary (target_session_attrs=read-write chooses it)")
	}
	if p.row, err = readSource(ctx, conn, table); err != nil {
		return probe{}, err
	}
	if err := schema.Lacking(p.row.lacking, table.String()); err != nil {
		return probe{}, misconfigured{err}
	}
	if p.row.lanes > 1 && !p.row.shareable {
		return probe{}, misconfigured{fmt.Errorf("the source has %d lanes, and %w; run: outbox lanes set 1 --table %s", p.row.lanes, errOneLane, advice.Word(table.String()))}
	}
	shape, err := readShape(ctx, conn, table)
	if err != nil {
		return probe{}, err
	}
	if err := errors.Join(shape.check(table, mode), shape.checkAggregates(scope)); err != nil {
		return probe{}, err
	}
	p.row.aggregates = scope == relay.ScopeAggregate
	p.row.headers, p.row.sequence, p.row.partitioned, p.indexed = shape.headers, shape.sequence, shape.partitioned, shape.indexed
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
	p.warnings = slices.Concat(shape.warnings(table), session.warnings(), encodingWarnings(p.row.encoding))
	return p, nil
}

// readSource reads the row that migrate made for the table. It refuses a schema that has outgrown this program, to everybody; one that is older is refused to
// relays only, as people look at it when they upgrade.
func readSource(ctx context.Context, q querier, table tableName) (sourceRow, error) {
	row := sourceRow{table: table}
	var delivery string
	var first *time.Time
	var outgrown *string
	err := q.QueryRow(ctx, `
SELECT id, lanes, delivery, first_published_at, getdatabaseencoding()::text, `+lanesql.Shareable()+`, `+lackingSQL()+`, `+outgrownSQL()+`
FROM outbox.source WHERE table_schema = $1 AND table_name = $2`,
		table.schema, table.name).Scan(&row.id, &row.lanes, &delivery, &first, &row.encoding, &row.shareable, &row.lacking, &outgrown)
	switch {
	case errors.Is(err, pgx.ErrNoRows), code(err) == "42P01", code(err) == "3F000":
		return sourceRow{}, unknownTable(ctx, q, table)
	case code(err) == "42501":
		return sourceRow{}, lacksRight(q, table, "read outbox.source", err)
	case err != nil:
		return sourceRow{}, mark(fmt.Errorf("read outbox.source: %w", err))
	case outgrown != nil:
		return sourceRow{}, refuseOutgrown(outgrown)
	case delivery != "at-least-once":
		return sourceRow{}, misconfigured{fmt.Errorf("outbox.source asks for %s delivery, which this relay does not do: it would publish what "+
			"another one keeps account of", delivery)}
	}
	if first != nil {
		row.firstPublished = *first
	}
	return row, nil
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

func readServer(ctx context.Context, q querier) (server, error) {
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

func readSession(ctx context.Context, q querier) (sessionSettings, error) {
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
