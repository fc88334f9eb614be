package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/postgres"
)

// database are the settings of every command that needs PostgreSQL.
type database struct {
	url   string
	table string
	// file and source name one of the sources that a relay's file lists.
	file, source string
	// of is the source, as soon as it was read.
	of *config.Source
}

func (d *database) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.url, "database-url", "", "PostgreSQL `URL`; without it DATABASE_URL, then the PG* variables")
	cmd.Flags().StringVar(&d.file, "config", "", "the relay's YAML `file`, to take database and table from")
	cmd.Flags().StringVar(&d.source, "source", "", "the `name` of one of its sources")
	// The error would be that there is no such flag.
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	d.tableFlag(cmd)
}

func (d *database) tableFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.table, "table", "public.outbox_event", "the outbox table, `schema.name`")
}

// pgVariables are those by which libpq finds a server; one of them must be set when there is no URL.
var pgVariables = []string{"PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE"}

// pool makes the pool without connecting; every error is one of configuration. The table is then the source's.
func (d *database) pool(ctx context.Context, a *app, cmd *cobra.Command) (*pgxpool.Pool, error) {
	source, err := config.Database(ctx, d.typed(a, cmd), config.Environment(a.env), d.source)
	if err != nil {
		return nil, err
	}
	d.of = source
	pool, password, err := a.poolOf(ctx, cmd, source)
	d.table, a.password = source.Table, password
	return pool, err
}

// applicationName is what a command's connections are called.
func applicationName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

// typed are the flags of the command line that say which database it is.
func (d *database) typed(a *app, cmd *cobra.Command) map[string]string {
	return a.typed(cmd, "config", "database-url", "table")
}

// poolOf makes a source's pool without connecting, and says where the password was taken from.
func (a *app) poolOf(ctx context.Context, cmd *cobra.Command, source *config.Source) (pool *pgxpool.Pool, password string, err error) {
	target := targetOf(source)
	cfg, err := target.parse(ctx, a.env)
	if err != nil {
		return nil, "", fmt.Errorf("%s%w", source.Where(), err)
	}
	pool, err = newPool(ctx, cfg, applicationName(cmd))
	return pool, target.passwordPlace(a.env, cfg), err
}

// typed are the flags that the command line has set, of those that are named.
func (a *app) typed(cmd *cobra.Command, flags ...string) map[string]string {
	typed := map[string]string{}
	for _, name := range flags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && a.origin[name] == "" {
			typed[name] = f.Value.String()
		}
	}
	return typed
}

// targetOf is the source's table.
func targetOf(s *config.Source) target {
	return target{
		url: s.DatabaseURL, table: s.Table, password: s.DatabasePassword,
		urlName: s.Named("database-url"), tableName: s.Named("table"), passwordName: s.Named("database-password"), typed: s.Typed("database-url"), tableTyped: s.Typed("table"),
		rotating: s.Rotating("database-password"), command: newPasswordCommand(s.DatabasePasswordCommand, s.Named("database-password-command")),
		hint:    s.How("database-url", "DATABASE_URL, such as postgres://user@host:5432/shop, or the PG* variables, or --database-url"),
		unknown: !s.Lacks("database-url"),
	}
}

// checkURL refuses what must not be used, whatever is at the other end.
func (d *database) checkURL(a *app, cmd *cobra.Command) error {
	return target{url: d.url, urlName: a.named("database-url"), typed: len(a.typed(cmd, "database-url")) > 0}.checkURL()
}

// target is a table in a database, as somebody has told it.
type target struct {
	url, table string
	// password, when there is one, is used in place of any other.
	password config.Secret
	// rotating, when not nil, reads the password anew for each connection.
	rotating func() config.Secret
	// command, when not nil, prints the password for new connections, in place of any other.
	command *passwordCommand
	// urlName, tableName and passwordName are how they were told: by which flag, which variable, which line.
	urlName, tableName, passwordName string
	// files are those that the URL names; the driver reads them for each connection.
	files *connectionFiles
	// typed is a URL of the command line. A password in it is refused: every user of the machine can read it there.
	typed bool
	// tableTyped is a table of the command line.
	tableTyped bool
	// hint says how to name a database.
	hint string
	// unknown tells that somebody has named a database, in a way that cannot be and is reported elsewhere.
	unknown bool
}

// errUnknown is of a database of which no more is known than that it was named in a way that cannot be.
var errUnknown = errors.New("the database cannot be known")

// newPool makes a pool whose connections go by the name, such as outbox-doctor, unless the connection string or PGAPPNAME has one. Every pooler knows that setting.
func newPool(ctx context.Context, cfg *pgxpool.Config, name string) (*pgxpool.Pool, error) {
	// A pool that keeps connections at hand makes them at once, and nobody has asked for any yet.
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = 4, 0, 0
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	suitPoolers(cfg.ConnConfig)
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = name
	}
	cfg.AfterConnect = postgres.AsUTF8
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return pool, nil
}

const connectTimeout = 10 * time.Second

func (t target) parse(ctx context.Context, env environment) (*pgxpool.Config, error) {
	if t.unknown && t.url == "" && !env.anySet(pgVariables) {
		return nil, errUnknown
	}
	if t.url == "" && !env.anySet(pgVariables) {
		return nil, fmt.Errorf("no database: set %s", t.hint)
	}
	if _, err := migrate.ParseTable(t.table); err != nil {
		return nil, config.Wrong(t.tableTyped, fmt.Errorf("%s: %w", t.tableName, err))
	}
	if err := t.checkURL(); err != nil {
		return nil, err
	}
	cfg, err := t.driver(ctx)
	if err != nil {
		return nil, t.unparsable(env, err)
	}
	if err := t.mislaid(cfg.ConnConfig); err != nil {
		return nil, err
	}
	if err := t.checkKey(env, cfg.ConnConfig); err != nil {
		return nil, err
	}
	if err := t.checkCertificates(env, cfg.ConnConfig); err != nil {
		return nil, err
	}
	if err := t.checkCommand(); err != nil {
		return nil, err
	}
	if t.password != "" {
		cfg.ConnConfig.Password = string(t.password)
	}
	t.files = newConnectionFiles(t, env)
	cfg.BeforeConnect = t.prepare
	return cfg, nil
}

// prepare reads again, for each connection, what may have been rotated.
func (t target) prepare(ctx context.Context, cc *pgx.ConnConfig) error {
	switch {
	case t.command != nil:
		password, err := t.command.password(ctx)
		if err != nil {
			return err
		}
		cc.Password = password
	case t.rotating != nil:
		cc.Password = string(t.rotating())
	}
	return t.files.reread(ctx, cc, t.password == "" && t.rotating == nil && t.command == nil)
}

func (e environment) anySet(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return e[n] != "" })
}
