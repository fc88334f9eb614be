package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
)

// lacksRights is a refusal that starting again does not mend.
func lacksRights(row sourceRow, role string, tables []string) error {
	return misconfigured{operate.Refuse(operate.CodeForbidden, "the role %s may not delete from %s; run as the owner what this prints: "+
		"outbox migrate grants --table %s --role %s --delete, with --operator for a person's role", pgx.Identifier{role}.Sanitize(), strings.Join(tables, ", "), row.table, role)}
}

// pruneTrouble tells what the error of a statement means for whoever runs it.
func pruneTrouble(err error, row sourceRow) error {
	switch code(err) {
	case "42501":
		return misconfigured{&operate.Error{Code: operate.CodeForbidden, Err: err, Text: fmt.Sprintf("a right is missing: run as the owner what this prints: "+
			"outbox migrate grants --table %s --role … --delete", row.table)}}
	case "42P01":
		return misconfigured{fmt.Errorf("schema outbox is older than this program: run outbox migrate up: %w", err)}
	}
	return err
}
