package pgtest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/migrate"
)

// cleanupLimit bounds what is done after a test, when its context has ended.
const cleanupLimit = 30 * time.Second

// DB is the database of one test.
type DB struct {
	// URL is its address.
	URL string
	// Name is the database's name on its server.
	Name string
	// Source is the id of its source; zero in an empty database. It is another one in every test.
	Source uuid.UUID
}

// Option changes what [New] makes.
type Option func(*options)

type options struct {
	empty    bool
	config   *migrate.Config
	encoding string
}

// Empty leaves the database as the server makes it: no table, no schema outbox.
func Empty(o *options) { o.empty = true }

// Migrated migrates the database with a configuration of the test's own, such as another table or number of lanes.
func Migrated(c migrate.Config) Option { return func(o *options) { o.config = &c } }

// Encoded gives the database an encoding of its own, by PostgreSQL's name for it, in place of the server's.
func Encoded(name string) Option { return func(o *options) { o.encoding = name } }

// New makes a database for this test and drops it afterwards. Without an option it holds the table public.outbox_event and the schema
// outbox.
func New(t testing.TB, opts ...Option) *DB {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	s := sharedServer(t)
	template := ""
	switch {
	case o.encoding != "":
		// Only the server's own empty template suits any encoding.
		template = "template0 ENCODING '" + o.encoding + "' LC_COLLATE 'C' LC_CTYPE 'C'"
	case !o.empty && o.config == nil:
		template = s.templateFor(t)
	}
	db := s.create(t, template)
	if o.empty {
		return db
	}
	if o.config == nil {
		o.config = &migrate.Config{}
	}
	result, err := migrate.Up(t.Context(), db.Conn(t), *o.config)
	if err != nil {
		t.Fatalf("migrate the database of the test: %v", err)
	}
	db.Source = result.Source
	return db
}

// Pool returns a new pool, closed when the test ends.
func (db *DB) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), db.URL)
	if err != nil {
		t.Fatalf("make a pool: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// Conn returns a new connection, closed when the test ends.
func (db *DB) Conn(t testing.TB) *pgx.Conn {
	t.Helper()
	return connect(t, db.URL)
}

// Exec runs statements on a connection of its own; several, separated by semicolons, when there are no arguments.
func (db *DB) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("run %s: %v", sql, err)
	}
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
		defer cancel()
		c.Close(ctx)
	})
	return c
}

// randomName makes a name that no other test has.
func randomName(prefix string) string { return prefix + strings.ToLower(rand.Text()[:16]) }
