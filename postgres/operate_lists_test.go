package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/operate"
)

func (d *desk) topics() operate.TopicList {
	d.Helper()
	l, err := d.service().Topics(d.Context(), operate.Actor{})
	if err != nil {
		d.Fatal(err)
	}
	return l
}

func (d *desk) keys(q operate.KeyQuery) operate.KeyPage {
	d.Helper()
	p, err := d.service().Keys(d.Context(), operate.Actor{}, q)
	if err != nil {
		d.Fatal(err)
	}
	return p
}

func TestTopicsAreCounted(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	d.exec(`UPDATE outbox_event SET created_at = now() - interval '1 h' WHERE id = 5`)
	owner := d.relay("shop-1")
	d.exec(`INSERT INTO outbox.held_topic (source, owner, topic, code, reason) VALUES ($1, $2, 'shop.gone', 'UNKNOWN_TOPIC_OR_PARTITION', 'create it')`, d.id, owner)
	d.exec(`INSERT INTO outbox.pause (source, scope, topic, paused_by) VALUES ($1, 'topic', $2, 'ann')`, d.id, invoice)
	l := d.topics()
	got := []string{}
	for _, x := range l.Topics {
		got = append(got, fmt.Sprintf("%s: %d pending, %d keys, %d dead, %d holds, paused %t", x.Topic, x.Pending, x.ParkedKeys, x.Dead, len(x.Holds), x.Paused != nil))
	}
	same(t, "topics", got, []string{
		"shop.gone: 0 pending, 0 keys, 0 dead, 1 holds, paused false",
		"shop.invoice: 3 pending, 0 keys, 1 dead, 0 holds, paused true",
		"shop.order: 3 pending, 1 keys, 0 dead, 0 holds, paused false",
	})
	if age := l.Topics[2].OldestAge; age < 3600 || age > 7200 {
		t.Errorf("oldest age = %v s, want an hour", age)
	}
	same(t, "watched, looks", []any{l.Watched, len(l.Looks)}, []any{true, 0})
	d.store.windows.topics = 2
	l = d.topics()
	same(t, "looks", l.Looks, []operate.Look{{What: "unpublished events", Events: 2, From: 3, To: 4}})
	got = got[:0]
	for _, x := range l.Topics {
		got = append(got, fmt.Sprintf("%s: %d %t pending, %d %t keys, %d %t dead", x.Topic, x.Pending, x.PendingCapped, x.ParkedKeys, x.ParkedKeysCapped, x.Dead, x.DeadCapped))
	}
	same(t, "numbers that end at a limit", got, []string{
		"shop.gone: 0 true pending, 0 false keys, 0 false dead",
		"shop.invoice: 0 true pending, 0 false keys, 1 false dead",
		"shop.order: 2 true pending, 1 false keys, 0 false dead",
	})
}

// A key that was to be let go by a dead letter waits for the dead-letter topic, and nothing of its own topic says so.
func TestDeadLetterTopicsThatTakeNothingAreNamed(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	same(t, "where none is to be seen", d.topics().LetterTopics, []operate.LetterTopic{})
	for n, why := range []string{
		"the dead-letter topic dead.order does not take it: UNKNOWN_TOPIC_OR_PARTITION: create it; when it does", "the dead-letter topic dead.order does not take it: UNKNOWN_TOPIC_OR_PARTITION: create it",
		"the dead-letter topic dead.order.more does not take it: TOPIC_AUTHORIZATION_FAILED: grant it", "the record names the dead-letter topic dead.other does not take it: X",
	} {
		d.park(int64(100+n), order, fmt.Sprint("letter", n), why)
	}
	read := func() (topics []string) {
		for _, l := range d.topics().LetterTopics {
			topics = append(topics, fmt.Sprintf("%s %s %d %t", l.Topic, l.Code, l.ParkedKeys, l.ParkedKeysCapped))
			same(t, "has a time", l.Since.IsZero(), false)
		}
		return topics
	}
	same(t, "letter topics", read(), []string{"dead.order UNKNOWN_TOPIC_OR_PARTITION 2 false", "dead.order.more TOPIC_AUTHORIZATION_FAILED 1 false"})
	d.store.windows.topics = 3
	same(t, "of the oldest three keys", read(), []string{"dead.order UNKNOWN_TOPIC_OR_PARTITION 2 true"})
	o, err := NewOperator(d.db, Config{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := o.Status(t.Context())
	if err != nil || len(all.LetterTopics) != 2 {
		t.Errorf("the operator sees %+v, %v", all.LetterTopics, err)
	}
	d.exec(`INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, died_by)
SELECT $1, n, gen_random_uuid(), 'a', 'k', 0, '{}', 'DEAD', 'it is bad', 'me' FROM generate_series(101, 103) n`, d.id)
	after, err := o.Status(t.Context())
	same(t, "dead events, after three more", after.Dead, all.Dead+3)
	if err != nil || after.DeadCapped {
		t.Errorf("capped: %t, %v", after.DeadCapped, err)
	}
	n, capped, err := countDead(t.Context(), d.db, d.id, 2)
	if n != 2 || !capped || err != nil {
		t.Errorf("counted to 2: %d, %t, %v", n, capped, err)
	}
}

func TestKeysAreListedByEachFilterAndInPages(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for n := range int64(10) {
		topic := []string{order, invoice}[n%2]
		d.event(n+1, topic, fmt.Sprint("k", n), "NULL")
		d.park(n+1, topic, fmt.Sprint("k", n), fmt.Sprintf("the record has %d bytes", n))
	}
	d.exec(`UPDATE outbox.parked_key SET parked_at = now() - interval '2 h', code = 'INVALID_RECORD' WHERE id <= 3`)
	for name, c := range map[string]struct {
		f    operate.KeyFilter
		want []int64
	}{
		"all":     {operate.KeyFilter{}, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		"topic":   {operate.KeyFilter{Topic: some(order)}, []int64{1, 3, 5, 7, 9}},
		"key":     {operate.KeyFilter{PartitionKey: some("k3")}, []int64{4}},
		"both":    {operate.KeyFilter{Topic: some(invoice), PartitionKey: some("k3")}, []int64{4}},
		"neither": {operate.KeyFilter{Topic: some(order), PartitionKey: some("k3")}, []int64{}},
		"type":    {operate.KeyFilter{Type: some("no.type")}, []int64{}},
		"code":    {operate.KeyFilter{Code: some("INVALID_RECORD")}, []int64{1, 2, 3}},
		"error":   {operate.KeyFilter{Error: "HAS 7 BYTES"}, []int64{8}},
		"older":   {operate.KeyFilter{MinAge: time.Hour}, []int64{1, 2, 3}},
		"younger": {operate.KeyFilter{MaxAge: time.Hour}, []int64{4, 5, 6, 7, 8, 9, 10}},
	} {
		for _, keys := range []int{20_000, 3} {
			d.store.windows.keys = keys
			for _, order := range []operate.Order{operate.OldestFirst, operate.NewestFirst} {
				q, got := operate.KeyQuery{KeyFilter: c.f, Limit: 2, Order: order}, []int64{}
				for pages := 0; pages == 0 || q.After != "" && pages < 100; pages++ {
					p := d.keys(q)
					for _, k := range p.Keys {
						got = append(got, k.ID)
					}
					q.After = p.Next
				}
				want := c.want
				if order == operate.NewestFirst {
					want = reversed(want)
				}
				same(t, fmt.Sprintf("%s, %d a window, %s first", name, keys, order), got, want)
			}
		}
	}
	same(t, "looks", d.keys(operate.KeyQuery{KeyFilter: operate.KeyFilter{Error: "no such"}}).Looks, []operate.Look{{What: "parked keys", Events: 3, From: 1, To: 3}})
}

func TestLanesRelaysAndPausesAreListed(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	owner := d.relay("shop-1")
	d.exec(`INSERT INTO outbox.relay (source, owner, name, version, expires_at) VALUES ($1, gen_random_uuid(), 'dead-1', '1', now() - interval '1 h')`, d.id)
	d.exec(`INSERT INTO outbox.pause (source, scope, topic, paused_by, reason) VALUES ($1, 'topic', $2, 'ann', 'why not')`, d.id, order)
	relays, err := d.service().Relays(t.Context(), operate.Actor{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "relays", []any{relays[0].Name, relays[0].Alive, relays[0].Lanes, relays[0].ProvedAt.IsZero(), relays[1].Name, relays[1].Alive, relays[1].Lanes}, []any{"shop-1", true, 8, false, "dead-1", false, 0})
	lanes, err := d.service().Lanes(t.Context(), operate.Actor{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "lanes", []any{len(lanes), lanes[0].Relay, lanes[0].Owner, lanes[0].Remaining > 0, lanes[0].ParkedKeys}, []any{8, "shop-1", owner, true, int64(1)})
	pauses, err := d.service().Pauses(t.Context(), operate.Actor{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "pauses", []any{len(pauses), pauses[0].Scope, pauses[0].Topic, pauses[0].By, pauses[0].Reason}, []any{1, "topic", order, "ann", "why not"})
}

func TestTheAuditAndTheJobsAreListedInPages(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for n := range 7 {
		d.exec(`INSERT INTO outbox.audit (source, actor, verb, job, at) VALUES ($1, $2, $3, $4, now() - $5::int * interval '1 h')`, d.id, []string{"ann", "bob"}[n%2], []string{"skip", "pause", "dead"}[n%3], n+1, 6-n)
		d.exec(`INSERT INTO outbox.job (source, verb, actor, total, state) VALUES ($1, 'skip', 'ann', 10, $2)`, d.id, []string{"running", "done"}[n%2])
	}
	for name, c := range map[string]struct {
		q    operate.AuditQuery
		want []int64
	}{
		"all":   {operate.AuditQuery{}, []int64{7, 6, 5, 4, 3, 2, 1}},
		"actor": {operate.AuditQuery{Actor: some("bob")}, []int64{6, 4, 2}},
		"verb":  {operate.AuditQuery{Verb: some("skip")}, []int64{7, 4, 1}},
		"job":   {operate.AuditQuery{Job: 3}, []int64{3}},
		"age":   {operate.AuditQuery{MaxAge: 150 * time.Minute}, []int64{7, 6, 5}},
	} {
		got := []int64{}
		c.q.Limit = 2
		for pages := 0; pages == 0 || c.q.After != "" && pages < 100; pages++ {
			p, err := d.service().Audit(t.Context(), operate.Actor{}, c.q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range p.Entries {
				got = append(got, e.ID)
			}
			c.q.After = p.Next
		}
		same(t, name, got, c.want)
	}
	for state, want := range map[string]int{"": 7, "running": 4, "done": 3, "failed": 0} {
		p, err := d.service().Jobs(t.Context(), operate.Actor{}, operate.JobQuery{State: state})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "jobs "+state, len(p.Jobs), want)
	}
}

// Another source's state is not this one's.
func TestLooksAreOfOneSource(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	d.exec(`UPDATE outbox.source SET table_name = 'other'`)
	d.exec(`INSERT INTO outbox.source (table_schema, table_name) VALUES ('public', 'outbox_event')`)
	same(t, "dead, parked", []int{len(d.events(operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StateDead}}).Events), len(d.keys(operate.KeyQuery{}).Keys)}, []int{0, 0})
	same(t, "pending", len(d.events(operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StateWaiting}}).Events), 0)
}
