package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/relay"
)

// refuse makes the table refuse a change of the rows of which the condition, on OLD, holds: by what the trigger's function does then.
func refuse(t *testing.T, db *pgxpool.Pool, mode SettleMode, condition, does string) {
	t.Helper()
	exec(t, db, fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $f$
BEGIN IF %s THEN %s; END IF; RETURN %s; END $f$`, condition, does, map[SettleMode]string{Mark: "NEW", Delete: "OLD"}[mode]))
	exec(t, db, fmt.Sprintf(`CREATE TRIGGER refuse BEFORE %s ON outbox_event FOR EACH ROW EXECUTE FUNCTION refuse()`,
		map[SettleMode]string{Mark: "UPDATE", Delete: "DELETE"}[mode]))
}

// wantUnsettled settles the refs and compares what was settled and what could not be; it returns why.
func wantUnsettled(t *testing.T, s *Source, refs []relay.Ref, settled int, want ...relay.Ref) error {
	t.Helper()
	n, err := s.Settle(t.Context(), refs)
	var u *relay.UnsettledError
	if !errors.As(err, &u) {
		t.Fatalf("Settle = %d, %v; want rows that cannot be settled", n, err)
	}
	same(t, "settled", n, settled)
	slices.SortFunc(u.Refs, func(a, b relay.Ref) int { return cmp.Compare(a.ID, b.ID) })
	same(t, "unsettled", u.Refs, want)
	return u.Err
}

func unpublishedIDs(t *testing.T, db *pgxpool.Pool) []int64 {
	t.Helper()
	return queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox_event WHERE published_at IS NULL ORDER BY id)`)
}

// A constraint that was added NOT VALID lets old rows stay and refuses every change of them.
func TestRowsThatAConstraintRefusesLeaveTheOthersSettled(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	refs := insert(t, db, orders, 50)
	exec(t, db, `ALTER TABLE outbox_event ADD CONSTRAINT wise CHECK ((payload->>'n')::int NOT IN (7, 8, 31)) NOT VALID`)
	err := wantUnsettled(t, s, refs, 47, refs[7], refs[8], refs[31])
	wantText(t, err, "wise", "23514")
	same(t, "unpublished", unpublishedIDs(t, db), []int64{refs[7].ID, refs[8].ID, refs[31].ID})
}

func TestRowsThatATriggerRefusesLeaveTheOthersSettled(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]string{"raise": `RAISE 'hands off'`, "null": `RETURN NULL`} {
		for _, mode := range []SettleMode{Mark, Delete} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				t.Parallel()
				db := newDatabase(t)
				s := openSource(t, db, Config{Settle: mode})
				refs := insert(t, db, orders, 9)
				refuse(t, db, mode, `OLD.payload->>'n' = '0'`, does)
				exec(t, db, `ALTER TABLE outbox_event DISABLE TRIGGER ALL`)
				exec(t, db, `DELETE FROM outbox_event WHERE id = $1`, refs[4].ID)
				exec(t, db, `UPDATE outbox_event SET published_at = now() WHERE id = $1`, refs[5].ID)
				exec(t, db, `ALTER TABLE outbox_event ENABLE TRIGGER ALL`)
				err := wantUnsettled(t, s, refs, 6, refs[0])
				wantText(t, err, map[string]string{"raise": "hands off", "null": "trigger that returns NULL"}[name])
				same(t, "unpublished", unpublishedIDs(t, db), []int64{refs[0].ID})
			})
		}
	}
}

func TestBothKindsOfRefusalAreTold(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	refs := insert(t, db, orders, 6)
	refuse(t, db, Mark, `OLD.payload->>'n' = '1'`, `RETURN NULL`)
	exec(t, db, `ALTER TABLE outbox_event ADD CONSTRAINT wise CHECK (payload->>'n' <> '4') NOT VALID`)
	wantText(t, wantUnsettled(t, s, refs, 4, refs[1], refs[4]), "wise", "returns NULL")
}

func TestRowsThatRowLevelSecurityProtectsAreTold(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	refs := insert(t, db, orders, 3)
	pool := leastRights(t, db, Config{})
	exec(t, db, `ALTER TABLE outbox_event ENABLE ROW LEVEL SECURITY`)
	exec(t, db, `CREATE POLICY look ON outbox_event FOR SELECT USING (true)`)
	exec(t, db, `CREATE POLICY change ON outbox_event FOR UPDATE USING (payload->>'n' <> '2')`)
	s := openSource(t, pool, Config{})
	wantText(t, wantUnsettled(t, s, refs, 2, refs[2]), "row-level security")
	exec(t, db, `DROP POLICY change ON outbox_event`)
	more := insert(t, db, orders, 2)
	wantUnsettled(t, s, more, 0, more...)
}

// A table that refuses everything is not asked about each row: ten thousand questions would take longer than the settle may.
func TestATableThatRefusesEverythingIsAskedABoundedNumberOfTimes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	refs := bulkInsert(t, db, 10_000)
	exec(t, db, `CREATE SEQUENCE asked`)
	refuse(t, db, Mark, `nextval('asked') > 0`, `RAISE 'never'`)
	wantUnsettled(t, s, refs, 0, refs...)
	if n := queryOne[int](t, db, `SELECT last_value FROM asked`); n > 3*maxCulprits {
		t.Errorf("the table was asked %d times, want at most %d", n, 3*maxCulprits)
	}
}

// What is refused for want of a right, or because the table is gone, concerns every row alike: it is an error like any other.
func TestAMissingRightIsNoFaultOfTheRows(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	pool := leastRights(t, db, Config{})
	s := openSource(t, pool, Config{})
	refs := insert(t, db, orders, 3)
	exec(t, db, fmt.Sprintf(`REVOKE UPDATE (published_at) ON outbox_event FROM %s`, pool.Config().ConnConfig.User))
	n, err := s.Settle(t.Context(), refs)
	if n != 0 || err == nil || errors.As(err, new(*relay.UnsettledError)) {
		t.Errorf("Settle = %d, %v; want an error of the whole settle", n, err)
	}
}

// The statements of the halves commit one by one: an error in between leaves all to be settled again, and what was settled is found published then.
func TestASettleThatIsCutOffInTheSearchIsDoneAgain(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	refs := insert(t, db, orders, 8)
	exec(t, db, `ALTER TABLE outbox_event ADD CONSTRAINT wise CHECK (payload->>'n' <> '2') NOT VALID`)
	refuse(t, db, Mark, `OLD.payload->>'n' = '5'`, `PERFORM 1 FROM no_such_table`)
	if _, err := s.Settle(t.Context(), refs); err == nil || errors.As(err, new(*relay.UnsettledError)) {
		t.Fatalf("Settle = %v, want an error of the whole settle", err)
	}
	same(t, "published", published(t, db), []int64{refs[0].ID, refs[1].ID, refs[3].ID})
	exec(t, db, `DROP TRIGGER refuse ON outbox_event`)
	wantUnsettled(t, s, refs, 4, refs[2])
}
