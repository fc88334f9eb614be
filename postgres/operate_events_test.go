package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

const order, invoice = "shop.order", "shop.invoice"

// mixed is a desk with events of every state: 1 and 2 published, 3 parks key a, 4 behind it, 5 pending, 6 waits for its next attempt, 7 behind it, 8 dead, 9 pending.
func mixed(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t)
	for n, where := range [][3]string{{order, "a", "now()"}, {order, "b", "now()"}, {order, "a"}, {order, "a"}, {order, "b"}, {invoice, "c"}, {invoice, "c"}, {invoice, "d"}, {invoice, "d"}} {
		if where[2] == "" {
			where[2] = "NULL"
		}
		d.event(int64(n+1), where[0], where[1], where[2])
	}
	d.park(3, order, "a", "the record has 9000 bytes")
	d.fail(6, invoice, "c", "now() + interval '1 h'")
	d.die(8, "nobody wants it")
	return d
}

func some(s string) *string { return &s }

func TestEventsAreListedByState(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	for state, want := range map[operate.State][]int64{
		operate.StatePending:   {9, 7, 6, 5, 4, 3},
		operate.StateParked:    {3},
		operate.StateWaiting:   {7, 6, 4},
		operate.StatePublished: {2, 1},
		operate.StateDead:      {8},
		operate.StateAny:       {9, 8, 7, 6, 5, 4, 3, 2, 1},
		"":                     {9, 8, 7, 6, 5, 4, 3, 2, 1},
	} {
		for order, want := range map[operate.Order][]int64{operate.NewestFirst: want, operate.OldestFirst: reversed(want)} {
			q := operate.EventQuery{EventFilter: operate.EventFilter{State: state}, Order: order}
			p := d.events(q)
			same(t, fmt.Sprintf("%s, %s first", state, order), listed(p.Events), want)
			same(t, "exact", p.Exact(), true)
			same(t, "next", p.Next, "")
			for _, size := range []int{1, 2, 4} {
				q.Limit = size
				all, _ := d.all(q)
				same(t, fmt.Sprintf("%s, %s first, %d a page", state, order, size), listed(all), want)
			}
		}
	}
}

func reversed(ids []int64) []int64 {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	return ids
}

func TestAnEventOfAListSaysWhatIsKnownOfIt(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	got := map[int64]operate.Event{}
	for _, e := range d.events(operate.EventQuery{}).Events {
		same(t, "type, event id", []any{e.Type, e.EventID}, []any{"order.placed.v1", eventID(e.ID)})
		same(t, "aggregate", []string{e.AggregateType, e.AggregateID}, []string{"Order", fmt.Sprint(e.ID % 3)})
		same(t, "has a time", e.CreatedAt.IsZero(), false)
		same(t, "is published", !e.PublishedAt.IsZero(), e.State == operate.StatePublished)
		got[e.ID] = e
	}
	type line struct {
		State     operate.State
		Attempts  int
		Code      string
		Error     string
		BlockedBy int64
	}
	for id, want := range map[int64]line{
		1: {operate.StatePublished, 0, "", "", 0},
		3: {operate.StateParked, 0, "MESSAGE_TOO_LARGE", "the record has 9000 bytes", 0},
		4: {operate.StateWaiting, 0, "", "", 3},
		5: {operate.StatePending, 0, "", "", 0},
		6: {operate.StateWaiting, 3, "", "the last error", 0},
		7: {operate.StateWaiting, 0, "", "", 6},
		8: {operate.StateDead, 2, "SKIPPED", "nobody wants it", 0},
		9: {operate.StatePending, 0, "", "", 0},
	} {
		e := got[id]
		same(t, fmt.Sprint("event ", id), line{e.State, e.Attempts, e.Code, e.Error, e.BlockedBy}, want)
	}
	same(t, "parked and dead have a time", []bool{got[3].Since.IsZero(), got[8].Since.IsZero(), got[5].Since.IsZero()}, []bool{false, false, true})
	same(t, "the next attempt has a time", []bool{got[6].NextAttemptAt.IsZero(), got[7].NextAttemptAt.IsZero()}, []bool{false, true})
}

// Of what is unpublished and has not failed, somebody wants to know what he keeps himself.
func TestHeldEventsAreToldFromQueuedOnes(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	owner := d.relay("shop-1")
	d.event(10, "shop.gone", "x", "NULL")
	d.event(11, "shop.gone", "x", "NULL")
	d.event(12, "shop.later", "x", "NULL")
	d.event(13, "shop.free", "paused", "NULL")
	d.event(14, "shop.free", "free", "NULL")
	d.exec(`INSERT INTO outbox.held_topic (source, owner, topic, code, reason) VALUES ($1, $2, 'shop.gone', 'UNKNOWN_TOPIC_OR_PARTITION', 'create it')`, d.id, owner)
	d.exec(`INSERT INTO outbox.pause (source, scope, topic, paused_by) VALUES ($1, 'topic', 'shop.later', 'ann')`, d.id)
	d.exec(`INSERT INTO outbox.pause (source, scope, topic, key_hash, partition_key, paused_by) VALUES ($1, 'key', 'shop.free', $2, 'paused', 'eve')`, d.id, pg.KeyHash(relayKey("shop.free", "paused")))
	// Parked and paused is parked.
	d.exec(`INSERT INTO outbox.pause (source, scope, topic, key_hash, partition_key, paused_by) VALUES ($1, 'key', $2, $3, 'a', 'eve')`, d.id, order, pg.KeyHash(relayKey(order, "a")))
	want := func(what string, f operate.EventFilter, ids ...int64) {
		t.Helper()
		for _, window := range []int{10_000, 2} {
			d.store.windows.waiting = window
			got, _ := d.all(operate.EventQuery{EventFilter: f, Limit: 2, Order: operate.OldestFirst})
			same(t, fmt.Sprintf("%s, %d a window", what, window), listed(got), append([]int64{}, ids...))
		}
	}
	gone := d.events(operate.EventQuery{EventFilter: operate.EventFilter{Refs: []operate.Ref{{ID: 10}}}}).Events[0].Kept
	if gone == nil || !strings.HasPrefix(gone.Text, "UNKNOWN_TOPIC_OR_PARTITION: create it (topic held since ") {
		t.Errorf("an event of a topic that is not there is kept by %+v", gone)
	}
	want("held", operate.EventFilter{State: operate.StateHeld}, 10, 11, 12, 13)
	want("queued", operate.EventFilter{State: operate.StateQueued}, 5, 9, 14)
	want("held, of a topic", operate.EventFilter{State: operate.StateHeld, Topic: some("shop.gone")}, 10, 11)
	want("held, named", operate.EventFilter{State: operate.StateHeld, Refs: []operate.Ref{{ID: 1}, {ID: 3}, {ID: 5}, {ID: 8}, {ID: 12}}}, 12)
	want("queued, named", operate.EventFilter{State: operate.StateQueued, Refs: []operate.Ref{{ID: 1}, {ID: 3}, {ID: 5}, {ID: 8}, {ID: 12}}}, 5)
	want("held, failed", operate.EventFilter{State: operate.StateHeld, Error: "e"})
	d.exec(`UPDATE outbox.relay SET expires_at = now()`)
	want("held, when the relay is dead", operate.EventFilter{State: operate.StateHeld}, 12, 13)
	d.exec(`INSERT INTO outbox.pause (source, scope, paused_by) VALUES ($1, 'source', 'ann')`, d.id)
	want("held, with everything paused", operate.EventFilter{State: operate.StateHeld}, 5, 9, 10, 11, 12, 13, 14)
	want("queued, with everything paused", operate.EventFilter{State: operate.StateQueued})
}

func TestADeadEventOfAListSaysWhereItWasSent(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	letter := func() string {
		return d.events(operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StateDead}}).Events[0].LetterTopic
	}
	same(t, "one that was skipped", letter(), "")
	d.exec(`UPDATE outbox.dead_event SET letter_topic = 'dead.orders' WHERE id = 8`)
	same(t, "a dead letter", letter(), "dead.orders")
}

func TestEventsAreListedByEachFilter(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	d.exec(`UPDATE outbox_event SET created_at = now() - interval '2 h' WHERE id IN (2, 5)`)
	d.exec(`UPDATE outbox_event SET event_type = 'order.paid.v1' WHERE id IN (1, 9)`)
	var at time.Time
	if err := d.db.QueryRow(t.Context(), `SELECT now() - interval '1 h'`).Scan(&at); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		f    operate.EventFilter
		want []int64
	}{
		"topic":           {operate.EventFilter{Topic: some(invoice)}, []int64{9, 8, 7, 6}},
		"key":             {operate.EventFilter{PartitionKey: some("a")}, []int64{4, 3, 1}},
		"topic and key":   {operate.EventFilter{Topic: some(order), PartitionKey: some("d")}, nil},
		"type":            {operate.EventFilter{Type: some("order.paid.v1")}, []int64{9, 1}},
		"aggregate":       {operate.EventFilter{AggregateType: some("Order"), AggregateID: some("2")}, []int64{8, 5, 2}},
		"older":           {operate.EventFilter{MinAge: time.Hour}, []int64{5, 2}},
		"younger":         {operate.EventFilter{MaxAge: time.Hour}, []int64{9, 8, 7, 6, 4, 3, 1}},
		"from":            {operate.EventFilter{CreatedFrom: at}, []int64{9, 8, 7, 6, 4, 3, 1}},
		"until":           {operate.EventFilter{CreatedUntil: at}, []int64{5, 2}},
		"ids":             {operate.EventFilter{MinID: 3, MaxID: 5}, []int64{5, 4, 3}},
		"error":           {operate.EventFilter{Error: "THE LAST"}, []int64{6}},
		"reason":          {operate.EventFilter{Error: "bytes"}, []int64{3}},
		"code":            {operate.EventFilter{Error: "skipped"}, []int64{8}},
		"pending error":   {operate.EventFilter{Error: "e", State: operate.StatePending}, []int64{6, 3}},
		"published error": {operate.EventFilter{Error: "e", State: operate.StatePublished}, nil},
		"waiting error":   {operate.EventFilter{Error: "e", State: operate.StateWaiting}, []int64{6}},
		"wild cards":      {operate.EventFilter{Error: "%"}, nil},
		"pending topic":   {operate.EventFilter{State: operate.StatePending, Topic: some(order)}, []int64{5, 4, 3}},
		"waiting topic":   {operate.EventFilter{State: operate.StateWaiting, Topic: some(invoice)}, []int64{7, 6}},
		"dead topic":      {operate.EventFilter{State: operate.StateDead, Topic: some(order)}, nil},
		"dead type":       {operate.EventFilter{State: operate.StateDead, Type: some("order.placed.v1")}, []int64{8}},
		"named":           {operate.EventFilter{Refs: []operate.Ref{{ID: 8}, {ID: 2}, {EventID: eventID(5)}, {ID: 5}, {ID: 77}}}, []int64{8, 5, 2}},
		"named state":     {operate.EventFilter{Refs: []operate.Ref{{ID: 8}, {ID: 2}, {ID: 3}, {ID: 5}}, State: operate.StatePending}, []int64{5, 3}},
		"named parked":    {operate.EventFilter{Refs: []operate.Ref{{ID: 2}, {ID: 3}, {ID: 5}}, State: operate.StateParked}, []int64{3}},
		"named published": {operate.EventFilter{Refs: []operate.Ref{{ID: 2}, {ID: 3}, {ID: 5}}, State: operate.StatePublished}, []int64{2}},
		"named topic":     {operate.EventFilter{Refs: []operate.Ref{{ID: 2}, {ID: 7}, {ID: 8}}, Topic: some(invoice)}, []int64{8, 7}},
	} {
		for _, size := range []int{0, 1} {
			got, _ := d.all(operate.EventQuery{EventFilter: c.f, Limit: size})
			same(t, fmt.Sprintf("%s, %d a page", name, size), listed(got), append([]int64{}, c.want...))
		}
		got, _ := d.all(operate.EventQuery{EventFilter: c.f, Limit: 2, Order: operate.OldestFirst})
		same(t, name+", the oldest first", listed(got), append([]int64{}, reversed(c.want)...))
	}
}
