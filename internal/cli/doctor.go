package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/doctor"
	"github.com/outbox-relay/outbox/kafka"
)

// doctorFlags are the settings of the relay that is to work, as it has them.
type doctorFlags struct {
	chosenSource
	// of is the source, as soon as it was read.
	of   *config.Source
	json bool
}

// doctorSettings are those of the relay's settings that decide what it needs.
func doctorSettings() []string { return append(dltSettings(), "topics", "create-topics", "on-failure") }

func (a *app) doctor() *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with the database and with Kafka, and say what mends it",
		Long: `doctor looks at the server, at a pooler in the way, at the rights of the role, at the
schema, the table and its source, and at what weakens a guarantee or makes the relay
slow: settings, triggers, dead rows, transactions that are open for long, leases. Of
Kafka it looks at each broker, at what the user may do, and at the topics that events
wait for: whether they are there, take the largest of the events, and are replicated.
Each finding has a code, says why it matters, and what mends it.

It changes nothing, needs no more rights than it is given, and says what it could not
look at, and why. Give it the settings of the relay, to learn whether that may do what
it has to; where that authenticates at Kafka, the rules (ACLs) that it needs are
printed as commands. Without brokers it looks at the database only.

A database that is not reached, and files that lead to Kafka and cannot be used, such as
a certificate that has expired, are findings like others: the rest is looked at.

It ends with 1 where something is wrong, or where what no relay works without could not
be looked at, and with 0 where there are warnings alone.`,
		Example:     "  outbox doctor\n  outbox doctor --table orders.outbox_event --json\n  outbox doctor --config outbox.yaml --source billing",
		Annotations: map[string]string{collects: "environment"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.runDoctor(cmd, f) },
	}
	f.chosenSource.flags(cmd, doctorSettings())
	cmd.Flags().BoolVar(&f.json, "json", false, "print a JSON object")
	return cmd
}

func (a *app) runDoctor(cmd *cobra.Command, f *doctorFlags) error {
	if err := a.fromEnvironmentBut(cmd, doctorSettings()); err != nil {
		return &configError{err}
	}
	db := database{source: f.source}
	pool, err := db.pool(cmd.Context(), a, cmd)
	if err != nil {
		return settingsError(cmd, err)
	}
	defer closeSoon(pool)
	cfg := doctor.Config{Pool: pool, Table: db.table, Explain: a.explained}
	k, err := f.kafka(cmd.Context(), a)
	if err != nil && (!isOfFiles(err) || cmd.Context().Err() != nil) {
		return settingsError(cmd, err)
	}
	cfg.Kafka, cfg.UnusableKafka = k, err
	if k == nil {
		cfg.WithoutKafka = "no brokers are named: set KAFKA_BROKERS, or --brokers"
	} else {
		defer k.Inspector.Close()
	}
	cfg.Exposed = a.exposedSecrets(db.of, f.of)
	report, err := doctor.Examine(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	if f.json {
		err = a.encode(report)
	} else {
		err = a.printExamination(report)
	}
	if err == nil && !report.Ready {
		err = &quietError{}
	}
	return err
}

// isOfFiles tells that settings are as they should be, and the files are not that they name: certificates, keys and secrets.
func isOfFiles(err error) bool {
	switch e := err.(type) { //nolint:errorlint // each error of several is looked at, whatever they are wrapped by
	case *kafka.FilesError, *config.SecretError:
		return true
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(one error) bool { return !isOfFiles(one) })
	case interface{ Unwrap() error }:
		return isOfFiles(e.Unwrap())
	}
	return false
}

// explained is an error as the program would end with it: what it is, and the hint.
func (a *app) explained(err error) (text, mend string) {
	text, mend, _ = strings.Cut(explain(placed(err, a.password)).Error(), "\n  hint: ")
	return text, mend
}

// exposedSecrets are the files of the sources' secrets that others may read; nil where there are no such files.
func (a *app) exposedSecrets(sources ...*config.Source) (exposed []doctor.ExposedFile) {
	var files []config.SecretFile
	for _, s := range sources {
		if s != nil {
			files = append(files, s.SecretFiles()...)
		}
	}
	if path, found := strings.CutPrefix(a.password, passwordFile); found {
		files = append(files, config.SecretFile{Name: "PostgreSQL's password file", Path: homely(a.env, path)})
	}
	for i, file := range files {
		info, err := os.Stat(file.Path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if exposed == nil {
			exposed = []doctor.ExposedFile{}
		}
		if isExposed(info) && !slices.ContainsFunc(files[:i], func(before config.SecretFile) bool { return before.Path == file.Path }) {
			exposed = append(exposed, doctor.ExposedFile{Name: file.Name, Path: file.Path, Mode: info.Mode()})
		}
	}
	return exposed
}

// homely is a path with the home of the user written out.
func homely(env environment, path string) string {
	if rest, found := strings.CutPrefix(path, "~/"); found {
		return filepath.Join(env["HOME"], rest)
	}
	return path
}

// kafka is the cluster of the source; nil when no brokers are named.
func (f *doctorFlags) kafka(ctx context.Context, a *app) (*doctor.Kafka, error) {
	cfg, err := config.Load(ctx, f.settings, config.Environment(a.env))
	if err != nil && len(leaves(err)) == 1 && len(cfg.Sources) == 1 && len(cfg.Sources[0].Brokers) == 0 && cfg.Sources[0].Lacks("brokers") {
		_, err := (&part{cfg: cfg.Sources[0]}).policies()
		return nil, err
	}
	source, err := f.chosen(ctx, a)
	if err != nil {
		return nil, err
	}
	f.of = source
	p := &part{cfg: *source}
	policies, err := p.policies()
	if err != nil {
		return nil, err
	}
	inspector, err := kafka.NewInspector(p.kafka(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	k := &doctor.Kafka{Inspector: inspector, Topics: source.Topics, CreatesTopics: source.CreateTopics}
	for _, policy := range policies {
		if policy.DeadLetterTopic != "" {
			k.Letters = append(k.Letters, policy.DeadLetterTopic)
		}
	}
	return k, nil
}

func (a *app) printExamination(r doctor.Report) error {
	for _, subject := range r.Sound {
		fmt.Fprintf(a.stdout, "ok       %s\n", subject)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(a.stdout, "%-8s %s [%s]\n", f.Severity, indented(f.Text), f.Code)
		for _, more := range []struct{ label, text string }{{"why", f.Why}, {"mend", mendOf(r, f)}} {
			if more.text != "" {
				fmt.Fprintf(a.stdout, "         %-5s %s\n", more.label+":", indented(more.text))
			}
		}
	}
	for _, u := range r.NotLookedAt {
		fmt.Fprintf(a.stdout, "unseen   %s\n         why:  %s\n", u.What, indented(u.Why))
	}
	if len(r.ACLs) > 0 {
		fmt.Fprintf(a.stdout, "rules    that the relay needs here, of a cluster with an authorizer, and no more\n         add:  %s\n", indented(strings.Join(r.ACLs, "\n")))
	}
	_, err := fmt.Fprintln(a.stdout, verdict(r))
	return err
}

// mendOf is what mends a finding. Of a table that is missing with all else it is the command that makes all of it: a second remedy would be tried too.
func mendOf(r doctor.Report, f doctor.Finding) string {
	if f.Code != "table-missing" {
		return f.Mend
	}
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Code == "migrations-pending" })
	if i < 0 {
		return f.Mend
	}
	return r.Findings[i].Mend + " makes it with the rest"
}

// indented puts the further lines of a text below its first, without what a terminal would obey.
func indented(text string) string {
	return strings.ReplaceAll(strings.TrimRight(plainText(text), "\n"), "\n", "\n"+strings.Repeat(" ", 15))
}

func verdict(r doctor.Report) string {
	// A look that was not made may have found something.
	seen := ""
	if len(r.NotLookedAt) > 0 {
		seen = ", as far as was looked at"
	}
	errors := 0
	for _, f := range r.Findings {
		if f.Severity == doctor.Error {
			errors++
		}
	}
	switch {
	case errors > 0:
		return fmt.Sprintf("not ready: %s, %s", plural(errors, "error"), plural(len(r.Findings)-errors, "warning"))
	case !r.Ready:
		return "not ready: what no relay works without could not be looked at"
	case len(r.Findings) > 0:
		return fmt.Sprintf("ready%s, with %s", seen, plural(len(r.Findings), "warning"))
	}
	return "ready" + seen
}
