package retention

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// lacksRights is a refusal that starting again does not mend.
func lacksRights(row pg.Source, role string, tables []string) error {
	return pg.Misconfigured(operate.Refuse(operate.CodeForbidden, "the role %s may not delete from %s; run as the owner what this prints, with --operator for a person's role: %s",
		pgx.Identifier{role}.Sanitize(), strings.Join(tables, ", "), advice.Grants(row.Table.String(), role, "--delete")))
}

// pruneTrouble tells what the error of a statement means for whoever runs it.
func pruneTrouble(q any, err error, row pg.Source) error {
	switch pg.Code(err) {
	case "42501":
		return pg.LacksRight(q, row.Table, "look at the rights", err, "--delete")
	case "42P01":
		return pg.Misconfigured(fmt.Errorf("schema outbox is older than this program: run outbox migrate up: %w", err))
	}
	return err
}
