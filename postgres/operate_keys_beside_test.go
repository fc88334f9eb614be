package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/operate"
)

func (d *desk) pauseKey(topic, key string) {
	d.Helper()
	if _, err := d.store.Pause(d.Context(), operate.Scope{Kind: operate.ScopeKey, Topic: topic, PartitionKey: key}, "ann", "not before noon"); err != nil {
		d.Fatal(err)
	}
}

func TestAListOfKeysHasThePausedAndTheWaitingOnes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for n, key := range []string{"", "parked", "waits", "tried now", "paused"} {
		if n > 0 {
			d.event(int64(n), "shop.order", key, "NULL")
		}
	}
	d.park(1, "shop.order", "parked", "too large")
	d.fail(2, "shop.order", "waits", "now() + interval '1 h'")
	d.fail(3, "shop.order", "tried now", "now() - interval '1 s'")
	d.pauseKey("shop.order", "parked")
	d.pauseKey("shop.order", "paused")
	d.pauseKey("shop.other", "another")
	hour := time.Hour
	for name, c := range map[string]struct {
		f    operate.KeyFilter
		want string
	}{
		"all":            {operate.KeyFilter{}, "[parked paused another] [waits]"},
		"a topic":        {operate.KeyFilter{Topic: some("shop.other")}, "[another] []"},
		"a key":          {operate.KeyFilter{PartitionKey: some("waits")}, "[] [waits]"},
		"an error":       {operate.KeyFilter{Error: "LAST error"}, "[] [waits]"},
		"another error":  {operate.KeyFilter{Error: "none such"}, "[] []"},
		"a type, a code": {operate.KeyFilter{Code: some("X")}, "[] []"},
		"old ones":       {operate.KeyFilter{MinAge: hour}, "[] []"},
		"new ones":       {operate.KeyFilter{MaxAge: hour}, "[parked paused another] [waits]"},
	} {
		p, err := d.service().Keys(t.Context(), operate.Actor{}, operate.KeyQuery{KeyFilter: c.f})
		if err != nil {
			t.Fatal(err)
		}
		paused, waiting := []string{}, []string{}
		for _, k := range p.Paused {
			paused = append(paused, k.PartitionKey)
		}
		for _, k := range p.Waiting {
			waiting = append(waiting, k.PartitionKey)
		}
		same(t, name, fmt.Sprint(paused, waiting), c.want)
	}
	// What the list says of a key is what is said of its event.
	for id, want := range map[int64][]operate.ReasonCode{
		1: {operate.ReasonParked, operate.ReasonPaused}, 2: {operate.ReasonNextAttempt}, 4: {operate.ReasonPaused},
	} {
		e, err := d.service().Event(t.Context(), operate.Actor{}, operate.Ref{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		for i, code := range want {
			if i >= len(e.Why) || e.Why[i].Code != code {
				t.Errorf("of event %d it is said %+v, want %v first", id, e.Why, want)
			}
		}
	}
}

func TestManyPausedAndWaitingKeysAreSaidToBeMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`INSERT INTO outbox.pause (source, scope, topic, partition_key, key_hash, paused_by) SELECT $1, 'key', 't', i::text, convert_to(i::text, 'UTF8'), 'ann' FROM generate_series(1, $2::int) i`,
		d.id, operate.MaxBeside+1)
	d.exec(`INSERT INTO outbox.failure (source, id, event_id, topic, partition_key, lane, next_attempt_at)
SELECT $1, i, gen_random_uuid(), 't', i::text, 0, now() + interval '1 h' FROM generate_series(1, $2::int) i`, d.id, operate.MaxBeside+1)
	p, err := d.service().Keys(t.Context(), operate.Actor{}, operate.KeyQuery{})
	if err != nil || len(p.Paused) != operate.MaxBeside || len(p.Waiting) != operate.MaxBeside || !p.MorePaused || !p.MoreWaiting {
		t.Errorf("%d paused, %d waiting, more %v %v, %v", len(p.Paused), len(p.Waiting), p.MorePaused, p.MoreWaiting, err)
	}
}
