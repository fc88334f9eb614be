package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// openScoped opens a source that reads aggregates.
func openScoped(t *testing.T, db *pgxpool.Pool) *Source {
	t.Helper()
	s, err := New(db, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.ReadAggregates()
	if _, err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// root is a key that stops an aggregate.
func root(key relay.Key, ref relay.Ref, id string) relay.ParkedKey {
	p := parked(key, ref)
	p.Aggregate = relay.Aggregate{Type: "Order", ID: id}
	return p
}

// follower is a key that waits for one.
func follower(key relay.Key, ref relay.Ref, id string) relay.ParkedKey {
	p := root(key, ref, id)
	p.Code, p.Reason = relay.CodeAggregateParked, "another key stops its aggregate"
	return p
}

func stoppedNow(t *testing.T, s *Source, known string) relay.StoppedAggregates {
	t.Helper()
	got, err := s.StoppedAggregates(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got.All, func(a, b relay.StoppedAggregate) int { return int(a.Event.ID - b.Event.ID) })
	return got
}

func stoppedBy(p relay.ParkedKey) relay.StoppedAggregate {
	return relay.StoppedAggregate{Aggregate: p.Aggregate, Key: p.Key, Event: p.Event}
}

func TestEventsComeWithTheirAggregatesWhenTheseAreAskedFor(t *testing.T) {
	t.Parallel()
	for _, some := range []bool{false, true} {
		t.Run(map[bool]string{false: "of all lanes", true: "of some lanes"}[some], func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			s := openScoped(t, db)
			lanes := allLanes
			if some {
				lanes = []int32{relay.Lane(orders.PartitionKey, 8)}
			}
			write := func(id string) {
				exec(t, db, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', $1, 'order.confirmed.v1', '{}', $2, $3)`, id, orders.Topic, orders.PartitionKey)
			}
			write("walk")
			late, err := db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer pg.Rollback(late)
			if err := s.Start(t.Context(), nobodyHeld{}, lanes); err != nil {
				t.Fatal(err)
			}
			var got []string
			read := func() bool {
				b, err := s.Read(t.Context(), 10)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range b.Events {
					got = append(got, e.Aggregate.Type+" "+e.Aggregate.ID)
				}
				return len(got) > 0
			}
			eventually(t, "the walk's event", read)
			if _, err := late.Exec(t.Context(), `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', 'hole', 'order.confirmed.v1', '{}', $1, $2)`, orders.Topic, orders.PartitionKey); err != nil {
				t.Fatal(err)
			}
			write("head")
			eventually(t, "the head's event", func() bool { read(); return len(got) == 2 })
			if err := late.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the hole's event", func() bool { read(); return len(got) == 3 })
			same(t, "aggregates", got, []string{"Order walk", "Order head", "Order hole"})
		})
	}
}

func TestAggregatesAreNotReadUnlessTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `ALTER TABLE outbox_event DROP COLUMN aggregate_type, DROP COLUMN aggregate_id`)
	openSource(t, db, Config{})
	s, err := New(db, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.ReadAggregates()
	_, err = s.Open(t.Context())
	wantText(t, err, "lacks the columns aggregate_type, aggregate_id", "park-scope")
	if !errors.Is(err, relay.ErrConfiguration) {
		t.Errorf("the error %v is not of the configuration", err)
	}
}

func TestRootsAndFollowersComeBackAsTheyWereParked(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openScoped(t, db)
	c := claim(t, s, owner("a"))
	long := strings.Repeat("заказ ", 2000)
	var want []relay.ParkedKey
	for i, p := range []relay.ParkedKey{root(orders, relay.Ref{}, long), follower(orders, relay.Ref{}, long), parked(orders, relay.Ref{})} {
		p.PartitionKey = fmt.Sprint(i)
		p.Event = insert(t, db, p.Key, 1)[0]
		want = append(want, p)
		park(t, s, c, p)
	}
	same(t, "parked keys", parkedKeys(t, s), want)
	same(t, "failed attempts", queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox.failure ORDER BY id)`), []int64{want[0].Event.ID, want[2].Event.ID})
	same(t, "keys that are parked alone", queryOne[int](t, db, `SELECT count(*) FROM outbox.parked_key WHERE aggregate_type IS NULL AND aggregate_id IS NULL`), 1)
}

func TestStoppedAggregatesAreThoseOfRootsInAllLanesAndHaveAName(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openScoped(t, db)
	c := claim(t, s, owner("a"))
	empty := stoppedNow(t, s, "")
	same(t, "stopped at first", empty.All, nil)
	if empty.Name == "" {
		t.Error("what is stopped has no name at first: nobody could tell it from what was never read")
	}
	var roots []relay.ParkedKey
	for i := range 20 {
		key := relay.Key{Topic: "orders", PartitionKey: fmt.Sprint("key ", i)}
		p := root(key, insert(t, db, key, 1)[0], fmt.Sprint(i%3))
		roots = append(roots, p)
		park(t, s, c, p)
		alone := relay.Key{Topic: "alone", PartitionKey: fmt.Sprint("key ", i)}
		park(t, s, c, parked(alone, insert(t, db, alone, 1)[0]))
		waits := relay.Key{Topic: "waits", PartitionKey: fmt.Sprint("key ", i)}
		park(t, s, c, follower(waits, insert(t, db, waits, 1)[0], "0"))
	}
	var want []relay.StoppedAggregate
	for _, p := range roots {
		want = append(want, stoppedBy(p))
	}
	all := stoppedNow(t, s, empty.Name)
	same(t, "stopped", all.All, want)
	again := stoppedNow(t, s, all.Name)
	same(t, "read again", again, relay.StoppedAggregates{Name: all.Name})
	exec(t, db, `DELETE FROM outbox.parked_key WHERE id = $1`, roots[7].Event.ID)
	less := stoppedNow(t, s, all.Name)
	same(t, "stopped when one has gone on", less.All, slices.Delete(want, 7, 8))
}

func TestFreeFollowersTakesFollowersAloneWhileItsLanesAreHeld(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openScoped(t, db)
	c := claim(t, s, owner("a"))
	var keys []relay.Key
	var rows []relay.ParkedKey
	for i := range 3000 {
		key := relay.Key{Topic: "stock", PartitionKey: fmt.Sprint("key ", i)}
		keys = append(keys, key)
		rows = append(rows, follower(key, relay.Ref{}, "17"))
	}
	for i, ref := range insertKeys(t, db, keys) {
		rows[i].Event = ref
	}
	rows[5] = root(keys[5], rows[5].Event, "17")
	rows = slices.Delete(rows, 9, 10) // never written down
	if gone, err := s.Park(t.Context(), c, rows); err != nil || len(gone) > 0 {
		t.Fatalf("Park = %v, %v", gone, err)
	}
	old := c
	old.Epochs = slices.Clone(c.Epochs)
	for i := range old.Epochs {
		old.Epochs[i]--
	}
	if _, err := s.FreeFollowers(t.Context(), old, keys); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("with an old lease: %v, want that it is lost", err)
	}
	same(t, "parked with an old lease", len(parkedKeys(t, s)), 2999)
	freed, err := s.FreeFollowers(t.Context(), c, keys)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "freed", len(freed), 2999)
	if slices.Contains(freed, keys[5]) || !slices.Contains(freed, keys[9]) {
		t.Error("freed is the root's key, or not the key that was never written down")
	}
	same(t, "still parked", parkedKeys(t, s), []relay.ParkedKey{rows[5]})
}

func insertKeys(t *testing.T, db *pgxpool.Pool, keys []relay.Key) (refs []relay.Ref) {
	t.Helper()
	topics, names := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		topics[i], names[i] = key.Topic, key.PartitionKey
	}
	exec(t, db, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', '17', 'order.confirmed.v1', '{}', k.topic, k.key FROM unnest($1::text[], $2::text[]) WITH ORDINALITY k(topic, key, n) ORDER BY n`, topics, names)
	rows, err := db.Query(t.Context(), `SELECT id, event_id FROM outbox_event ORDER BY id DESC LIMIT $1`, len(keys))
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var ref relay.Ref
		if err := rows.Scan(&ref.ID, &ref.EventID); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(refs)
	return refs
}

// What waits for another key is refused with that key's event, and done when nothing stops the aggregate any more.
func TestRequestsLeaveFollowersAloneWhileTheirRootStands(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{VerbUnpark, VerbRetry, VerbSkip, VerbDead} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			s := openScoped(t, db)
			c := claim(t, s, owner("a"))
			waits, other := relay.Key{Topic: "stock", PartitionKey: "17"}, relay.Key{Topic: "stock", PartitionKey: "18"}
			bad := root(orders, insert(t, db, orders, 1)[0], "17")
			for _, p := range []relay.ParkedKey{
				bad, follower(waits, insert(t, db, waits, 1)[0], "17"), follower(other, insert(t, db, other, 1)[0], "18"),
			} {
				park(t, s, c, p)
			}
			id := requested(t, db, verb, waits)
			same(t, "released", carriedOut(t, s, c, always), nil)
			wantText(t, textError(problem(t, db, id)), bad.Event.EventID.String(), "topic "+orders.Topic, "unpark or skip that one's key")
			same(t, "parked", len(parkedKeys(t, s)), 3)
			requested(t, db, verb, other)
			same(t, "released where nothing stops the aggregate", carriedOut(t, s, c, always), []relay.Key{other})
			requested(t, db, verb, orders)
			same(t, "released of the root", carriedOut(t, s, c, always), []relay.Key{orders})
			requested(t, db, verb, waits)
			same(t, "released behind the root", carriedOut(t, s, c, always), []relay.Key{waits})
		})
	}
}
