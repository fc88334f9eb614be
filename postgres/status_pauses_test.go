package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

func TestStatusTellsWhatIsPausedAndWhatThatKeeps(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s, o := openSource(t, db, Config{}), newOperator(t, db)
	same(t, "nothing paused", backlog(t, s).Paused, Paused{})
	insert(t, db, orders, 2)
	other := insert(t, db, relay.Key{Topic: "b", PartitionKey: "x"}, 3)
	free := insert(t, db, relay.Key{Topic: "c", PartitionKey: "y"}, 1)
	age(t, db, other[0], 30*time.Hour)
	age(t, db, free[0], 2*time.Hour)
	pause := func(scope relay.PauseScope, topic, key string) {
		t.Helper()
		if _, err := o.Pause(t.Context(), scope, topic, key, "ann", "why"); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(pauses []PauseStatus) (list []string) {
		for _, p := range pauses {
			list = append(list, fmt.Sprintf("%s %s %s %d %s %s", p.Scope, p.Topic, p.PartitionKey, p.Pending, p.By, p.Reason))
		}
		return list
	}
	pause(relay.PauseKey, orders.Topic, orders.PartitionKey)
	pause(relay.PauseKey, orders.Topic, "nothing of it waits")
	pause(relay.PauseTopic, "b", "")
	b := backlog(t, s)
	same(t, "Paused", b.Paused, Paused{Topics: 1, Keys: 2})
	about(t, "OldestAge", b.OldestAge, 30*time.Hour)
	about(t, "EligibleAge beside what is paused", b.EligibleAge, 2*time.Hour)
	keeping, more, err := o.Keeping(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "keeping", kept(keeping), []string{"topic b  3 ann why", fmt.Sprintf("key %s %s 2 ann why", orders.Topic, orders.PartitionKey)})
	same(t, "more", more, int64(0))
	pause(relay.PauseSource, "", "")
	st, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "all", kept(st.Pauses), []string{
		"source   6 ann why", "topic b  3 ann why", fmt.Sprintf("key %s %s 2 ann why", orders.Topic, orders.PartitionKey), fmt.Sprintf("key %s nothing of it waits 0 ann why", orders.Topic),
	})
	same(t, "count", st.Paused.Count(), int64(4))
	byTopic := map[string]int64{}
	for _, x := range st.Topics {
		byTopic[x.Topic] = x.PausedKeys
	}
	same(t, "paused keys by topic", byTopic, map[string]int64{"b": 0, "c": 0, orders.Topic: 2})
	same(t, "EligibleAge with everything paused", st.EligibleAge, time.Duration(0))
}

func TestPausesBeyondTheFirstHundredAreCounted(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	o := newOperator(t, db)
	exec(t, db, `INSERT INTO outbox.pause (source, scope, topic, paused_by) SELECT id, 'topic', 't' || i, 'ann' FROM outbox.source, generate_series(1, $1::int) i`, pausesShown+7)
	st, err := o.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "listed, counted", []int64{int64(len(st.Pauses)), st.Paused.Count()}, []int64{pausesShown, pausesShown + 7})
	keeping, more, err := o.Keeping(t.Context())
	if err != nil || len(keeping) != 0 || more != 0 {
		t.Errorf("Keeping = %v, %d, %v; want nothing: no event waits", keeping, more, err)
	}
}

// Old events that go out late are among rows that nobody looks at.
func TestLastPublishedIsKnownWhenOldEventsGoOutAmongMany(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	bulkInsert(t, db, 1500)
	late := insert(t, db, orders, 1)
	bulkInsert(t, db, 1500)
	insert(t, db, orders, 1)
	exec(t, db, `UPDATE outbox_event SET published_at = now() - interval '1 h' WHERE id <> $1`, late[0].ID)
	exec(t, db, `UPDATE outbox_event SET published_at = NULL WHERE id = 1`)
	before := queryOne[time.Time](t, db, `SELECT clock_timestamp()`)
	settle(t, s, late)
	got, err := s.Status(t.Context())
	if err != nil || got.LastPublished.Before(before) {
		t.Errorf("LastPublished = %s, %v; want after %s", got.LastPublished, err, before)
	}
}

func TestTheLastPublicationIsWrittenSeldom(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	noted := &s.open.Load().settler.noted
	now := time.Now()
	noted.now = func() time.Time { return now }
	last := func() time.Time {
		return queryOne[time.Time](t, db, `SELECT coalesce(last_published_at, 'epoch') FROM outbox.source`)
	}
	settle(t, s, insert(t, db, orders, 1))
	first := last()
	settle(t, s, insert(t, db, orders, 1))
	same(t, "at once", last(), first)
	now = now.Add(noteEvery)
	settle(t, s, insert(t, db, orders, 1))
	if !last().After(first) {
		t.Errorf("after %s: %s, want later than %s", noteEvery, last(), first)
	}
}

func TestPendingEventsSayInTheListWhatKeepsThem(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.event(1, order, "free", "NULL")
	d.event(2, order, "paused", "NULL")
	d.event(3, "shop.gone", "k", "NULL")
	d.event(4, invoice, "k", "NULL")
	d.event(5, order, "done", "now()")
	codes := func() (list []operate.ReasonCode) {
		for _, e := range d.events(operate.EventQuery{Order: operate.OldestFirst}).Events {
			code := operate.ReasonCode("")
			if e.Kept != nil {
				code = e.Kept.Code
			}
			list = append(list, code)
		}
		return list
	}
	same(t, "without a relay", codes(), []operate.ReasonCode{"no_relay", "no_relay", "no_relay", "no_relay", ""})
	owner := d.relay("shop-1")
	same(t, "with a relay", codes(), []operate.ReasonCode{"", "", "", "", ""})
	d.exec(`INSERT INTO outbox.held_topic (source, owner, topic, code, reason) VALUES ($1, $2, 'shop.gone', 'UNKNOWN_TOPIC_OR_PARTITION', 'create it')`, d.id, owner)
	d.exec(`INSERT INTO outbox.pause (source, scope, topic, paused_by) VALUES ($1, 'topic', $2, 'ann')`, d.id, invoice)
	d.exec(`INSERT INTO outbox.pause (source, scope, topic, key_hash, partition_key, paused_by) VALUES ($1, 'key', $2, $3, 'paused', 'ann')`, d.id, order, pg.KeyHash(relayKey(order, "paused")))
	same(t, "each by its own", codes(), []operate.ReasonCode{"", "paused", "topic_held", "paused", ""})
	d.exec(`UPDATE outbox.relay SET silent_since = now() - interval '8 s'`)
	same(t, "in an outage", codes(), []operate.ReasonCode{"outage", "paused", "topic_held", "paused", ""})
	l := d.topics()
	same(t, "outages", []any{len(l.Outages), l.Outages[0].Relay}, []any{1, "shop-1"})
	d.exec(`UPDATE outbox.lane SET owner = NULL, expires_at = NULL`)
	same(t, "free lanes", codes()[0], operate.ReasonCode("lane_free"))
	d.exec(`INSERT INTO outbox.pause (source, scope, paused_by) VALUES ($1, 'source', 'ann')`, d.id)
	same(t, "everything is paused", codes(), []operate.ReasonCode{"paused", "paused", "paused", "paused", ""})
}
