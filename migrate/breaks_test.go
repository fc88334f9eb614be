package migrate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/internal/schema"
	"github.com/outbox-relay/outbox/migrate"
)

const breaking = "-- breaks: a test says so\nALTER TABLE outbox.failure ADD COLUMN next text;"

func TestRelaysKnowTheNewestMigration(t *testing.T) {
	t.Parallel()
	all, err := migrate.All()
	if err != nil {
		t.Fatal(err)
	}
	if schema.Newest != len(all) {
		t.Errorf("schema.Newest is %d, and the last migration is %s", schema.Newest, all[len(all)-1])
	}
}

// Relays that are alive would fail, or worse, on what a migration that breaks leaves.
func TestAMigrationThatBreaksWaitsForTheRelaysToBeStopped(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := db.Conn(t)
	for _, relay := range []string{"('one', '1 hour')", "('two', '1 hour')", "('gone', '-1 s')"} {
		mustExec(t, c, `INSERT INTO outbox.relay (source, owner, name, version, expires_at)
			SELECT s.id, gen_random_uuid(), r.name, '', clock_timestamp() + r.ends::interval FROM outbox.source s, (VALUES `+relay+`) r(name, ends)`)
	}
	harmless := "ALTER TABLE outbox.lane ADD COLUMN next text;"
	err := migrate.UpWith(t.Context(), c, harmless, breaking)
	want := fmt.Sprintf("apply migration %03d_next: older relays cannot work with the schema after it, and these are alive: "+
		"one (public.outbox_event), two (public.outbox_event); stop them all, then run it again", schema.Newest+2)
	if err == nil || err.Error() != want {
		t.Fatalf("with relays alive:\ngot  %v\nwant %s", err, want)
	}
	if got := scan[int](t, c, "SELECT max(version) FROM outbox.migration"); got != schema.Newest+1 {
		t.Errorf("version %d is applied, want the one before the one that breaks, %d", got, schema.Newest+1)
	}
	if st, err := migrate.GetStatus(t.Context(), c, migrate.Config{}); err != nil || st.Err() != nil || !errors.Is(st.Schema, migrate.ErrNewer) || errors.Is(st.Schema, migrate.ErrOutgrown) {
		t.Errorf("status before: %v, %v, %v", err, st.Err(), st.Schema)
	}
	mustExec(t, c, "UPDATE outbox.relay SET expires_at = clock_timestamp()")
	if err := migrate.UpWith(t.Context(), c, harmless, breaking); err != nil {
		t.Fatalf("with all relays gone: %v", err)
	}
	breaks := scan[[]int32](t, c, "SELECT array_agg(version) FROM outbox.migration WHERE breaks")
	if !slices.Equal(breaks, []int32{schema.Newest + 2}) {
		t.Errorf("the migrations %v are marked, want %d", breaks, schema.Newest+2)
	}
	st, err := migrate.GetStatus(t.Context(), c, migrate.Config{})
	if err != nil || !errors.Is(st.Err(), migrate.ErrOutgrown) || !errors.Is(st.Schema, migrate.ErrNewer) {
		t.Errorf("status after: %v, %v, %v", err, st.Err(), st.Schema)
	}
	if _, err := migrate.Up(t.Context(), c, migrate.Config{}); !errors.Is(err, migrate.ErrOutgrown) || !strings.Contains(err.Error(), fmt.Sprintf("outgrown this program by %03d_next", schema.Newest+2)) {
		t.Errorf("up after: %v", err)
	}
}

// A migration that was changed is worse than one that is not known.
func TestAChangedMigrationIsNotHiddenByANewerOne(t *testing.T) {
	t.Parallel()
	c := pgtest.New(t).Conn(t)
	mustExec(t, c, "UPDATE outbox.migration SET checksum = 'other' WHERE version = 1")
	mustExec(t, c, "INSERT INTO outbox.migration (version, name, checksum) VALUES (900, 'future', 'x')")
	st, err := migrate.GetStatus(t.Context(), c, migrate.Config{})
	if err != nil || !errors.Is(st.Err(), migrate.ErrChanged) {
		t.Errorf("status: %v, %v", err, st.Err())
	}
}
