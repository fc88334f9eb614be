// Package schema tells which versions of the schema outbox this program works with, for the packages that read what was applied.
//
// A program works with the version that it knows and with every later one, as migrations leave what older programs use. A migration that cannot is marked in
// outbox.migration: it breaks, and programs that do not know it keep away.
package schema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/outbox-relay/outbox/internal/advice"
)

// Newest is the newest version of the schema outbox that this program knows: the number of its last migration.
const Newest = 13

// Breaks is the expression that tells whether a row m of outbox.migration breaks. The column is younger than the table.
const Breaks = `coalesce((to_jsonb(m)->>'breaks')::boolean, false)`

// ErrOutgrown is a schema outbox that a newer program has migrated in a way that leaves this one behind.
var ErrOutgrown = errors.New("the schema outbox has outgrown this program")

// Outgrown is the error for a migration that breaks and that this program does not know.
func Outgrown(migration string) error {
	return fmt.Errorf("%w: it was migrated to %s, and programs that end at %03d cannot work with that; use the program that migrated it, or a newer one",
		ErrOutgrown, migration, Newest)
}

// Lacking is the error for versions that this program knows and the database lacks, with the command that applies them to the table; nil when there are none.
func Lacking(versions []int32, table string) error {
	if len(versions) == 0 {
		return nil
	}
	names := make([]string, len(versions))
	for i, v := range versions {
		names[i] = fmt.Sprintf("%03d", v)
	}
	return fmt.Errorf("the schema outbox is older than this program: it lacks the migrations %s; run: outbox migrate up --table %s",
		strings.Join(names, ", "), advice.Word(table))
}
