package pg

import (
	"fmt"

	"github.com/outbox-relay/outbox/internal/schema"
)

// What this program can work with is asked for beside what it needs anyway, by expressions.

// OutgrownSQL is the newest migration that this program does not know and that breaks; NULL when there is none.
func OutgrownSQL() string {
	return fmt.Sprintf(`(SELECT lpad(m.version::text, 3, '0') || '_' || m.name FROM outbox.migration m
    WHERE m.version > %d AND %s ORDER BY m.version DESC LIMIT 1)`, schema.Newest, schema.Breaks)
}

// lackingSQL are the versions that this program knows and the database lacks, an array of integer.
func lackingSQL() string {
	return fmt.Sprintf(`array(SELECT n FROM generate_series(1, %d) n WHERE NOT EXISTS (SELECT FROM outbox.migration m WHERE m.version = n) ORDER BY n)`, schema.Newest)
}

// RefuseOutgrown is the error for what OutgrownSQL has found; nil for NULL.
func RefuseOutgrown(migration *string) error {
	if migration == nil {
		return nil
	}
	return Misconfigured(schema.Outgrown(*migration))
}
