package postgres

import (
	"context"
	"testing"
	"time"
)

// set changes the lanes in the background. What is waited for comes through the first channel, the end through the second.
func set(ctx context.Context, o *Operator, n int) (waits chan string, done chan error) {
	waits, done = make(chan string, 10), make(chan error, 1)
	go func() { done <- o.AwaitSetLanes(ctx, n, func(what string) { waits <- what }) }()
	return waits, done
}

func TestTheNumberOfLanesIsChangedWhenAllHasEnded(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("working:1"))
	exec(t, db, `UPDATE outbox.lane SET intent_id = gen_random_uuid(), intent_ids = '{1}', intent_event_ids = ARRAY[gen_random_uuid()] WHERE lane = 2`)
	ref := insert(t, db, orders, 1)[0]
	park(t, s, c, parked(orders, ref))
	waits, done := set(t.Context(), newOperator(t, db), 3)
	same(t, "first waited for", <-waits, `relays that are alive: "working:1"`)
	id := requested(t, db, VerbUnpark, orders)
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	same(t, "then waited for", <-waits, "open intents of the lanes [2]")
	same(t, "lanes meanwhile", queryOne[int](t, db, `SELECT count(*) FROM outbox.lane`), 8)
	exec(t, db, `UPDATE outbox.lane SET intent_id = NULL, intent_ids = NULL, intent_event_ids = NULL`)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	same(t, "lanes", queryOne[int](t, db, `SELECT count(*) FROM outbox.lane`), 3)
	same(t, "the problem of the request", problem(t, db, id), "")
	same(t, "parked keys", queryOne[int](t, db, `SELECT count(*) FROM outbox.parked_key`), 0)
}

func TestWaitingForLanesEndsWithWhatStoodInTheWay(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	claim(t, openSource(t, db, Config{}), owner("working:1"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	waits, done := set(ctx, newOperator(t, db), 3)
	<-waits
	cancel()
	wantText(t, <-done, "public.outbox_event", "waited in vain, nothing was changed", `"working:1"`)
	same(t, "lanes", queryOne[int](t, db, `SELECT count(*) FROM outbox.lane`), 8)
}
