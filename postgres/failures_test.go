package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/lanesql"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// parkOne stops a key.
func parkOne(ctx context.Context, s *Source, c relay.Claim, p relay.ParkedKey) error {
	_, err := s.Park(ctx, c, []relay.ParkedKey{p})
	return err
}

// park stops a key, which must succeed.
func park(t *testing.T, s *Source, c relay.Claim, p relay.ParkedKey) {
	t.Helper()
	if err := parkOne(t.Context(), s, c, p); err != nil {
		t.Fatal(err)
	}
}

func parkedKeys(t *testing.T, s *Source) []relay.ParkedKey {
	t.Helper()
	keys, err := s.ParkedKeys(t.Context(), allLanes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if age := time.Since(keys[i].At); age < -time.Hour || age > time.Hour {
			t.Errorf("key %d was parked at %s", i, keys[i].At)
		}
		keys[i].At = time.Time{}
	}
	return keys
}

func TestParkedKeysComeBackAsTheyWereParked(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	same(t, "parked keys of a new source", parkedKeys(t, s), nil)
	var want []relay.ParkedKey
	for _, key := range []relay.Key{
		{Topic: "a", PartitionKey: ""},
		{Topic: "a", PartitionKey: "ключ 🚚"},
		{Topic: "b", PartitionKey: ""},
		{Topic: "b", PartitionKey: strings.Repeat("long", 2560)},
	} {
		p := parked(key, insert(t, db, key, 1)[0])
		park(t, s, c, p)
		want = append(want, p)
	}
	same(t, "parked keys", parkedKeys(t, s), want)
	same(t, "wrong lanes", queryOne[int](t, db, `
SELECT count(*) FROM outbox.parked_key WHERE lane <> `+lanesql.Of("partition_key", "8")+` OR key_hash <> `+pg.KeyHashSQL("topic", "partition_key")), 0)
}

func TestParkingAgainKeepsTheTimeOnlyForTheSameEvent(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 2)
	const at = `SELECT parked_at::text FROM outbox.parked_key`
	park(t, s, c, parked(orders, refs[0]))
	first := queryOne[string](t, db, at)
	again := parked(orders, refs[0])
	again.Code, again.Reason = "OTHER", "now this\x00 reason \xff"
	park(t, s, c, again)
	same(t, "parked_at of the same event", queryOne[string](t, db, at), first)
	again.Reason = "now this reason \uFFFD"
	same(t, "parked keys", parkedKeys(t, s), []relay.ParkedKey{again})
	park(t, s, c, parked(orders, refs[1]))
	if now := queryOne[string](t, db, at); now == first {
		t.Error("parked_at is still that of the first event")
	}
	same(t, "parked keys", parkedKeys(t, s), []relay.ParkedKey{parked(orders, refs[1])})
}

func TestParkOfAnEventThatIsNotWaitingDoesNothing(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 2)
	settle(t, s, refs[:1])
	park(t, s, c, parked(orders, refs[0]))
	park(t, s, c, parked(orders, relay.Ref{ID: refs[1].ID, EventID: uuid.New()}))
	same(t, "parked keys", parkedKeys(t, s), nil)
}

// A relay that was stopped for longer than its lease wakes up and fails an event that the next relay has already sent (BL-078, BL-080).
func TestAZombieCannotDecide(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	refs := insert(t, db, orders, 2)
	old := claim(t, a, owner("a"))
	expire(t, db)
	current := claim(t, b, owner("b"))
	if err := parkOne(t.Context(), a, old, parked(orders, refs[0])); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Park of the old owner = %v, want ErrLeaseLost", err)
	}
	same(t, "parked keys", parkedKeys(t, b), nil)

	park(t, b, current, parked(orders, refs[0]))
	requested(t, db, VerbSkip, orders)
	done, err := a.Requests(t.Context(), old, always)
	if !errors.Is(err, relay.ErrLeaseLost) || done.Done > 0 {
		t.Errorf("Requests of the old owner = %+v, %v; want ErrLeaseLost", done, err)
	}
	same(t, "open requests", openRequestCount(t, db), 1)
	same(t, "dead events", queryOne[int](t, db, `SELECT count(*) FROM outbox.dead_event`), 0)
	same(t, "parked keys", len(parkedKeys(t, b)), 1)
}

func TestAClaimWithoutTheKeysLaneCannotPark(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	mine := relay.Lane(orders.PartitionKey, 8)
	other := (mine + 1) % 8
	c.Lanes, c.Epochs = []int32{other}, []int64{1}
	err := parkOne(t.Context(), s, c, parked(orders, insert(t, db, orders, 1)[0]))
	if !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Park = %v, want ErrLeaseLost", err)
	}
	same(t, "parked keys", parkedKeys(t, s), nil)
}

// The zombie wakes up before anybody has taken its lanes: nobody has published what it parks. Once they are taken, it is refused.
func TestAnExpiredLeaseDecidesUntilSomebodyTakesIt(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	refs := insert(t, db, orders, 2)
	old := claim(t, a, owner("a"))
	expire(t, db)
	park(t, a, old, parked(orders, refs[0]))
	same(t, "parked keys", len(parkedKeys(t, b)), 1)
	claim(t, b, owner("b"))
	exec(t, db, `DELETE FROM outbox.parked_key`)
	settle(t, b, refs[:1])
	if err := parkOne(t.Context(), a, old, parked(orders, refs[1])); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Park after the lanes were taken = %v, want ErrLeaseLost", err)
	}
	same(t, "parked keys", parkedKeys(t, b), nil)
}

// A lane that went to another relay and came back is of another epoch: what the owner decided in the first one is void.
func TestAnOwnersEarlierEpochDecidesNothing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	ref := insert(t, db, orders, 1)[0]
	old := claim(t, s, owner("a"))
	if err := s.Release(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	claim(t, s, old.Owner)
	if err := parkOne(t.Context(), s, old, parked(orders, ref)); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Park in an earlier epoch = %v, want ErrLeaseLost", err)
	}
}

func TestAnotherOwnerOfTheSameEpochDecidesNothing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	ref := insert(t, db, orders, 1)[0]
	c := claim(t, s, owner("a"))
	exec(t, db, `UPDATE outbox.lane SET owner = gen_random_uuid()`)
	if err := parkOne(t.Context(), s, c, parked(orders, ref)); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Park of lanes that were restored for another owner = %v, want ErrLeaseLost", err)
	}
	same(t, "parked keys", parkedKeys(t, s), nil)
}

func TestParkedKeysAreToldByLanes(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	want := parkedOnes(t, db, ofEachLane())
	for _, p := range want {
		park(t, s, c, p)
	}
	for _, lanes := range [][]int32{{3}, {0, 7}, {}, nil} {
		keys, err := s.ParkedKeys(t.Context(), lanes)
		if err != nil {
			t.Fatal(err)
		}
		var got []relay.Ref
		for _, k := range keys {
			got = append(got, k.Event)
		}
		var refs []relay.Ref
		for _, lane := range lanes {
			refs = append(refs, want[lane].Event)
		}
		same(t, fmt.Sprintf("what stops the keys of lanes %v", lanes), got, refs)
	}
}

func TestTopicsHeldByTwoRelaysAreShownOnce(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	ca, ob := claim(t, a, owner("a")), owner("b")
	oa := ca.Owner
	reclaim(t, b, relay.Claim{Owner: ob})
	hold := func(s *Source, o relay.Owner, topics ...string) {
		t.Helper()
		var held []relay.HeldTopic
		for _, topic := range topics {
			held = append(held, relay.HeldTopic{Topic: topic, Code: "UNKNOWN_TOPIC_OR_PARTITION", Reason: "said by " + o.Name})
		}
		if err := s.HoldTopics(t.Context(), o, relay.HeldChange{Anew: true, Held: held}); err != nil {
			t.Fatal(err)
		}
	}
	shown := func() (topics []string) {
		t.Helper()
		st, err := a.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range st.Topics {
			topics = append(topics, topic.Topic+" "+topic.HeldReason)
		}
		return topics
	}
	hold(a, oa, "orders", "payments")
	hold(b, ob, "orders", "refunds")
	same(t, "held topics", shown(), []string{"orders said by a", "payments said by a", "refunds said by b"})
	hold(a, oa)
	same(t, "held topics when a holds none", shown(), []string{"orders said by b", "refunds said by b"})
	hold(a, oa, "payments")
	exec(t, db, `UPDATE outbox.relay SET expires_at = clock_timestamp() - interval '1 ms' WHERE owner = $1`, ob.ID)
	same(t, "held topics when b is dead", shown(), []string{"payments said by a"})
	if err := a.Leave(t.Context(), ca); err != nil {
		t.Fatal(err)
	}
	same(t, "held topics when a has left", shown(), nil)
	hold(a, oa, "late")
	same(t, "what one writes that has left", queryOne[int](t, db, `SELECT count(*) FROM outbox.held_topic WHERE topic = 'late'`), 0)
}

func TestHeldTopicsAreWhatTheRelaySaidLast(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	hold := func(change relay.HeldChange) {
		t.Helper()
		if err := s.HoldTopics(t.Context(), c.Owner, change); err != nil {
			t.Fatal(err)
		}
	}
	topics := func() (held []relay.HeldTopic) {
		t.Helper()
		st, err := s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range st.Topics {
			held = append(held, relay.HeldTopic{Topic: topic.Topic, Code: topic.HeldCode, Reason: topic.HeldReason})
		}
		return held
	}
	missing := relay.HeldTopic{Topic: "orders", Code: "UNKNOWN_TOPIC_OR_PARTITION", Reason: "create it"}
	forbidden := relay.HeldTopic{Topic: "payments", Code: "TOPIC_AUTHORIZATION_FAILED", Reason: "grant it"}
	hold(relay.HeldChange{Anew: true, Held: []relay.HeldTopic{missing}})
	first := queryOne[string](t, db, "SELECT held_at::text FROM outbox.held_topic")
	hold(relay.HeldChange{Held: []relay.HeldTopic{forbidden}})
	same(t, "held topics", topics(), []relay.HeldTopic{missing, forbidden})
	same(t, "held_at of the first", queryOne[string](t, db, "SELECT held_at::text FROM outbox.held_topic WHERE topic = 'orders'"), first)
	insert(t, db, relay.Key{Topic: "orders", PartitionKey: "k"}, 1)
	hold(relay.HeldChange{Released: []string{"orders"}})
	same(t, "held topics", topics(), []relay.HeldTopic{{Topic: "orders"}, forbidden})
	forbidden.Reason = "grant WRITE"
	hold(relay.HeldChange{Held: []relay.HeldTopic{forbidden}})
	same(t, "held topics", topics(), []relay.HeldTopic{{Topic: "orders"}, forbidden})
	hold(relay.HeldChange{Anew: true})
	same(t, "held topics", topics(), []relay.HeldTopic{{Topic: "orders"}})
}
