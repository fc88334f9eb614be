package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/lanesql"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// layout is what is written down of lanes, as one text.
func layout(t *testing.T, db *pgxpool.Pool) string {
	t.Helper()
	return queryOne[string](t, db, `
SELECT (SELECT lanes FROM outbox.source) || ' lanes: ' || coalesce(string_agg(lane || '@' || epoch || coalesce(' of ' || owner, ''), ', ' ORDER BY lane), 'none') FROM outbox.lane`)
}

func TestTheNumberOfLanesIsChangedWithAllThatDependsOnIt(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	for i := range 20 {
		k := relay.Key{Topic: "orders", PartitionKey: fmt.Sprint("key ", i)}
		park(t, s, c, parked(k, insert(t, db, k, 1)[0]))
	}
	exec(t, db, `INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, died_by)
SELECT source, id, event_id, topic, partition_key, lane, '{}', '', '', '' FROM outbox.parked_key`)
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	sql, err := os.ReadFile("../migrate/sql/002_lanes.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"parked_key", "dead_event", "failure"} {
		exec(t, db, "UPDATE outbox."+table+" SET lane = 7 - lane")
	}
	exec(t, db, string(sql))
	for _, table := range []string{"parked_key", "dead_event", "failure"} {
		same(t, "rows of a wrong lane after the migration in "+table, queryOne[int](t, db, fmt.Sprintf(
			`SELECT count(*) FROM outbox.%s WHERE lane <> %s`, table, lanesql.Of("partition_key", "8"))), 0)
	}
	o := newOperator(t, db)
	for _, step := range []struct {
		lanes int
		want  string
	}{
		{3, "3 lanes: 0@2, 1@2, 2@2"},
		{3, "3 lanes: 0@2, 1@2, 2@2"},
		{5, "5 lanes: 0@3, 1@3, 2@3, 3@3, 4@3"},
		{1, "1 lanes: 0@4"},
		{4, "4 lanes: 0@5, 1@5, 2@5, 3@5"},
	} {
		if err := o.SetLanes(t.Context(), step.lanes); err != nil {
			t.Fatal(err)
		}
		same(t, "the lanes", layout(t, db), step.want)
		for _, table := range []string{"parked_key", "dead_event", "failure"} {
			same(t, "rows of a wrong lane in "+table, queryOne[int](t, db, fmt.Sprintf(
				`SELECT count(*) FROM outbox.%s WHERE lane <> %s`, table, lanesql.Of("partition_key", fmt.Sprint(step.lanes)))), 0)
		}
	}
	lanes, err := o.Lanes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keys := int64(0)
	for _, l := range lanes {
		keys += l.ParkedKeys
	}
	same(t, "lanes and parked keys", []int64{int64(len(lanes)), keys}, []int64{4, 20})
}

func TestTheMostAndTheLeastLanesWork(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	o := newOperator(t, db)
	for _, n := range []int{1, MaxLanes} {
		if err := o.SetLanes(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		s := openSource(t, db, Config{})
		c := claim(t, s, owner("a"))
		same(t, "lanes taken", len(c.Lanes), n)
		if err := s.Renew(t.Context(), c, ttl); err != nil {
			t.Error(err)
		}
		ref := insert(t, db, orders, 1)[0]
		if err := s.Start(t.Context(), nobodyHeld{}, []int32{relay.Lane(orders.PartitionKey, n)}); err != nil {
			t.Fatal(err)
		}
		if b, err := s.Read(t.Context(), 10); err != nil || len(b.Events) != 1 || b.Events[0].Ref() != ref {
			t.Errorf("with %d lanes: read %+v, %v", n, b, err)
		}
		settle(t, s, []relay.Ref{ref})
		if err := s.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

func TestANumberOfLanesThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	o := newOperator(t, db)
	before := layout(t, db)
	for _, n := range []int{0, -1, 1025} {
		wantText(t, o.SetLanes(t.Context(), n), "public.outbox_event", fmt.Sprintf("%d lanes", n), "1 to 1024")
	}
	same(t, "the lanes", layout(t, db), before)
}

func TestTheNumberOfLanesIsNotChangedWhileARelayIsAlive(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	working := claim(t, s, owner("working:1"))
	reclaim(t, openSource(t, db, Config{}), relay.Claim{Owner: owner("waiting:2")})
	o := newOperator(t, db)
	wantText(t, o.SetLanes(t.Context(), 4), `"working:1" (alive for`, `"waiting:2" (alive for`, "stop all relays")
	exec(t, db, `UPDATE outbox.relay SET expires_at = clock_timestamp() - interval '1 ms' WHERE name = 'working:1'`)
	wantText(t, o.SetLanes(t.Context(), 4), `"working:1"`)
	exec(t, db, `UPDATE outbox.lane SET expires_at = clock_timestamp() - interval '1 ms'`)
	wantText(t, o.SetLanes(t.Context(), 4), `"waiting:2"`)
	expire(t, db)
	if err := o.SetLanes(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	same(t, "the lanes", layout(t, db), "4 lanes: 0@2, 1@2, 2@2, 3@2")
	if err := s.Renew(t.Context(), working, ttl); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Renew of a relay that woke up afterwards = %v, want ErrLeaseLost", err)
	}
	if err := parkOne(t.Context(), s, working, parked(orders, insert(t, db, orders, 1)[0])); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Park of a relay that woke up afterwards = %v, want ErrLeaseLost", err)
	}
}

func TestTheNumberOfLanesIsNotChangedWithAnOpenIntent(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `UPDATE outbox.lane SET intent_id = gen_random_uuid(), intent_ids = '{1}', intent_event_ids = ARRAY[gen_random_uuid()] WHERE lane IN (2, 5)`)
	before := layout(t, db)
	wantText(t, newOperator(t, db).SetLanes(t.Context(), 4), "lanes [2 5]", "open intent")
	same(t, "the lanes", layout(t, db), before)
}

// A relay that was opened before the change works with keys that are in other lanes now.
func TestARelayThatKnowsAnotherNumberOfLanesGetsNone(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	if err := newOperator(t, db).SetLanes(t.Context(), 16); err != nil {
		t.Fatal(err)
	}
	_, err := s.Claim(t.Context(), owner("a"), ttl, relay.Claim{})
	wantText(t, err, "16 lanes now", "had 8")
	if info, err := s.Open(t.Context()); err != nil || info.Lanes != 16 {
		t.Fatalf("Open = %+v, %v; want 16 lanes", info, err)
	}
	same(t, "lanes taken after it was opened again", len(claim(t, s, owner("a")).Lanes), 16)
}

// The claim waits for the change, and so sees it.
func TestAClaimDuringTheChangeGetsNothing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	tx := begin(t, db)
	if err := setLanes(t.Context(), tx, pg.Source{ID: queryOne[uuid.UUID](t, db, `SELECT id FROM outbox.source`), Shareable: true}, 4); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := s.Claim(t.Context(), owner("a"), ttl, relay.Claim{})
		failed <- err
	}()
	eventually(t, "the claim waits", func() bool { return waiting(t, db) > 0 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantText(t, <-failed, "4 lanes now", "had 8")
}

// And the other way round: the change waits for a claim, and finds its relay alive.
func TestAChangeDuringAClaimIsRefused(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	row := s.open.Load().row
	tx := begin(t, db)
	if _, err := holdLayout(t.Context(), tx, row); err != nil {
		t.Fatal(err)
	}
	if err := register(t.Context(), tx, row.ID, owner("a:1"), ttl); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- newOperator(t, db).SetLanes(context.WithoutCancel(t.Context()), 4) }()
	eventually(t, "the change waits", func() bool { return waiting(t, db) > 0 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantText(t, <-failed, `"a:1"`)
}

func TestChangingTheLanesNeedsTheOwnersRights(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	o := newOperator(t, leastRights(t, db, Config{}))
	wantText(t, o.SetLanes(t.Context(), 4), "outbox migrate up")
	same(t, "the lanes", layout(t, db)[:7], "8 lanes")
}

// A relay that registers to compete for rows locks lanes as well, in another order: the two must not wait for each other.
func TestAChangeDuringARegistrationOfACompetingRelayWaits(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c := openCompeting(t, db)
	exec(t, db, `UPDATE outbox.lane SET owner = gen_random_uuid(), expires_at = clock_timestamp() - interval '1 ms'`)
	tx := begin(t, db)
	if err := setLanes(t.Context(), tx, pg.Source{ID: queryOne[uuid.UUID](t, db, `SELECT id FROM outbox.source`), Shareable: true}, 4); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- c.Register(t.Context(), owner("competing:1"), ttl) }()
	eventually(t, "the registration waits", func() bool { return waiting(t, db) > 0 })
	same(t, "lanes that it has locked meanwhile", queryOne[int](t, db, `
SELECT count(*) FROM pg_locks WHERE relation = 'outbox.lane'::regclass AND mode = 'RowExclusiveLock'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`), 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Error(err)
	}
	wantText(t, newOperator(t, db).SetLanes(t.Context(), 8), "competing:1")
}
