package migrate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

func TestAChangedMigrationIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := db.Conn(t)
	mustExec(t, c, "UPDATE outbox.migration SET checksum = 'other' WHERE version = 1")
	_, err := migrate.Up(t.Context(), c, migrate.Config{})
	if !errors.Is(err, migrate.ErrChanged) || !strings.Contains(err.Error(), "001_state") {
		t.Errorf("up: %v", err)
	}
	st, err := migrate.GetStatus(t.Context(), c, migrate.Config{})
	if err != nil || !errors.Is(st.Err(), migrate.ErrChanged) {
		t.Errorf("status: %v, %v", err, st.Err())
	}
}

func TestANewerSchemaIsRefusedByUpAndAcceptedByARelay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := db.Conn(t)
	mustExec(t, c, "INSERT INTO outbox.migration (version, name, checksum) VALUES (900, 'future', 'x')")
	before := catalog(t, c)
	_, err := migrate.Up(t.Context(), c, migrate.Config{Table: "other"})
	if !errors.Is(err, migrate.ErrNewer) || !strings.Contains(err.Error(), "900_future") {
		t.Errorf("up: %v", err)
	}
	diffLines(t, "a refused up changed the catalog", catalog(t, c), before)
	st, err := migrate.GetStatus(t.Context(), c, migrate.Config{})
	if err != nil || !errors.Is(st.Schema, migrate.ErrNewer) || st.Err() != nil {
		t.Errorf("status: %v, %v, %v", err, st.Schema, st.Err())
	}
}

func TestStatusSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	c := db.Conn(t)
	before := catalog(t, c)
	st, err := migrate.GetStatus(t.Context(), c, migrate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := migrate.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Pending) != len(all) || len(st.Applied) != 0 || !slices.Equal(codes(st.Differences), []string{"e:table-missing"}) || st.Source != nil {
		t.Errorf("of an empty database: %+v", st)
	}
	for _, part := range []string{"001_state", "there is no table public.outbox_event", "not registered"} {
		if !strings.Contains(st.Err().Error(), part) {
			t.Errorf("the error does not say %q: %v", part, st.Err())
		}
	}
	diffLines(t, "asking changed the catalog", catalog(t, c), before)

	r := mustUp(t, c, migrate.Config{Lanes: 5})
	st, err = migrate.GetStatus(t.Context(), c, migrate.Config{})
	if err != nil || st.Err() != nil {
		t.Fatalf("after up: %v, %v", err, st.Err())
	}
	if len(st.Pending) != 0 || st.Source.ID != r.Source || st.Source.Lanes != 5 || st.Applied[0].AppliedAt.IsZero() {
		t.Errorf("after up: %+v", st)
	}
}
