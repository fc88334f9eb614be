package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/postgres/retention"
)

// sourceStatus is what was found of one source.
type sourceStatus struct {
	// name is "" where the settings tell of one source only.
	name, table string
	status      postgres.Status
	holding     retention.Holding
	err         error
	// password is where the database's was taken from.
	password string
}

// statuses asks all sources that are meant at the same time: one that does not answer keeps nobody waiting for the others. The error is one of
// configuration; what fails later is in the reports.
func (a *app) statuses(cmd *cobra.Command, db *database) ([]sourceStatus, error) {
	sources, err := config.Databases(cmd.Context(), db.typed(a, cmd), config.Environment(a.env), db.source)
	if err != nil {
		return nil, settingsError(cmd, err)
	}
	reports := make([]sourceStatus, len(sources))
	pools := make([]*pgxpool.Pool, len(sources))
	defer func() { closeSoon(pools...) }()
	for i := range sources {
		reports[i] = sourceStatus{name: sources[i].Name, table: sources[i].Table}
		if pools[i], reports[i].password, err = a.poolOf(cmd.Context(), cmd, &sources[i]); err != nil {
			return nil, settingsError(cmd, err)
		}
	}
	var wg sync.WaitGroup
	for i := range reports {
		wg.Go(func() { reports[i].ask(cmd.Context(), pools[i]) })
	}
	wg.Wait()
	return reports, nil
}

func (r *sourceStatus) ask(ctx context.Context, pool *pgxpool.Pool) {
	operator, err := postgres.NewOperator(pool, postgres.Config{Table: r.table})
	if err != nil {
		r.err = &configError{err}
		return
	}
	pruner, err := retention.NewPruner(pool, r.table)
	if err != nil {
		r.err = &configError{err}
		return
	}
	if r.status, r.err = operator.Status(ctx); r.err == nil {
		r.holding, r.err = pruner.Holding(ctx)
	}
}

// text is the error as the command would end with it if this source were the only one.
func (r *sourceStatus) text() string { return explain(placed(r.err, r.password)).Error() }

// failedObject is a source of which nothing is known.
type failedObject struct {
	Name  string `json:"name"`
	Table string `json:"table"`
	Error string `json:"error"`
}

func (a *app) encodeStatuses(reports []sourceStatus) error {
	for _, r := range reports {
		var object any = statusWithHolding{statusJSON(r.name, r.status), holdingJSON(r.holding), append([]operate.LetterTopic{}, r.status.LetterTopics...)}
		if r.err != nil {
			object = failedObject{r.name, r.table, r.text()}
		}
		if err := a.encode(object); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printStatuses(reports []sourceStatus) error {
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		show := func() error { return a.printStatus(r) }
		if r.err != nil {
			show = func() error { return a.printFailed(r) }
		}
		if err := show(); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printFailed(r sourceStatus) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "source\t%s\n", r.name)
	fmt.Fprintf(w, "table\t%s\n", r.table)
	// The hint is on a line of its own.
	fmt.Fprintf(w, "error\t%s\n", strings.ReplaceAll(plainText(r.text()), "\n  ", "\n\t"))
	return w.Flush()
}
