package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

// random fills a desk with 400 events, settled, unpublished, parked, failing and dead ones.
func random(t *testing.T, seed uint64) *desk {
	t.Helper()
	d := newDesk(t)
	r := rand.New(rand.NewPCG(seed, 0))
	parked := map[string]bool{}
	for n := int64(1); n <= 400; n += 1 + int64(r.IntN(3)) {
		topic, key := fmt.Sprint("topic", r.IntN(3)), fmt.Sprint("key", r.IntN(20))
		d.event(n, topic, key, []string{"NULL", "now()"}[r.IntN(2)])
		switch r.IntN(6) {
		case 0:
			d.die(n, fmt.Sprint("reason ", r.IntN(3)))
		case 1:
			if !parked[topic+key] {
				d.exec("UPDATE outbox_event SET published_at = NULL WHERE id = $1", n)
				d.park(n, topic, key, fmt.Sprint("reason ", r.IntN(3)))
			}
			parked[topic+key] = true
		case 2:
			d.fail(n, topic, key, []string{"NULL", "now() + interval '1 h'", "now() - interval '1 h'"}[r.IntN(3)])
		}
	}
	return d
}

// A list that goes on to its end has every event once, however small the pages and the windows are.
func TestAListByWindowsLeavesNothingOut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			d := random(t, seed)
			for i, f := range []operate.EventFilter{
				{}, {Topic: some("topic1")}, {PartitionKey: some("key3")}, {Error: "reason 1"}, {Error: "last"}, {AggregateID: some("2")}, {MinID: 50, MaxID: 200, Topic: some("topic0")},
			} {
				for _, f.State = range states {
					for _, order := range []operate.Order{operate.NewestFirst, operate.OldestFirst} {
						q := operate.EventQuery{EventFilter: f, Order: order, Limit: operate.MaxPage}
						d.store.windows = defaultWindows
						want, _ := d.all(q)
						d.store.windows = windows{events: 17, waiting: 13, dead: 7, keys: 5, topics: 5}
						q.Limit = 4
						got, _ := d.all(q)
						same(t, fmt.Sprintf("filter %d, %s, %s first", i, f.State, order), lines(got), lines(want))
					}
				}
			}
		})
	}
}

func lines(events []operate.Event) []string {
	list := []string{}
	for _, e := range events {
		list = append(list, fmt.Sprintf("%d %s %s", e.ID, e.EventID, e.State))
	}
	slices.Sort(list)
	return list
}

func TestAListSaysWhichWindowsItHasLookedAt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for n := range int64(30) {
		d.event(n+1, order, "k", []string{"now()", "NULL"}[n/20])
	}
	d.store.windows = windows{events: 8, waiting: 8, dead: 8}
	// A clock that has run on: one window a page.
	began := time.Now()
	d.store.now = func() time.Time { began = began.Add(time.Hour); return began }
	p := d.events(operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StatePending, Topic: some(invoice)}})
	same(t, "looks", p.Looks, []operate.Look{{What: "unpublished events", Events: 8, From: 30, To: 23}})
	same(t, "events, exact, ended", []any{len(p.Events), p.Exact(), p.Next == ""}, []any{0, false, false})
	p = d.events(operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StatePending, Topic: some(invoice)}, After: p.Next})
	same(t, "the rest: events, exact, ended", []any{len(p.Events), p.Exact(), p.Next == ""}, []any{0, true, true})
	p = d.events(operate.EventQuery{EventFilter: operate.EventFilter{Topic: some(invoice)}, Order: operate.OldestFirst})
	same(t, "looks of all", p.Looks, []operate.Look{{What: "unpublished events", Events: 8, From: 21, To: 28}, {What: "events", Events: 8, From: 1, To: 8}})
	p = d.events(operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StatePublished}})
	same(t, "what is settled below what is not", []any{len(p.Events), p.Looks}, []any{0, []operate.Look{{What: "events", Events: 8, From: 30, To: 23}}})
	// The clock stands still: the list goes on until it has found something.
	d.store.now = func() time.Time { return began }
	p = d.events(operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StatePublished}})
	same(t, "what is settled, found by going on", listed(p.Events), []int64{20, 19, 18, 17, 16, 15})
	p = d.events(operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StatePublished, Topic: some(invoice)}})
	same(t, "nothing, everywhere: exact, ended", []any{p.Exact(), p.Next == ""}, []any{true, true})
}

func TestACursorOfAnotherListIsRefused(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	p := d.events(operate.EventQuery{Limit: 1})
	for name, q := range map[string]operate.EventQuery{
		"another filter": {EventFilter: operate.EventFilter{Topic: some(order)}, After: p.Next},
		"another order":  {Order: operate.OldestFirst, After: p.Next},
		"cut off":        {After: p.Next[:len(p.Next)-5]},
		"none":           {After: "%%%"},
	} {
		_, err := d.service().Events(t.Context(), operate.Actor{}, q)
		same(t, name, operate.CodeOf(err), operate.CodeInvalid)
	}
	// Another size of the page is no other list.
	same(t, "the next page", listed(d.events(operate.EventQuery{Limit: 3, After: p.Next}).Events), []int64{8, 7, 6})
}

func TestALookThatTakesTooLongIsEndedByTheServer(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	tx, err := d.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Rollback(tx)
	if _, err := tx.Exec(t.Context(), `LOCK TABLE outbox_event IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	_, err = d.store.Events(t.Context(), 50*time.Millisecond, operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StateAny}, Order: operate.NewestFirst, Limit: 1})
	same(t, "code", operate.CodeOf(err), operate.CodeTooSlow)
	wantText(t, err, "did not answer within 50ms", "narrow it")
}

func TestTimesLeadToTheIDsOfTheirEvents(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const rows = 100_000
	d.exec(`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at, published_at)
SELECT gen_random_uuid(), 'Order', i::text, 'order.confirmed.v1', '{}', 'shop.order', 'k', now() - ($1::int - i) * interval '1 hour', now() FROM generate_series(1, $1::int) i`, rows)
	began := time.Now()
	d.store.now = func() time.Time { began = began.Add(time.Hour); return began }
	ago := func(n int) time.Duration { return time.Duration(n)*time.Hour + 30*time.Minute }
	for name, c := range map[string]struct {
		q    operate.EventQuery
		want int64
	}{
		"the newest before a time":  {operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StatePublished, MinAge: ago(60_000)}}, 39_999},
		"the oldest since a time":   {operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StatePublished, MaxAge: ago(60_000)}, Order: operate.OldestFirst}, 40_000},
		"between, the newest first": {operate.EventQuery{EventFilter: operate.EventFilter{MinAge: ago(50_000), MaxAge: ago(50_010)}}, 49_999},
		"by the clock":              {operate.EventQuery{EventFilter: operate.EventFilter{CreatedUntil: time.Now().Add(-ago(60_000))}}, 39_999},
	} {
		q := c.q
		var p operate.EventPage
		for range 2 {
			if p = d.events(q); len(p.Events) > 0 {
				break
			}
			// The margin is as wide as a window.
			q.After = p.Next
		}
		if len(p.Events) == 0 || p.Events[0].ID != c.want {
			t.Errorf("%s: got %v, want %d first", name, listed(p.Events), c.want)
		}
		if !strings.Contains(p.Estimated, "may be missing") || p.Exact() {
			t.Errorf("%s: it does not say that it is estimated: %+v", name, p)
		}
	}
}
