package pg

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// protocolViolation is the code under which PgBouncer says nearly everything; a server uses it for broken messages only.
const protocolViolation = "08P01"

// PoolerTrouble is what stands between a client and a pooler.
type PoolerTrouble struct {
	// Remedy says which setting of the client or of the pooler mends it.
	Remedy string
	// Lasting tells that waiting does not mend it.
	Lasting bool
}

const (
	unnamedRemedy = "the pooler gives each transaction another session, where nothing is prepared: add default_query_exec_mode=exec to the " +
		"connection string, or use PgBouncer 1.21 or newer with max_prepared_statements above 0"
	modeRemedy = "the pooler gives each statement another session: set pool_mode=transaction for this database in PgBouncer"
)

// FindPoolerTrouble recognises errors by which poolers, above all PgBouncer, refuse a client or show that a client's settings do not suit
// them; the ones by which a PostgreSQL server does the same are none of its business. It is for whatever uses the database, also a
// service that writes events.
func FindPoolerTrouble(err error) (PoolerTrouble, bool) {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return PoolerTrouble{}, false
	}
	switch e.Code {
	case "26000", "42P05":
		return PoolerTrouble{unnamedRemedy, true}, true
	case protocolViolation:
		return troubleByText(e.Message)
	}
	return PoolerTrouble{}, false
}

// troubleByText tells PgBouncer's refusals apart, which have one code; their text is never translated.
func troubleByText(text string) (PoolerTrouble, bool) {
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("unsupported startup parameter"):
		name := text[strings.LastIndex(text, " ")+1:]
		return PoolerTrouble{fmt.Sprintf("take %s out of the connection string, or add it to ignore_startup_parameters in PgBouncer, which then drops it", name), true}, true
	case has("statement pooling mode"):
		return PoolerTrouble{modeRemedy, true}, true
	case has("authentication failed"), has("no such user"):
		return PoolerTrouble{"correct user and password, or the pooler's auth_file or auth_query: it knows users by itself", true}, true
	case has("does not exist"), has("no such database"):
		return PoolerTrouble{"correct the database's name, or add it to the section [databases] of PgBouncer", true}, true
	case has("max_client_conn"):
		return PoolerTrouble{"raise max_client_conn in PgBouncer: a relay holds six connections to the pooler", false}, true
	case has("query_wait_timeout"):
		return PoolerTrouble{"no connection of the pool became free: the server may be away, the pooler paused, or its pool too small " +
			"(default_pool_size in PgBouncer)", false}, true
	}
	return PoolerTrouble{}, false
}
