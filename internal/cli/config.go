package cli

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
)

func (a *app) configuration() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Look at the relay's settings: what is in force and why, whether a file is right, an example",
		Long: `A setting of outbox relay is made by a flag, a variable or a line of its file. These
commands read them as the relay does, and connect to nothing.`,
		Example: `  outbox config example > outbox.yaml
  outbox config validate outbox.yaml
  outbox config print --config outbox.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.configPrint(), a.configValidate(), a.configSchema(), a.configExample())
	return cmd
}

// relaySettings reads the settings and does what the relay does before it connects: the error joins everything that is wrong. readable tells that what was told could be read.
func (a *app) relaySettings(cmd *cobra.Command) (cfg *config.Config, readable bool, err error) {
	var keys []string
	for _, s := range config.Settings() {
		keys = append(keys, s.Key)
	}
	own := a.fromEnvironmentBut(cmd, keys)
	cfg, err = config.Load(cmd.Context(), cmd.Flags(), config.Environment(a.env))
	parts, err := a.parts(cmd.Context(), cfg, errors.Join(own, err), slog.New(slog.DiscardHandler))
	closePools(parts)
	return cfg, own == nil && cfg.Readable(), err
}

func (a *app) configSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the file of settings, for editors",
		Long: `schema prints the JSON Schema of the relay's file of settings: an editor that has it
completes names, shows what they mean, and marks what is wrong. Put it beside the
file, whose first line names it, as that of outbox config example does:

  # yaml-language-server: $schema=` + config.SchemaFile,
		Example: "  outbox config schema > " + config.SchemaFile,
		RunE: func(*cobra.Command, []string) error {
			schema, err := config.Schema()
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(schema)
			return err
		},
	}
}

func (a *app) configExample() *cobra.Command {
	return &cobra.Command{
		Use:     "example",
		Short:   "Print a file of settings that shows all of them, with what each means",
		Example: "  outbox config example > outbox.yaml",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.stdout, config.Example())
			return err
		},
	}
}

// settingsFlags adds the relay's flags to a command that reads its settings and connects to nothing.
func settingsFlags(cmd *cobra.Command) {
	cmd.Annotations = map[string]string{collects: "environment"}
	config.Flags(cmd.Flags())
	for _, s := range config.Settings() {
		if len(s.Words) > 0 {
			completeWords(cmd, s.Key, s.Words)
		}
	}
	// The error would be that there is no such flag.
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
}
