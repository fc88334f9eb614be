package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/outbox-relay/outbox/internal/advice"
)

// Status is what a database has of what [Up] makes.
type Status struct {
	// Table is the outbox table that was asked about.
	Table Table
	// Applied and Pending are the migrations of the schema outbox. Applied may end with some that this program does not know.
	Applied []Migration
	Pending []Migration
	// Schema is why this program must not migrate the schema outbox: ErrChanged or ErrNewer, wrapped. nil when there is no reason.
	Schema error
	// Differences are those between the table and the contract; a missing table is one.
	Differences []Difference
	// Sources are all that are registered in this database.
	Sources []Source
	// Source is the one of the table; nil when it is not registered.
	Source *Source
}

// GetStatus reads what is there and changes nothing. The rights of [Grants] are enough.
func GetStatus(ctx context.Context, q Querier, config Config) (Status, error) {
	s, err := config.check()
	if err != nil {
		return Status{}, fmt.Errorf("migration status: %w", err)
	}
	st := Status{Table: s.table}
	if err := st.read(ctx, q); err != nil {
		return st, fmt.Errorf("migration status of %s: %w", s.table, err)
	}
	return st, nil
}

func (st *Status) read(ctx context.Context, q Querier) error {
	all, err := All()
	if err != nil {
		return err
	}
	if st.Applied, err = applied(ctx, q); err != nil {
		return err
	}
	st.Pending, st.Schema = pending(all, st.Applied)
	if st.Differences, err = Check(ctx, q, st.Table); err != nil {
		return err
	}
	if len(st.Applied) == 0 {
		return nil
	}
	if st.Sources, err = sources(ctx, q); err != nil {
		return err
	}
	for i, source := range st.Sources {
		if source.Table == st.Table {
			st.Source = &st.Sources[i]
		}
	}
	return nil
}

// Err is why a relay must not start on the table, with the command that helps; nil when it may. A schema outbox that a newer program has
// migrated is no reason, as migrations leave what older relays use, unless one of them says that it does not: ErrOutgrown.
func (st Status) Err() error {
	up := upCommand(st.Table)
	lacksTable := slices.ContainsFunc(st.Differences, func(d Difference) bool { return d.Code == tableMissing })
	if lacksTable && len(st.Applied) == 0 {
		return fmt.Errorf("nothing here yet: run %s", up)
	}
	var errs []error
	if st.Schema != nil && (!errors.Is(st.Schema, ErrNewer) || errors.Is(st.Schema, ErrOutgrown)) {
		errs = append(errs, st.Schema)
	}
	refused := refusal(st.Table, st.Differences)
	switch {
	case lacksTable:
		errs = append(errs, fmt.Errorf("there is no table %s: run %s", st.Table, up))
	case refused != nil:
		errs = append(errs, refused)
	case st.Source == nil && len(st.Applied) > 0:
		errs = append(errs, fmt.Errorf("table %s is not registered as a source: run %s", st.Table, up))
	}
	if n := len(st.Pending); n > 0 {
		errs = append(errs, fmt.Errorf("the schema outbox lacks %s, from %s on: run %s", count(n, "migration"), st.Pending[0], up))
	}
	return errors.Join(errs...)
}

// upCommand is the command that makes what is missing, as it is typed in a shell.
func upCommand(t Table) string {
	if t.String() == DefaultTable {
		return "outbox migrate up"
	}
	return "outbox migrate up --table " + advice.Word(t.String())
}
