package cli

import (
	"cmp"
	"log/slog"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres"
)

// service makes the operators' service of the source for a command that changes something; done closes its connections.
func (a *app) service(cmd *cobra.Command, db *database) (service *operate.Service, done func(), err error) {
	pool, err := db.pool(cmd.Context(), a, cmd)
	if err != nil {
		return nil, nil, settingsError(cmd, err)
	}
	store, err := postgres.NewStore(pool, postgres.Config{Table: db.table, Logger: a.logger(a.remarks(), slog.LevelWarn)})
	if err == nil {
		service, err = operate.New(store, nil, operate.Config{})
	}
	if err != nil {
		closeSoon(pool)
		return nil, nil, &configError{err}
	}
	return service, func() { closeSoon(pool) }, nil
}

// actorFlags say who asks. Whoever can use the command line has the rights of its database role: what that may do, the database decides.
type actorFlags struct{ as, reason string }

func (f *actorFlags) flags(cmd *cobra.Command, reason string) {
	cmd.Flags().StringVar(&f.as, "as", "", "your `name`, for the audit; without it that of the machine's user")
	cmd.Flags().StringVar(&f.reason, "reason", "", reason)
}

func (f *actorFlags) actor() operate.Actor {
	return operate.Actor{Name: cmp.Or(f.as, operatorName()), Role: operate.Admin}
}

func operatorName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}
