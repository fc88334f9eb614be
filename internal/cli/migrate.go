package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/operate"
)

type migrateFlags struct {
	database
	cfg  migrate.Config
	role string
}

func (a *app) migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create and check the outbox table and the relay's state",
		Long: `migrate makes the outbox table, unless there is one, and the schema outbox with the
relay's state. A table that another tool made is checked and never changed. The
relay itself never migrates.`,
		Example: "  outbox migrate up\n  outbox migrate print > 001_outbox.sql\n  outbox migrate grants --role relay | psql \"$DATABASE_URL\" -1 -v ON_ERROR_STOP=1",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.migrateUp(), a.migrateStatus(), a.migratePrint(), a.migrateGrants())
	return cmd
}

func (f *migrateFlags) lanesFlag(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.cfg.Lanes, "lanes", 0, fmt.Sprintf("lanes of a new source, 1 to %d (default %d)", migrate.MaxLanes, migrate.DefaultLanes))
}

// checkLanes wants a number of lanes, or none: a source that is there keeps its own.
func (f *migrateFlags) checkLanes(cmd *cobra.Command) check {
	c := between("lanes", &f.cfg.Lanes, 1, migrate.MaxLanes)
	inRange := c.ok
	c.ok = func() bool { return !cmd.Flags().Changed("lanes") || inRange() }
	return c
}

func (a *app) migrateUp() *cobra.Command {
	f := &migrateFlags{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make what is missing",
		Long: `up makes what is missing, and may be run again and by many processes at once. It
needs the rights of the table's owner, and to create the schema outbox.

Where a table of that name was renamed and holds events that are not published, it
makes no new one beside it, unless --new-table says so.`,
		Example: "  outbox migrate up\n  outbox migrate up --table orders.outbox_event --lanes 16",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.refuse(cmd, []check{f.checkLanes(cmd)}); err != nil {
				return err
			}
			return a.withConn(cmd, &f.database, func(c *pgx.Conn) error {
				f.cfg.Table = f.table
				f.cfg.Waiting = func(what string) { fmt.Fprintf(a.stderr, "waiting: %s\n", printable(what)) }
				result, err := migrate.Up(cmd.Context(), c, f.cfg)
				if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == insufficientPrivilege {
					err = &configError{&operate.Error{Code: operate.CodeForbidden, Text: hinted(err, "connect as the owner of the table, who may create the schema outbox: GRANT CREATE ON DATABASE … lets a role do that").Error()}}
				}
				if err != nil {
					return err
				}
				return a.printResult(result)
			})
		},
	}
	f.database.flags(cmd)
	f.lanesFlag(cmd)
	cmd.Flags().BoolVar(&f.cfg.Headers, "headers", false, "give a new table the optional column headers")
	cmd.Flags().BoolVar(&f.cfg.NewTable, "new-table", false, "make a new table although one that was renamed holds unpublished events")
	return cmd
}

func (a *app) printResult(r migrate.Result) error {
	for _, m := range r.Applied {
		fmt.Fprintf(a.stdout, "applied   %s\n", m)
	}
	if r.TableCreated {
		fmt.Fprintf(a.stdout, "created   table %s with its partial index\n", r.Table)
	}
	if r.Renamed != (migrate.Table{}) {
		fmt.Fprintf(a.stdout, "warning   the table that was called so is %s now: no relay of %s reads what is in it\n", r.Renamed, r.Table)
	}
	if r.SourceCreated {
		fmt.Fprintf(a.stdout, "created   source %s with %s\n", r.Source, plural(r.Lanes, "lane"))
	}
	for _, d := range r.Differences {
		fmt.Fprintf(a.stdout, "%s\n", d)
	}
	_, err := fmt.Fprintf(a.stdout, "ready     %s: now grant the relay's role its rights (outbox migrate grants prints the SQL) and start outbox relay\n", r.Table)
	return err
}

func (a *app) migratePrint() *cobra.Command {
	f := &migrateFlags{}
	cmd := &cobra.Command{
		Use:     "print",
		Short:   "Print the SQL, for a migration tool of your own",
		Example: "  outbox migrate print > 001_outbox.sql\n  outbox migrate print --table orders.outbox_event --headers | psql \"$DATABASE_URL\" -1 -v ON_ERROR_STOP=1",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.refuse(cmd, []check{f.checkLanes(cmd)}); err != nil {
				return err
			}
			f.cfg.Table = f.table
			if _, err := migrate.ParseTable(f.table); err != nil {
				return a.badFlag(cmd, "table", ": %w", err)
			}
			sql, err := migrate.Print(f.cfg)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.stdout, sql)
			return err
		},
	}
	f.tableFlag(cmd)
	f.lanesFlag(cmd)
	cmd.Flags().BoolVar(&f.cfg.Headers, "headers", false, "with the optional column headers")
	return cmd
}

func (a *app) migrateStatus() *cobra.Command {
	f := &migrateFlags{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show versions, sources, and what is different about the table",
		Long: `status shows which migrations are applied, which tables are relayed, and every way in
which the outbox table differs from the contract, each with the statement that
mends it. It ends with 1 if something is pending or the relay could not work.`,
		Example: "  outbox migrate status\n  outbox migrate status --table orders.outbox_event",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConn(cmd, &f.database, func(c *pgx.Conn) error {
				f.cfg.Table = f.table
				status, err := migrate.GetStatus(cmd.Context(), c, f.cfg)
				if err != nil {
					return err
				}
				if asJSON {
					return a.encodeMigrateStatus(status)
				}
				return a.printMigrateStatus(status)
			})
		},
	}
	f.database.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// printMigrateStatus says everything on stdout, once; what a missing table would need is said by migrate up.
func (a *app) printMigrateStatus(s migrate.Status) error {
	there := !slices.ContainsFunc(s.Differences, func(d migrate.Difference) bool { return d.Code == "table-missing" })
	if !there && len(s.Applied) == 0 {
		fmt.Fprintf(a.stdout, "nothing here yet: run %s\n", upCommand(s.Table))
		return &quietError{}
	}
	for _, m := range s.Applied {
		fmt.Fprintf(a.stdout, "applied   %s\n", m)
	}
	for _, m := range s.Pending {
		fmt.Fprintf(a.stdout, "pending   %s\n", m)
	}
	for _, source := range s.Sources {
		gone := ""
		if source.Gone {
			gone = "; its table is GONE, dropped or renamed"
			if source.Renamed != (migrate.Table{}) {
				gone = fmt.Sprintf("; its table is GONE, it was renamed to %s", source.Renamed)
			}
		}
		fmt.Fprintf(a.stdout, "source    %s: %s, %s%s\n", source.Table, plural(source.Lanes, "lane"), source.Delivery, gone)
	}
	if there {
		for _, d := range s.Differences {
			fmt.Fprintln(a.stdout, d)
		}
	}
	if s.Schema != nil {
		fmt.Fprintf(a.stdout, "warning   %v\n", s.Schema)
	}
	if s.Err() == nil {
		_, err := fmt.Fprintf(a.stdout, "ready     %s\n", s.Table)
		return err
	}
	fmt.Fprintf(a.stdout, "not ready %s: %s\n", s.Table, lack(s, there))
	return &quietError{}
}

// lack says what to do about a table that the relay must not start on.
func lack(s migrate.Status, there bool) string {
	fits := !slices.ContainsFunc(s.Differences, func(d migrate.Difference) bool { return d.Severity == migrate.Error })
	switch {
	case !there:
		return "there is no such table; run " + upCommand(s.Table)
	case !fits:
		return "the table does not fit: mend what is said above, then run " + upCommand(s.Table)
	case len(s.Pending) > 0:
		return "run " + upCommand(s.Table)
	case s.Source == nil:
		return "it is not registered as a source; run " + upCommand(s.Table)
	}
	return "see the warning above"
}

func upCommand(t migrate.Table) string {
	if t == (migrate.Table{Schema: "public", Name: "outbox_event"}) {
		return "outbox migrate up"
	}
	return "outbox migrate up --table " + advice.Word(t.String())
}

// withConn lends a connection of its own to f.
func (a *app) withConn(cmd *cobra.Command, db *database, f func(*pgx.Conn) error) error {
	pool, err := db.pool(cmd.Context(), a, cmd)
	if err != nil {
		return settingsError(cmd, err)
	}
	defer closeSoon(pool)
	conn, err := pool.Acquire(cmd.Context())
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Release()
	return f(conn.Conn())
}
