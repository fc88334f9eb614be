package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/relay"
)

// withPlace is an error of a database, with the place that its password was taken from: the driver's errors do not know it.
type withPlace struct {
	error
	place string
}

// Unwrap returns the error itself.
func (w *withPlace) Unwrap() error { return w.error }

// placed adds the place of the password to an error; nil stays nil.
func placed(err error, place string) error {
	if err == nil || place == "" {
		return err
	}
	return &withPlace{err, place}
}

// placing is a log whose errors know the settings of their source, and the place that the password of its database was taken from.
type placing struct {
	slog.Handler
	place  string
	source *config.Source
}

func newPlacing(log *slog.Logger, place string, source *config.Source) *slog.Logger {
	return slog.New(placing{log.Handler(), place, source})
}

// Handle is of slog.Handler.
func (p placing) Handle(ctx context.Context, r slog.Record) error {
	known := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			a = slog.Any(a.Key, told(err, p.place, p.source))
		}
		known.AddAttrs(a)
		return true
	})
	return p.Handler.Handle(ctx, known)
}

// WithAttrs is of slog.Handler.
func (p placing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return placing{p.Handler.WithAttrs(attrs), p.place, p.source}
}

// WithGroup is of slog.Handler.
func (p placing) WithGroup(name string) slog.Handler {
	return placing{p.Handler.WithGroup(name), p.place, p.source}
}

// passwordPlace says where the password comes from that a connection uses: by which variable, which line, which file. It is "" when there is none.
func (t target) passwordPlace(env environment, cfg *pgxpool.Config) string {
	switch {
	case t.command != nil:
		return t.command.name
	case cfg.ConnConfig.Password == "":
		return ""
	case t.password != "":
		return t.passwordName
	case hasPassword(t.url):
		return t.urlName
	case env["PGPASSWORD"] != "":
		return "PGPASSWORD"
	case t.parameter(env, "service") != "":
		return "the service file or the password file"
	}
	return passwordFile + cmp.Or(t.parameter(env, "passfile"), "~/.pgpass")
}

// passwordFile stands in front of the name of the driver's own.
const passwordFile = "the password file "

// checkCommand refuses a command that cannot be run, or that stands beside a password.
func (t target) checkCommand() error {
	if t.command == nil {
		return nil
	}
	if t.password != "" {
		return fmt.Errorf("%s and %s both give the database's password: leave one out", t.command.name, t.passwordName)
	}
	return t.command.check()
}

// Run is the engine's.
func (s *sourceRelay) Run(ctx context.Context) error {
	return told(s.Engine.Run(ctx), s.password, s.cfg)
}

// Stats are the engine's.
func (s *sourceRelay) Stats() relay.Stats {
	stats := s.Engine.Stats()
	stats.LastError = told(stats.LastError, s.password, s.cfg)
	return stats
}
