package migrate

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/schema"
)

// stateSchema is where everything of ours lives.
const stateSchema = "outbox"

//go:embed sql/*.up.sql
var files embed.FS

// Errors of a schema outbox that this program must not touch.
var (
	// ErrNewer: a newer program has migrated the schema further than this one knows. A relay works with it all the same.
	ErrNewer = errors.New("the schema outbox is newer than this program")
	// ErrOutgrown: as ErrNewer, by a migration that leaves this program behind. No relay works with it.
	ErrOutgrown = schema.ErrOutgrown
	// ErrChanged: a migration was applied with another text than this program has for it.
	ErrChanged = errors.New("an applied migration has another text than this program's")
)

// Migration is one numbered step of the schema outbox.
type Migration struct {
	// Version counts from 1 without gaps.
	Version int
	// Name is what the file is called after its number.
	Name string
	// Checksum is the SHA-256 of the text, in hexadecimal.
	Checksum string
	// Breaks tells that a program that does not know the migration cannot work with the schema after it. Its text begins with "-- breaks: " and the reason.
	Breaks bool
	// AppliedAt is when it was applied, by the database's clock; zero while it is pending.
	AppliedAt time.Time

	text string
}

func (m Migration) String() string { return fmt.Sprintf("%03d_%s", m.Version, m.Name) }

// All returns the migrations that this program has, oldest first.
func All() ([]Migration, error) { return readMigrations(files) }

func readMigrations(fsys fs.FS) ([]Migration, error) {
	names, err := fs.Glob(fsys, "sql/*.up.sql")
	if err != nil {
		return nil, err
	}
	all := make([]Migration, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		if all[i], err = newMigration(path.Base(name), string(text)); err != nil {
			return nil, err
		}
		if all[i].Version != i+1 {
			return nil, fmt.Errorf("migration %s: want number %d", name, i+1)
		}
	}
	return all, nil
}

func newMigration(file, text string) (Migration, error) {
	number, name, ok := strings.Cut(strings.TrimSuffix(file, ".up.sql"), "_")
	version, err := strconv.Atoi(number)
	if !ok || err != nil {
		return Migration{}, fmt.Errorf("migration %s: want NNN_name.up.sql", file)
	}
	// A checkout may turn line ends into those of its system; the checksum must not depend on that.
	text = strings.ReplaceAll(text, "\r\n", "\n")
	sum := sha256.Sum256([]byte(text))
	return Migration{Version: version, Name: name, Checksum: hex.EncodeToString(sum[:]), Breaks: strings.HasPrefix(text, "-- breaks: "), text: text}, nil
}

// Querier reads. Connections, pools and transactions of pgx are Queriers.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// applied returns what the database has recorded, oldest first; nothing when the schema was never made.
func applied(ctx context.Context, q Querier) ([]Migration, error) {
	var there bool
	// Statements are never prepared under a name: behind a transaction pooler the name would be on another connection.
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = 'migration')`, pgx.QueryExecModeExec, stateSchema).Scan(&there)
	if err != nil || !there {
		return nil, err
	}
	rows, err := q.Query(ctx, `SELECT m.version, m.name, m.checksum, m.applied_at, `+schema.Breaks+` FROM outbox.migration m ORDER BY m.version`, pgx.QueryExecModeExec)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Migration, err error) {
		err = row.Scan(&m.Version, &m.Name, &m.Checksum, &m.AppliedAt, &m.Breaks)
		return m, err
	})
}

// pending tells which of all are missing from done, and refuses what this program does not know.
func pending(all, done []Migration) ([]Migration, error) {
	seen := make(map[int]bool, len(done))
	for _, d := range done {
		if d.Version > len(all) {
			return nil, newer(done, len(all))
		}
		if d.Version < 1 {
			return nil, fmt.Errorf("%w: the database has %s, and numbers begin at 001: outbox.migration was not written by this program", ErrChanged, d)
		}
		if known := all[d.Version-1]; known.Checksum != d.Checksum {
			return nil, fmt.Errorf("%w: %s was applied at %s with checksum %.12s…, this program's has %.12s…; "+
				"use the program that applied it, or a release that names this version", ErrChanged, d, d.AppliedAt.UTC().Format(time.RFC3339),
				d.Checksum, known.Checksum)
		}
		seen[d.Version] = true
	}
	var left []Migration
	for _, m := range all {
		if !seen[m.Version] {
			left = append(left, m)
		}
	}
	return left, nil
}

// newer is the error for a database that has done more than this program's migrations, which end at known.
func newer(done []Migration, known int) error {
	err := fmt.Errorf("%w: the database has %s, this program ends at %03d; use a newer program", ErrNewer, done[len(done)-1], known)
	for _, d := range slices.Backward(done) {
		if d.Version > known && d.Breaks {
			return fmt.Errorf("%w (%w by %s)", err, ErrOutgrown, d)
		}
	}
	return err
}
