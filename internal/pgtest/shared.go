package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/migrate"
)

// The server of this process. It is the one thing that tests share, and it is started by the first that asks: the testing package
// gives a library no place to keep it.
var (
	sharedMu  sync.Mutex
	sharedOne *shared
	sharedErr error
)

// shared is a server that many tests use.
type shared struct {
	admin *url.URL // the database to create others from
	pool  *pgxpool.Pool
	own   *devpg.Server // nil when the server is at DATABASE_URL

	templateOnce sync.Once
	template     string
	templateErr  error
}

func sharedServer(t testing.TB) *shared {
	t.Helper()
	sharedMu.Lock()
	defer sharedMu.Unlock()
	if sharedOne == nil && sharedErr == nil {
		sharedOne, sharedErr = openShared()
	}
	if sharedErr != nil {
		t.Fatalf("these tests need a PostgreSQL server: %v\nOr set DATABASE_URL to a server on which tests may create databases.", sharedErr)
	}
	return sharedOne
}

// openShared lasts longer than the test that asked for it, so it takes no context of a test.
func openShared() (*shared, error) {
	s := &shared{}
	address := os.Getenv("DATABASE_URL")
	if address == "" {
		own, err := devpg.Start(context.Background(), devpg.Options{Version: os.Getenv("OUTBOX_TEST_PG_VERSION")})
		if err != nil {
			return nil, err
		}
		s.own = own
		address = own.URL("postgres")
	}
	err := s.open(address)
	if err != nil && s.own != nil {
		err = errors.Join(err, s.own.Cleanup())
	}
	return s, err
}

func (s *shared) open(address string) (err error) {
	if s.admin, err = url.Parse(address); err != nil || s.admin.Host == "" {
		return errors.New("DATABASE_URL has to be an address like postgres://user@host:5432/database")
	}
	s.pool, err = pgxpool.New(context.Background(), address)
	if err != nil {
		return err
	}
	if err := s.pool.Ping(context.Background()); err != nil {
		s.pool.Close()
		return fmt.Errorf("reach the server at DATABASE_URL: %w", err)
	}
	return nil
}

// address is the URL of another database on the server.
func (s *shared) address(database string) string {
	u := *s.admin
	u.Path = "/" + database
	return u.String()
}

// create makes a database and has it dropped at the end of the test, whoever is still connected.
func (s *shared) create(t testing.TB, template string) *DB {
	t.Helper()
	name := randomName("outbox_test_")
	sql := "CREATE DATABASE " + name
	if template != "" {
		sql += " TEMPLATE " + template
	}
	if _, err := s.pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("create the database of the test: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
		defer cancel()
		if _, err := s.pool.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the database of the test: %v", err)
		}
	})
	return &DB{URL: s.address(name), Name: name}
}

// templateFor returns the name of the migrated template.
func (s *shared) templateFor(t testing.TB) string {
	t.Helper()
	s.templateOnce.Do(func() { s.template, s.templateErr = s.ensureTemplate(context.Background()) })
	if s.templateErr != nil {
		t.Fatalf("make the template of test databases: %v", s.templateErr)
	}
	return s.template
}

// ensureTemplate makes the template once for all processes that share the server. Its name holds a hash of what it is made from, so a
// changed schema gets a new one. It is built under another name: one that is found is whole.
func (s *shared) ensureTemplate(ctx context.Context) (string, error) {
	sql, err := migrate.Print(migrate.Config{})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(sql))
	name := "outbox_template_" + hex.EncodeToString(sum[:6])
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer c.Release()
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", name); err != nil {
		return "", err
	}
	defer func() { _, _ = c.Exec(ctx, "SELECT pg_advisory_unlock(hashtext($1))", name) }()
	var there bool
	err = c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there)
	if err != nil || there {
		return name, err
	}
	return name, s.buildTemplate(ctx, c.Conn(), name)
}

func (s *shared) buildTemplate(ctx context.Context, admin *pgx.Conn, name string) error {
	work := randomName("outbox_template_")
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+work); err != nil {
		return err
	}
	if err := migrateTemplate(ctx, s.address(work)); err != nil {
		return err
	}
	_, err := admin.Exec(ctx, "ALTER DATABASE "+work+" RENAME TO "+name)
	return err
}

// migrateTemplate leaves out the source's row: each test gets a source id of its own.
func migrateTemplate(ctx context.Context, address string) error {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if _, err := migrate.Up(ctx, c, migrate.Config{}); err != nil {
		return err
	}
	_, err = c.Exec(ctx, "DELETE FROM outbox.source")
	return err
}
