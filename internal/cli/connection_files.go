package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/patience"
	"github.com/outbox-relay/outbox/postgres"
)

const (
	// filesPatience is how long the files of a connection string may take at the start: the writer of a pipe may come a moment later.
	filesPatience = 15 * time.Second
	// rereadPatience is how long a look at them may take before a connection.
	rereadPatience = 2 * time.Second
)

// driver has the driver read the connection string, and the files that it names.
func (t target) driver(ctx context.Context) (*pgxpool.Config, error) {
	return patience.Call(ctx, filesPatience, func() (*pgxpool.Config, error) { return pgxpool.ParseConfig(t.url) })
}

// connectionFiles are looked at before the driver reads them, which it does without a limit: one that has become a pipe, or whose mount hangs, would hold a connection, and the stop, for
// ever.
type connectionFiles struct {
	// roots tells that the authorities and the password file can be read again, and pair that the client's certificate and key can.
	roots, pair *patience.Again[struct{}]
	takeRoots   func(context.Context, *pgx.ConnConfig) error
	// password is what the driver finds now, in a password file too; "" where it finds none.
	password *patience.Again[string]
}

func newConnectionFiles(t target, env environment) *connectionFiles {
	named := func(parameter, variable, usual string) string {
		if path := cmp.Or(t.parameter(env, parameter), env[variable]); path != "" || env["HOME"] == "" {
			return path
		}
		return filepath.Join(env["HOME"], usual)
	}
	return &connectionFiles{
		roots: regular(
			named("sslrootcert", "PGSSLROOTCERT", ".postgresql/root.crt"),
			named("passfile", "PGPASSFILE", ".pgpass"),
			named("servicefile", "PGSERVICEFILE", ".pg_service.conf"),
		),
		pair:      regular(named("sslcert", "PGSSLCERT", ".postgresql/postgresql.crt"), named("sslkey", "PGSSLKEY", ".postgresql/postgresql.key")),
		takeRoots: postgres.RereadRoots(t.url),
		password: patience.NewAgain("", rereadPatience, func() (string, error) {
			fresh, err := pgconn.ParseConfig(t.url)
			if err != nil {
				return "", err
			}
			return fresh.Password, nil
		}),
	}
}

// regular looks whether all of the files, as far as they are there, can be read again.
func regular(paths ...string) *patience.Again[struct{}] {
	return patience.NewAgain(struct{}{}, rereadPatience, func() (struct{}, error) {
		for _, path := range paths {
			if err := patience.CheckRegular(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
}

// reread is for a new connection. What cannot be read just now counts as unchanged; without its own certificate the driver cannot go on. wantsPassword tells that the password may be one of a
// password file, which the driver reads when it parses.
func (f *connectionFiles) reread(ctx context.Context, cc *pgx.ConnConfig, wantsPassword bool) error {
	if _, err := f.pair.Try(ctx); err != nil && cc.TLSConfig != nil {
		return fmt.Errorf("read sslcert and sslkey: %w", err)
	}
	if _, err := f.roots.Try(ctx); err != nil {
		return nil //nolint:nilerr // what was read before is used
	}
	if wantsPassword {
		if password := f.password.Read(ctx); password != "" {
			cc.Password = password
		}
	}
	return f.takeRoots(ctx, cc)
}
