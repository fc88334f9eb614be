package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/migrate"
)

// rights finds what the role of the connection lacks to be a relay's. The role of an operator has all of that, too.
func rights(ctx context.Context, pool *pgxpool.Pool, table string) ([]Finding, error) {
	role, lacking, err := migrate.LacksRights(ctx, pool, migrate.Config{Table: table})
	if err != nil || len(lacking) == 0 {
		return nil, err
	}
	return []Finding{{
		Code: "rights-missing", Severity: Error, Text: fmt.Sprintf("the role %s lacks rights: %s", role, strings.Join(lacking, "; ")),
		Why:  "no relay works with this role, and no command of an operator",
		Mend: "as the owner of the table run what this prints, with --operator for a person's role: " + advice.Grants(table, role),
	}}, nil
}

// lacksRight tells that the server refuses a statement to the role.
func lacksRight(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "42501"
}

// unmade tells that some of what a role needs rights on is not there yet.
func unmade(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Code == "migrations-pending" || f.Code == "table-missing" })
}
