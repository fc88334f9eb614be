package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/checkup"
	"github.com/outbox-relay/outbox/postgres"
)

// writable finds a server that the relay cannot settle on.
func writable(v checkup.Vital) []Finding {
	switch {
	case v.Recovery:
		return []Finding{{
			Code: "server-in-recovery", Severity: Error, Text: "the server is a standby", Why: "the relay has to settle events, and takes no lanes here",
			Mend: "connect to the primary: target_session_attrs=read-write in the connection string chooses it",
		}}
	case v.ReadOnly:
		return []Finding{{
			Code: "read-only", Severity: Error, Text: "default_transaction_read_only is on for this role or database", Why: "the relay has to settle events",
			Mend: "set default_transaction_read_only to off for the relay's role, or where it was set for the database",
		}}
	}
	return nil
}

// pooler finds a pooler that gives each transaction another session. The relay works behind it as it is; a service that prepares statements, as pgx does by
// itself, fails at times.
func pooler(v checkup.Vital) ([]Finding, error) {
	switch trouble, known := postgres.FindPoolerTrouble(v.Prepared); {
	case v.Prepared == nil:
		return nil, nil
	case known:
		return unprepared(fmt.Sprintf("it loses prepared statements: %v", v.Prepared), trouble), nil
	case errors.Is(v.Prepared, context.DeadlineExceeded):
		trouble, _ := postgres.FindPoolerTrouble(&pgconn.PgError{Code: "26000"})
		return unprepared("it serves one connection at a time, so whether it keeps prepared statements was not to be seen", trouble), nil
	}
	return nil, fmt.Errorf("try the pooler: %w", v.Prepared)
}

func unprepared(what string, trouble postgres.PoolerTrouble) []Finding {
	return []Finding{{
		Code: "pooler-prepared-statements", Severity: Warning, Text: "there is a pooler before the server, and " + what,
		Why:  "the relay and these commands prepare nothing and work; a service that writes events with the driver's usual settings fails at times",
		Mend: "for services: " + trouble.Remedy,
	}}
}
