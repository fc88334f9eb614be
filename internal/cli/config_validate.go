package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
)

func (a *app) configValidate() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Say everything that is wrong with the settings, without connecting to anything",
		Long: `validate reads the settings as outbox relay would here: FILE, or the file that --config
or OUTBOX_CONFIG names, the environment and the flags. It says everything that is
wrong, each with its place, and ends with 78 then; it connects to nothing. What the
relay gets elsewhere, such as KAFKA_BROKERS or the file of a password, has to be
there, or a stand-in of it.`,
		Example: `  outbox config validate outbox.yaml
  KAFKA_BROKERS=kafka:9092 outbox config validate deploy/outbox.yaml`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := nameFile(cmd, args[0]); err != nil {
					return err
				}
			}
			cfg, _, err := a.relaySettings(cmd)
			if err != nil {
				return settingsError(cmd, err)
			}
			return a.sayValid(cfg, asJSON)
		},
	}
	settingsFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// nameFile makes the argument the file that is read.
func nameFile(cmd *cobra.Command, path string) error {
	if cmd.Flags().Lookup("config").Changed {
		return &usageError{fmt.Errorf("the file is named twice, by %s and --config: leave one out; see %s --help", path, cmd.CommandPath())}
	}
	if path == "" {
		return &usageError{fmt.Errorf("FILE is empty: name the file, or leave it out; see %s --help", cmd.CommandPath())}
	}
	return cmd.Flags().Set("config", path)
}

// validity is what validate prints where nothing is wrong; what is wrong is an error.
type validity struct {
	Valid bool `json:"valid"`
	// File is "" when the settings came without one.
	File    string   `json:"file"`
	Sources []string `json:"sources"`
}

func (a *app) sayValid(cfg *config.Config, asJSON bool) error {
	v := validity{Valid: true, File: cfg.File}
	for i := range cfg.Sources {
		v.Sources = append(v.Sources, cfg.Sources[i].Label())
	}
	if asJSON {
		return a.encode(v)
	}
	_, err := fmt.Fprintf(a.stdout, "%s: nothing is wrong with the settings of %s\n", printable(cmp.Or(v.File, "flags and environment")), plural(len(v.Sources), "source"))
	return err
}
