package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
)

func (a *app) configPrint() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the settings in force, and where each of them is from",
		Long: `print shows what outbox relay would be told here: each setting with its value, and the
flag, the variable, or the file and line that it is from. Passwords are ***; of one
that is in a file the file is named. It connects to nothing.

What cannot be read, such as a value that cannot be, is said in place of the
settings; where something is missing or does not fit, they are printed too. The exit code is 78.`,
		Example: `  outbox config print --config outbox.yaml
  outbox config print --poll-interval 20ms --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, readable, wrong := a.relaySettings(cmd)
			if readable {
				if err := a.printEffective(a.effective(cmd.Context(), cfg), asJSON); err != nil {
					return err
				}
			}
			if wrong != nil {
				return settingsError(cmd, wrong)
			}
			return nil
		},
	}
	settingsFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// effectiveSettings are all settings of a process, as they are printed.
type effectiveSettings struct {
	// File is "" when the settings came without one.
	File     string             `json:"file"`
	Settings []config.Effective `json:"settings"`
	Sources  []effectiveSource  `json:"sources"`
}

type effectiveSource struct {
	// Name is "" for the only source of a process without a list of sources.
	Name     string             `json:"name"`
	Settings []config.Effective `json:"settings"`
	// Database is what URL and PG* variables come to; nil when they cannot be read.
	Database *effectiveDatabase `json:"database,omitempty"`
}

type effectiveDatabase struct {
	Address  string `json:"address"`
	Database string `json:"database"`
	User     string `json:"user"`
	// PasswordFrom is the variable, the line or the file that the password was taken from; "" when there is none.
	PasswordFrom string `json:"password_from,omitempty"`
}

func (a *app) effective(ctx context.Context, cfg *config.Config) effectiveSettings {
	out := effectiveSettings{File: cfg.File, Settings: cfg.Effective()}
	for i := range cfg.Sources {
		s := &cfg.Sources[i]
		shown := effectiveSource{Name: s.Name, Settings: s.Effective()}
		target := targetOf(s)
		if pool, err := target.parse(ctx, a.env); err == nil {
			c := pool.ConnConfig
			shown.Database = &effectiveDatabase{address(&c.Config), c.Database, c.User, target.passwordPlace(a.env, pool)}
		}
		out.Sources = append(out.Sources, shown)
	}
	return out
}

func (a *app) printEffective(e effectiveSettings, asJSON bool) error {
	if asJSON {
		return a.encode(e)
	}
	err := a.table("SETTING\tVALUE\tFROM", func(w io.Writer) {
		writeSettings(w, e.Settings)
		for _, s := range e.Sources {
			if s.Name != "" {
				fmt.Fprintf(w, "\nsource %s\n", s.Name)
			}
			writeSettings(w, s.Settings)
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	for _, s := range e.Sources {
		if s.Database != nil {
			fmt.Fprintln(a.stdout, s.connects())
		}
	}
	return nil
}

func writeSettings(w io.Writer, list []config.Effective) {
	for _, e := range list {
		from := e.Origin
		if e.Path != "" {
			from += " (" + e.Path + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Setting, whole.name(valueText(e.Value)), noteLine(from))
	}
}

// valueText is a value as it is written in a variable.
func valueText(value any) string {
	if list, ok := value.([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(value)
}

// connects says where the source's connections would go.
func (s effectiveSource) connects() string {
	d := s.Database
	who := "the relay"
	if s.Name != "" {
		who = "source " + s.Name
	}
	return noteLine(fmt.Sprintf("%s connects to database %s at %s as %s; password: %s", who, cmp.Or(d.Database, d.User), d.Address, d.User, cmp.Or(d.PasswordFrom, "none")))
}
