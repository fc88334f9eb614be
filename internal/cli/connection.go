package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/benchmark"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// explain makes one line and one remedy of what the user has to mend. The driver lists every attempt to connect, several for one cause, and
// the text in front of them says what would have been done with the connection.
func explain(err error) error {
	if removal, ok := errors.AsType[*benchmark.RemovalError](err); ok {
		return explainRemoval(removal)
	}
	if brokers := explainBrokers(err); brokers != nil {
		return brokers
	}
	var connect *pgconn.ConnectError
	var publish *relay.PublishError
	var unknown *postgres.UnknownTableError
	switch {
	case errors.As(err, &connect):
		return explainConnection(connect, err)
	case errors.As(err, &unknown) && !unknown.There:
		if near := config.Nearest(unknown.Table, unknown.Sources, 0); near != "" && near != unknown.Table {
			return hinted(err, "did you mean --table "+near+"?")
		}
		return err
	case errors.As(err, &publish) && publish.Code == unknownTopic && !strings.Contains(err.Error(), "--create-topics"):
		return hinted(err, "with --create-topics the relay makes missing topics itself")
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if ok && pg.Code == readOnly {
		return &explainedError{hinted(fmt.Errorf("the database is read-only: %s", pg.Message), readOnlyRemedy).Error(), err}
	}
	if ok && pg.Code == insufficientPrivilege && operate.CodeOf(err) != operate.CodeForbidden {
		return &configError{&operate.Error{Code: operate.CodeForbidden, Text: hinted(err, "outbox doctor says which rights the role lacks, and what gives them").Error()}}
	}
	if trouble, found := postgres.FindPoolerTrouble(err); found && !strings.Contains(err.Error(), trouble.Remedy) {
		err = hinted(err, trouble.Remedy)
		if trouble.Lasting {
			return &configError{err}
		}
	}
	return err
}

// suitPoolers makes the commands' connections work behind any pooler: nothing is prepared, since the next statement may find another session,
// and times come in the one form that the driver reads as text.
func suitPoolers(cc *pgx.ConnConfig) {
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	maps.DeleteFunc(cc.RuntimeParams, func(name, _ string) bool { return strings.EqualFold(name, "datestyle") })
	cc.RuntimeParams["datestyle"] = "ISO"
}

// The server's codes of a right that is missing, of a setting that it does not have, and of a change where none is allowed.
const (
	insufficientPrivilege = "42501"
	unknownSetting        = "42704"
	readOnly              = "25006"
)

// readOnlyRemedy is no matter of configuration alone: during a failover the same is said, and waiting mends it.
const readOnlyRemedy = "connect to the primary (target_session_attrs=read-write chooses it); or default_transaction_read_only is on for the database or the role"

const unknownTopic = "UNKNOWN_TOPIC_OR_PARTITION"

func hinted(err error, hint string) error { return fmt.Errorf("%w\n  hint: %s", err, hint) }

// explainConnection takes whole for what it knows beyond c.
func explainConnection(c *pgconn.ConnectError, whole error) error {
	where := "PostgreSQL at " + address(c.Config)
	for _, reason := range []func(*pgconn.ConnectError) (text, hint string, config bool){refusedByServer, refusedByTLS, unreachable} {
		if text, hint, config := reason(c); text != "" {
			var password *withPlace
			if hint == wrongPassword && errors.As(whole, &password) {
				hint = fmt.Sprintf("correct the password of user %s, which was taken from %s", c.Config.User, password.place)
			}
			err := error(&explainedError{hinted(fmt.Errorf("%s: %s", where, text), hint).Error(), c})
			if config {
				return &configError{err}
			}
			return err
		}
	}
	attempts := leaves(c.Unwrap())
	return &explainedError{fmt.Sprintf("%s: %v", where, attempts[len(attempts)-1]), c}
}

// explainedError says in other words what a connection has failed by.
type explainedError struct {
	text  string
	cause error
}

func (e *explainedError) Error() string { return e.text }
func (e *explainedError) Unwrap() error { return e.cause }

func address(c *pgconn.Config) string {
	addresses := []string{hostPort(c.Host, c.Port)}
	for _, f := range c.Fallbacks {
		if a := hostPort(f.Host, f.Port); !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	return strings.Join(addresses, ", ")
}

func hostPort(host string, port uint16) string {
	if filepath.IsAbs(host) {
		return fmt.Sprintf("%s (port %d)", host, port)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// refusedByServer explains what a server that was reached has said. Of several attempts the one that came furthest counts.
func refusedByServer(c *pgconn.ConnectError) (text, hint string, config bool) {
	refusals := map[string]*pgconn.PgError{}
	var first *pgconn.PgError
	for _, e := range leaves(c.Unwrap()) {
		var pg *pgconn.PgError
		if errors.As(e, &pg) {
			refusals[pg.Code] = pg
			if first == nil {
				first = pg
			}
		}
	}
	for _, code := range []string{unknownSetting, "28P01", "3D000", "28000", insufficientPrivilege} {
		if pg := refusals[code]; pg != nil {
			return pg.Message, remedy(c.Config, pg), true
		}
	}
	if first == nil {
		return "", "", false
	}
	if trouble, found := postgres.FindPoolerTrouble(first); found {
		return first.Message, trouble.Remedy, trouble.Lasting
	}
	return fmt.Sprintf("%s (SQLSTATE %s)", first.Message, first.Code), "look at the server's log", false
}

// wrongPassword is the remedy where nobody knows any more which of them it was.
const wrongPassword = "correct the password, wherever it was given: in the URL, by PGPASSWORD, in a .pgpass file, or by OUTBOX_DATABASE_PASSWORD or its file"

// remedy is for a server that will never let this client in.
func remedy(c *pgconn.Config, pg *pgconn.PgError) string {
	switch {
	case pg.Code == "28P01" && c.Password == "":
		return fmt.Sprintf("no password was given for user %s: set PGPASSWORD, or write it into a .pgpass file", c.User)
	case pg.Code == "28P01":
		return wrongPassword
	case pg.Code == "3D000":
		return fmt.Sprintf("create it (createdb %s), or name another one in DATABASE_URL or PGDATABASE", c.Database)
	case pg.Code == insufficientPrivilege:
		return fmt.Sprintf("as the owner of the database run: GRANT CONNECT ON DATABASE %s TO %s", pgx.Identifier{c.Database}.Sanitize(), pgx.Identifier{c.User}.Sanitize())
	case pg.Code == unknownSetting:
		return "correct its name in the connection string, or take it out: what is no setting of a connection, such as sslmode, is sent to the server"
	case strings.Contains(pg.Message, "requires a valid client certificate"):
		return fmt.Sprintf("name a certificate for user %s and its key by sslcert=… and sslkey=…, or PGSSLCERT and PGSSLKEY", c.User)
	case strings.Contains(pg.Message, "certificate authentication failed"):
		return fmt.Sprintf("use a certificate whose common name is %s, or let the server's pg_ident.conf map its name to that user", c.User)
	case strings.Contains(pg.Message, "no encryption"):
		return "the server wants TLS, or has no rule for this user and database in pg_hba.conf: try sslmode=require"
	}
	return "correct the user in DATABASE_URL or PGUSER, or the server's pg_hba.conf"
}

func refusedByTLS(c *pgconn.ConnectError) (text, hint string, config bool) {
	err := c.Unwrap()
	if trouble, found := postgres.FindTLSTrouble(err); found {
		return trouble.Text, trouble.Remedy, trouble.Lasting
	}
	// A server that is silent is so whatever was to be said to it.
	if strings.Contains(err.Error(), "tls error") && !isTimeout(err) {
		return lastOf(err), "check sslmode and the server's TLS settings", false
	}
	return "", "", false
}

// lastOf is the innermost text of an error: the cause, without what was tried.
func lastOf(err error) string {
	attempts := leaves(err)
	err = attempts[len(attempts)-1]
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

func unreachable(c *pgconn.ConnectError) (text, hint string, config bool) {
	err := c.Unwrap()
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("there is no host %s", dns.Name), "correct the host in DATABASE_URL or PGHOST", false
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return "nothing listens there", "start the server, or correct host and port in DATABASE_URL, PGHOST or PGPORT", false
	case errors.Is(err, context.Canceled):
		return "interrupted", "try again", false
	case isTimeout(err):
		return "no answer in time", "check host, port and what stands between: a firewall, a network policy, a pooler whose server is away", false
	case errors.As(err, new(*net.OpError)):
		return lastOf(err), "check host, port and the network", false
	}
	return "", "", false
}

func isTimeout(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && network.Timeout()
}

// leaves are the errors that were joined.
func leaves(err error) []error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	if len(all) == 0 {
		return []error{err}
	}
	return all
}
