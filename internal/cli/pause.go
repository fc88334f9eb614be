package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/topicname"
	"github.com/outbox-relay/outbox/operate"
)

type pauseFlags struct {
	database
	actorFlags
	topic, key     string
	json, emptyKey bool
}

func (a *app) pause() *cobra.Command {
	return a.pauseVerb(operate.VerbPause, "Stop publishing: everything, a topic or a key", `Nothing new of it goes to Kafka within a second, whichever relay has it, until outbox
resume; it survives restarts. Events are written all the same, and wait in order. What
is on its way arrives. outbox pause list and outbox status show what is paused, by whom
and why. outbox pause relay is for everything: it stops no process.`,
		`  outbox pause topic order-service.order.confirmed --reason "the consumer is being mended"
  outbox pause key --topic order-service.order.confirmed --key order-17
  outbox pause relay
  outbox pause list`)
}

func (a *app) resume() *cobra.Command {
	return a.pauseVerb(operate.VerbResume, "Go on publishing what was paused", `What waited goes out in order. outbox pause list shows what is paused.`,
		`  outbox resume topic order-service.order.confirmed
  outbox resume key --topic order-service.order.confirmed --key order-17
  outbox resume relay`)
}

func (a *app) pauseVerb(verb operate.Verb, short, long, example string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     string(verb),
		Short:   short,
		Long:    short + ".\n\n" + long,
		Example: example,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	if verb == operate.VerbPause {
		cmd.AddCommand(a.pauseList())
	}
	cmd.AddCommand(
		a.pauseScope(verb, "relay", "everything of the table, whichever relay has it", operate.ScopeSource),
		a.pauseScope(verb, "topic TOPIC | --topic TOPIC", "one topic", operate.ScopeTopic, "TOPIC"),
		a.pauseScope(verb, "key TOPIC KEY | --topic TOPIC --key KEY", "one key: a topic and a partition key", operate.ScopeKey, "TOPIC", "KEY"),
	)
	return cmd
}

func (a *app) pauseScope(verb operate.Verb, use, what, scope string, args ...string) *cobra.Command {
	f := &pauseFlags{}
	examples := map[string]string{
		operate.ScopeSource: "relay --reason \"the cluster is being moved\"",
		operate.ScopeTopic:  "topic order-service.order.confirmed",
		operate.ScopeKey:    "key --topic order-service.order.confirmed --key order-17",
	}
	// What people call it that is no name of a command.
	others := map[string][]string{operate.ScopeSource: {"source", "all", "everything"}}
	cmd := &cobra.Command{
		Use:        use,
		SuggestFor: others[scope],
		Short:      titled(string(verb)) + " " + what,
		Example:    "  outbox " + string(verb) + " " + examples[scope],
		Args:       pauseArguments(args),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.scope(cmd, scope, args)
			if err != nil {
				return err
			}
			if err := refuseImpossible(cmd, verb, s); err != nil {
				return err
			}
			return a.changePause(cmd, verb, f, s)
		},
	}
	f.database.flags(cmd)
	f.actorFlags.flags(cmd, "why, for the audit and the status")
	cmd.Flags().BoolVar(&f.json, "json", false, "print a JSON object")
	if scope != operate.ScopeSource {
		cmd.Flags().StringVar(&f.topic, "topic", "", "the `topic`, in place of TOPIC")
	}
	if scope == operate.ScopeKey {
		cmd.Flags().StringVar(&f.key, "key", "", "the partition `key`, in place of KEY")
		emptyKeyVar(cmd, &f.emptyKey)
	}
	return cmd
}

// pauseArguments wants what is meant by its place, or by flags as other commands have it.
func pauseArguments(names []string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for _, name := range []string{"topic", "key"} {
			switch flag := cmd.Flags().Lookup(name); {
			case flag == nil || !flag.Changed:
			case flag.Value.String() == "":
				// An empty text is refused as of every flag.
				return nil
			case len(args) > 0:
				return fmt.Errorf("%q and --%s: name it by its place or by flags, not both", args[0], name)
			default:
				names = nil
			}
		}
		if empty := cmd.Flags().Lookup(emptyKeyFlag); empty != nil && empty.Changed && len(args) == 1 {
			return nil
		}
		return arguments(names...)(cmd, args)
	}
}

// scope is what is meant.
func (f *pauseFlags) scope(cmd *cobra.Command, kind string, args []string) (operate.Scope, error) {
	s := operate.Scope{Kind: kind, Topic: f.topic, PartitionKey: f.key}
	if len(args) > 0 {
		s.Topic = args[0]
	}
	if len(args) > 1 {
		s.PartitionKey = args[1]
	}
	switch {
	case kind != operate.ScopeKey:
		return s, nil
	case len(args) == 0 && s.Topic == "":
		return s, &usageError{fmt.Errorf("a key is a topic and a partition key: --topic is missing; see %s --help", cmd.CommandPath())}
	case len(args) == 0 && s.PartitionKey == "" && !f.emptyKey:
		return s, &usageError{fmt.Errorf("a key is a topic and a partition key: --key is missing; see %s --help", cmd.CommandPath())}
	}
	return s, keyArgument(cmd, s.PartitionKey, f.emptyKey)
}

// refuseImpossible refuses to pause a topic that Kafka would not take: nothing is ever published there. What was paused under whatever name can be resumed.
func refuseImpossible(cmd *cobra.Command, verb operate.Verb, what operate.Scope) error {
	if what.Kind == operate.ScopeSource || verb == operate.VerbResume && what.Topic != "" {
		return nil
	}
	if problem := topicname.Check(what.Topic); problem != nil {
		return &usageError{fmt.Errorf("the topic %q %w; see %s --help", what.Topic, problem, cmd.CommandPath())}
	}
	return nil
}

// unseen is a note where no event is known of what is paused: its name may be wrong. "" where there is one, or nobody can say.
func unseen(ctx context.Context, s *operate.Service, what operate.Scope) string {
	if what.Kind == operate.ScopeSource {
		return ""
	}
	q := operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StateAny, Topic: &what.Topic}, Limit: 1}
	if what.Kind == operate.ScopeKey {
		q.PartitionKey = &what.PartitionKey
	}
	p, err := s.Events(ctx, me(), q)
	switch {
	case err != nil || len(p.Events) > 0:
		return ""
	case p.Next != "":
		return fmt.Sprintf("none of the newest events is of %s: is the name right? the pause is for those to come, too", what)
	}
	return fmt.Sprintf("there is no event of %s: is the name right? the pause is for those to come", what)
}

func (a *app) changePause(cmd *cobra.Command, verb operate.Verb, f *pauseFlags, what operate.Scope) error {
	s, done, err := a.service(cmd, &f.database)
	if err != nil {
		return err
	}
	defer done()
	do, did, idle := s.Pause, "paused", "is paused already"
	if verb == operate.VerbResume {
		do, did, idle = s.Resume, "resumed", "is not paused"
	}
	changed, err := do(cmd.Context(), f.actor(), what, f.reason)
	if err != nil {
		return err
	}
	note := ""
	if verb == operate.VerbPause {
		note = unseen(cmd.Context(), s, what)
	}
	if f.json {
		return a.encode(struct {
			operate.Scope
			Verb    operate.Verb `json:"verb"`
			Changed bool         `json:"changed"`
			Note    string       `json:"note,omitempty"`
		}{what, verb, changed, note})
	}
	text := fmt.Sprintf("%s: %s", did, what)
	if !changed {
		text = fmt.Sprintf("%s %s: nothing was changed", what, idle)
	}
	if note != "" {
		text += "\nnote: " + note
	}
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}
