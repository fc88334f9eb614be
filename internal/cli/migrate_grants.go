package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/migrate"
)

// kinds of roles, other than a relay's, by their flags.
func rolesByFlag() []roleKind {
	return []roleKind{
		{"operator", "the rights of a person who runs the other commands instead", migrate.GrantsOperator},
		{"viewer", "the rights of a person who looks and changes nothing instead", migrate.GrantsViewer},
		{"writer", "the rights of a service that writes events instead", migrate.GrantsWriter},
		{"consumer", "the rights of a service that handles events instead", migrate.GrantsConsumer},
		{"owner", "the rights of the role that runs migrate up in a database of another role instead", migrate.GrantsOwner},
	}
}

type roleKind struct {
	flag, usage string
	grants      func(migrate.Config, string) (string, error)
}

func (a *app) migrateGrants() *cobra.Command {
	f := &migrateFlags{}
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "Print the least rights of a role: relay, operator, viewer, writer, consumer or owner",
		Long: `grants prints SQL and changes nothing: give it to psql as the owner of the table, and
that of --owner as the owner of the database. psql does not read DATABASE_URL by
itself.`,
		Example: `  outbox migrate grants --role relay | psql "$DATABASE_URL" -1 -v ON_ERROR_STOP=1
  outbox migrate grants --role relay --delete --restore
  outbox migrate grants --role shop --writer
  outbox migrate grants --role billing --consumer
  outbox migrate grants --role anna --operator --delete --restore
  outbox migrate grants --role deploy --owner`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.role == "" {
				return &usageError{fmt.Errorf("--role is needed; see %s --help", cmd.CommandPath())}
			}
			if _, err := migrate.ParseTable(f.table); err != nil {
				return a.badFlag(cmd, "table", ": %w", err)
			}
			f.cfg.Table = f.table
			grants, err := grantsOf(cmd)
			if err != nil {
				return err
			}
			sql, err := grants(f.cfg, f.role)
			if err != nil {
				return a.badFlag(cmd, "role", ": %w", err)
			}
			_, err = fmt.Fprint(a.stdout, sql)
			return err
		},
	}
	f.tableFlag(cmd)
	cmd.Flags().StringVar(&f.role, "role", "", "the role's `name`")
	cmd.Flags().BoolVar(&f.cfg.Delete, "delete", false, "with the right to delete rows: for --settle delete, and to skip events")
	cmd.Flags().BoolVar(&f.cfg.Restore, "restore", false, "with the right to put dead events back: for events restore, which the relay carries out, or the command when none is alive")
	for _, kind := range rolesByFlag() {
		cmd.Flags().Bool(kind.flag, false, kind.usage)
	}
	return cmd
}

// grantsOf is what the flags ask for; without any of them the relay's.
func grantsOf(cmd *cobra.Command) (func(migrate.Config, string) (string, error), error) {
	grants := migrate.Grants
	var given, all []string
	for _, kind := range rolesByFlag() {
		all = append(all, "--"+kind.flag)
		if set, err := cmd.Flags().GetBool(kind.flag); err == nil && set {
			given, grants = append(given, kind.flag), kind.grants
		}
	}
	if len(given) > 1 {
		last := len(all) - 1
		return nil, &usageError{fmt.Errorf("%s and %s exclude each other; see %s --help", strings.Join(all[:last], ", "), all[last], cmd.CommandPath())}
	}
	for _, right := range []string{"delete", "restore"} {
		if cmd.Flags().Changed(right) && len(given) == 1 && !slices.Contains(given, "operator") {
			return nil, &usageError{fmt.Errorf("--%s is for relays and operators, not for a %s; see %s --help", right, given[0], cmd.CommandPath())}
		}
	}
	return grants, nil
}
