package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres"
)

func (a *app) dlt() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlt",
		Short: "Look at dead letters: list and show them, send them back, delete them",
		Long: `A dead letter is a record that a consumer has given up: it is in the dead-letter topic
of its topic, with headers that say where it was and why it failed. Those of this
product's consumers are read, of Spring and of Kafka Connect.

Name the dead-letter topic, or the topic whose -dlt (or .DLT) it is. The database is
where it is remembered which letters were sent back; it can be that of the consumer.`,
		Example: `  outbox dlt list shop.order
  outbox dlt show shop.order-dlt/0/17
  outbox dlt redrive shop.order --error "no such account" --dry-run
  outbox dlt purge shop.order --before 30d`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.dltList(), a.dltShow(), a.dltRedrive(), a.dltPurge())
	return cmd
}

// dltSettings are the relay's settings that a command on dead letters needs.
func dltSettings() []string {
	return append(brokerSettings(), "config", "database-url", "table", "compression", "verbose")
}

// dltFlags are those of every command on dead letters.
type dltFlags struct {
	chosenSource
	force, json bool
}

func (f *dltFlags) flags(cmd *cobra.Command) {
	f.chosenSource.flags(cmd, dltSettings())
	cmd.Flags().BoolVar(&f.force, "force", false, "take the topic for a dead-letter topic, whatever it is called and holds")
	cmd.Flags().BoolVar(&f.json, "json", false, "print a JSON object")
}

// chosenSource are the settings of the database and of Kafka, as the relay has them, of one source.
type chosenSource struct {
	settings *pflag.FlagSet
	source   string
}

func (f *chosenSource) flags(cmd *cobra.Command, names []string) {
	f.settings = pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	config.Flags(f.settings)
	for _, name := range names {
		cmd.Flags().AddFlag(f.settings.Lookup(name))
	}
	cmd.Flags().StringVar(&f.source, "source", "", "the `name` of one of the file's sources")
}

// chosen is the source that is meant.
func (f *chosenSource) chosen(ctx context.Context, a *app) (*config.Source, error) {
	cfg, err := config.Load(ctx, f.settings, config.Environment(a.env))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(cfg.Sources))
	for i := range cfg.Sources {
		if cfg.Sources[i].Name == f.source || f.source == "" && len(cfg.Sources) == 1 {
			return &cfg.Sources[i], nil
		}
		names = append(names, cfg.Sources[i].Name)
	}
	if f.source == "" {
		return nil, fmt.Errorf("there are the sources %s: name one with --source", config.Alternatives(names))
	}
	return nil, fmt.Errorf("there is no source %s; name its file with --config or OUTBOX_CONFIG", f.source)
}

// letters makes the service, and what reaches Kafka; done closes their connections.
func (a *app) letters(cmd *cobra.Command, f *dltFlags) (service *operate.Service, topics *kafka.Letters, done func(), err error) {
	source, err := f.chosen(cmd.Context(), a)
	if err != nil {
		return nil, nil, nil, settingsError(cmd, err)
	}
	pool, password, err := a.poolOf(cmd.Context(), cmd, source)
	if err != nil {
		return nil, nil, nil, settingsError(cmd, err)
	}
	a.password = password
	p := &part{cfg: *source}
	topics, err = kafka.NewLetters(p.kafka(a.logger(a.remarks(), slog.LevelWarn)))
	if err == nil {
		var store *postgres.Store
		if store, err = postgres.NewStore(pool, postgres.Config{Table: source.Table}); err == nil {
			service, err = operate.New(store, nil, operate.Config{})
		}
	}
	if err != nil {
		closeSoon(pool)
		return nil, nil, nil, &configError{err}
	}
	return service, topics, func() {
		topics.Close()
		closeSoon(pool)
	}, nil
}

// understood reads the environment, and checks values.
func (a *app) understood(cmd *cobra.Command, checks []check) error {
	if err := a.fromEnvironmentBut(cmd, dltSettings()); err != nil {
		return &configError{err}
	}
	return a.refuse(cmd, checks)
}

// letterFilter are the flags that say which letters are meant.
type letterFilter struct{ failed, failedBy, key, typ, from, until string }

// letterNarrowing are their names.
var letterNarrowing = []string{"error", "failed-by", "key", "type", "from", "until"}

func (f *letterFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.failed, "error", "", "a `part` of the error, in any case")
	flags.StringVar(&f.failedBy, "failed-by", "", "the `name` of the consumer that gave it up")
	flags.StringVar(&f.key, "key", "", "the record's `key`")
	flags.StringVar(&f.typ, "type", "", "the event's `type`, such as order.confirmed.v1")
	flags.StringVar(&f.from, "from", "", "letters of this `time` or later: "+momentsHelp)
	flags.StringVar(&f.until, "until", "", "letters before this `time`, as of --from")
}

func (f *letterFilter) filter(a *app, cmd *cobra.Command) (operate.LetterFilter, error) {
	found := operate.LetterFilter{Error: f.failed, FailedBy: f.failedBy, Key: givenText(cmd, "key", &f.key), Type: givenText(cmd, "type", &f.typ)}
	var err error
	if found.From, err = moments(f.from, a.now()); err != nil {
		return found, a.badFlag(cmd, "from", " %w", err)
	}
	if found.Until, err = moments(f.until, a.now()); err != nil {
		return found, a.badFlag(cmd, "until", " %w", err)
	}
	return found, nil
}

// selection are topics, or letters: what has a / names a letter, since no topic has one.
func (f *dltFlags) selection(args []string) (s operate.LetterSelection, err error) {
	s.Force = f.force
	for _, arg := range args {
		if !strings.Contains(arg, "/") {
			s.Topics = append(s.Topics, arg)
			continue
		}
		ref, err := operate.ParseLetterRef(arg)
		if err != nil {
			return s, err
		}
		s.Refs = append(s.Refs, ref)
	}
	return s, nil
}

// someArguments wants at least one argument.
func someArguments(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for _, arg := range args {
			if strings.TrimSpace(arg) == "" {
				return fmt.Errorf("%s: an argument is empty: name %s", strings.TrimPrefix(cmd.CommandPath(), "outbox "), what)
			}
		}
		if len(args) == 0 {
			return fmt.Errorf("%s needs %s", strings.TrimPrefix(cmd.CommandPath(), "outbox "), what)
		}
		return nil
	}
}
