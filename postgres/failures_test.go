package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/relay"
)

// park stops a key, which must succeed.
func park(t *testing.T, s *Source, c relay.Claim, p relay.ParkedKey) {
	t.Helper()
	if err := s.Park(t.Context(), c, p); err != nil {
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
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
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
SELECT count(*) FROM outbox.parked_key WHERE lane <> `+laneSQL("partition_key", "8")+` OR key_hash <> `+keyHashSQL("topic", "partition_key")), 0)
}

func TestParkingAgainKeepsTheTimeOnlyForTheSameEvent(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
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
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
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
	if err := a.Park(t.Context(), old, parked(orders, refs[0])); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Park of the old owner = %v, want ErrLeaseLost", err)
	}
	same(t, "parked keys", parkedKeys(t, b), nil)

	park(t, b, current, parked(orders, refs[0]))
	requested(t, db, VerbSkip, orders)
	released, err := a.Requests(t.Context(), old, always)
	if !errors.Is(err, relay.ErrLeaseLost) || released != nil {
		t.Errorf("Requests of the old owner = %v, %v; want ErrLeaseLost", released, err)
	}
	same(t, "open requests", openRequestCount(t, db), 1)
	same(t, "dead events", queryOne[int](t, db, `SELECT count(*) FROM outbox.dead_event`), 0)
	same(t, "parked keys", len(parkedKeys(t, b)), 1)
}

func TestAClaimWithoutTheKeysLaneCannotPark(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	mine := relay.Lane(orders.PartitionKey, 8)
	other := (mine + 1) % 8
	c.Lanes, c.Epochs = []int32{other}, []int64{1}
	err := s.Park(t.Context(), c, parked(orders, insert(t, db, orders, 1)[0]))
	if !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Park = %v, want ErrLeaseLost", err)
	}
	same(t, "parked keys", parkedKeys(t, s), nil)
}

func TestHeldTopicsAreWhatTheRelaySaidLast(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	hold := func(held ...relay.HeldTopic) {
		t.Helper()
		if err := s.HoldTopics(t.Context(), c.Owner, held); err != nil {
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
	hold(missing)
	first := queryOne[string](t, db, "SELECT held_at::text FROM outbox.held_topic")
	hold(missing, forbidden)
	same(t, "held topics", topics(), []relay.HeldTopic{missing, forbidden})
	same(t, "held_at of the first", queryOne[string](t, db, "SELECT held_at::text FROM outbox.held_topic WHERE topic = 'orders'"), first)
	insert(t, db, relay.Key{Topic: "orders", PartitionKey: "k"}, 1)
	hold(forbidden)
	same(t, "held topics", topics(), []relay.HeldTopic{{Topic: "orders"}, forbidden})
	hold()
	same(t, "held topics", topics(), []relay.HeldTopic{{Topic: "orders"}})
}
