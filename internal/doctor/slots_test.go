package doctor

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/outbox-relay/outbox/internal/checkup"
	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// Slots are the server's, so that the test has one of its own. Nothing is said of slots that keep nothing, nor of temporary ones.
func TestReplicationSlotsThatKeepTheLogAreFound(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, devpg.Options{Params: map[string]string{"wal_level": "logical", "max_slot_wal_keep_size": "1MB"}})
	db := &pgtest.DB{URL: server.URL("postgres")}
	keeper := db.Conn(t)
	for _, sql := range []string{"SELECT pg_create_physical_replication_slot('keeps_nothing')", "SELECT pg_create_physical_replication_slot('temporary', true, true)"} {
		if _, err := keeper.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	awaitSound(t, db.URL, checkup.Config{}, "slot-inactive")

	db.Exec(t, "SELECT pg_create_physical_replication_slot('standby', true)")
	db.Exec(t, "SELECT pg_create_logical_replication_slot('debezium', 'pgoutput')")
	db.Exec(t, "CREATE TABLE fills AS SELECT 1 AS i")
	inactive := map[string]Finding{}
	for _, f := range examine(t, db.URL).Findings {
		if f.Code == "slot-inactive" {
			inactive[strings.Fields(f.Text)[4]] = f
		}
	}
	f := inactive["standby"]
	if len(inactive) != 2 || f.Severity != Warning || f.MendSQL || !strings.HasPrefix(f.Text, "the physical replication slot standby is read by nobody: it keeps 0 MiB of the server's log") ||
		!strings.HasSuffix(f.Mend, "cannot be taken back and makes a reader begin anew: SELECT pg_drop_replication_slot('standby');") {
		t.Errorf("found %+v", inactive)
	}
	if f := inactive["debezium"]; !strings.Contains(f.Text, "the logical replication slot debezium of database postgres is read by nobody") || !strings.Contains(f.Text, "dead rows of the last") {
		t.Errorf("the logical slot: %+v", f)
	}
	db.Exec(t, "SELECT pg_drop_replication_slot('debezium')")

	stop := readSlot(t, db.URL, "standby")
	db.Exec(t, "INSERT INTO fills SELECT i FROM generate_series(1, 1000) i")
	limits := checkup.Config{SlotLog: 1}
	f = awaitFinding(t, db.URL, limits, "slot-behind")
	if !strings.HasPrefix(f.Text, "the physical replication slot standby is read from, and far behind: it keeps 0 MiB") || strings.Contains(f.Mend, "pg_drop") {
		t.Errorf("a reader that is behind: %+v", f)
	}
	awaitSound(t, db.URL, checkup.Config{}, "slot-behind")
	stop()
	awaitFinding(t, db.URL, checkup.Config{}, "slot-inactive")

	for range 3 {
		db.Exec(t, "INSERT INTO fills SELECT 1")
		db.Exec(t, "SELECT pg_switch_wal()")
	}
	db.Exec(t, "CHECKPOINT")
	f = awaitFinding(t, db.URL, checkup.Config{}, "slot-lost")
	db.Exec(t, f.Mend[strings.Index(f.Mend, "SELECT pg_drop"):])
	awaitSound(t, db.URL, checkup.Config{}, "slot-lost")
}

// readSlot reads from a slot, as a standby does that says nothing of how far it is, until stop is called.
func readSlot(t *testing.T, address, slot string) (stop func()) {
	t.Helper()
	cfg, err := pgconn.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["replication"] = "true"
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	conn.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION SLOT " + slot + " PHYSICAL 0/1000000"})
	if err := conn.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	stop = func() { _ = conn.Close(t.Context()) } // the server notices
	t.Cleanup(stop)
	return stop
}
