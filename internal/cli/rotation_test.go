package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

// guardedServer asks every role but its superuser for a password. The database postgres is migrated.
func guardedServer(t *testing.T) (server *devpg.Server, admin *pgx.Conn) {
	t.Helper()
	server = pgtest.Server(t, devpg.Options{Rules: []string{"host all all 127.0.0.1/32 scram-sha-256"}})
	admin, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(t.Context()) })
	if _, err := migrate.Up(t.Context(), admin, migrate.Config{}); err != nil {
		t.Fatal(err)
	}
	return server, admin
}

func run(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// A relay at work loses its connections after its role was given another password: it comes back with what its file holds now, and does not end while the file is late.
func TestARotatedPasswordFileIsUsedForTheNextConnection(t *testing.T) {
	t.Parallel()
	server, admin := guardedServer(t)
	run(t, admin, "CREATE ROLE relay LOGIN SUPERUSER PASSWORD 'old'")
	password := filepath.Join(t.TempDir(), "password")
	rewrite(t, password, "old\n")
	cluster := newCluster(t, "shop.order")
	dsn := "postgres://relay@127.0.0.1:" + strconv.Itoa(server.Port()) + "/postgres?sslmode=disable"
	source, err := config.Database(t.Context(), nil, config.Environment{"DATABASE_URL": dsn, "OUTBOX_DATABASE_PASSWORD_FILE": password}, "")
	if err != nil {
		t.Fatal(err)
	}
	source.Brokers = cluster.ListenAddrs()
	fleet := fleetOf(t, *source)
	atWork(t, fleet)
	write := func() {
		run(t, admin, "INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key) VALUES (gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 'shop.order', 'k')")
	}
	published := func() bool {
		var left int
		err := admin.QueryRow(t.Context(), "SELECT count(*) FROM outbox_event WHERE published_at IS NULL").Scan(&left)
		return err == nil && left == 0
	}
	write()
	await.Until(t, "the first event is published", published)

	run(t, admin, "ALTER ROLE relay PASSWORD 'new'", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'relay'")
	write()
	await.Until(t, "the old password is refused", func() bool {
		s := fleet.States()[0]
		return s.Made && s.Engine.Stats().LastError != nil && strings.Contains(s.Engine.Stats().LastError.Error(), "28P01")
	})
	rewrite(t, password, "new\n")
	await.Until(t, "the second event is published", published)
}

func rewrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
