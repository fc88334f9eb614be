package competing_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

func TestAnEventIsTheSameRecordAsEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.New()
	w.insertOne(id, topic, "заказ 7", `{"b": 1.10, "a": "ü"}`)
	one := w.relay(competing.Config{Once: true})
	if err := one.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := one.Stats().Measures; m.ReadEvents.Sum != 1 || m.Topics[topic] != 1 || !m.Connected || len(m.Publish.Counts) == 0 {
		t.Errorf("measured %+v, want one event of one topic", m)
	}
	records := w.records(topic)
	if len(records) != 1 {
		t.Fatalf("%d records, want 1", len(records))
	}
	r := records[0]
	if string(r.Key) != "заказ 7" || string(r.Value) != `{"a":"ü","b":1.10}` {
		t.Errorf("key %q, value %s", r.Key, r.Value)
	}
	want := []kgo.RecordHeader{{Key: "x-event-id", Value: []byte(id.String())}, {Key: "x-event-type", Value: []byte("order.confirmed.v1")}}
	if !slices.EqualFunc(r.Headers, want, func(a, b kgo.RecordHeader) bool { return a.Key == b.Key && string(a.Value) == string(b.Value) }) {
		t.Errorf("headers %s, want %s", r.Headers, want)
	}
	if n := w.count(`SELECT count(*) FROM outbox.source WHERE first_published_at IS NOT NULL`); n != 1 {
		t.Error("the first publication is not written down")
	}
}

// other is a relay that knows nothing of ours: lock, publish, mark, commit.
type other struct {
	*world
	client *kgo.Client
	took   atomic.Int64
}

func (o *other) batch(ctx context.Context) error {
	return pgx.BeginFunc(ctx, o.db, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, event_id::text, topic, partition_key FROM outbox_event
			WHERE published_at IS NULL ORDER BY id LIMIT 50 FOR UPDATE SKIP LOCKED`)
		if err != nil {
			return err
		}
		var ids []int64
		var records []*kgo.Record
		var id int64
		var eventID, to, key string
		_, err = pgx.ForEachRow(rows, []any{&id, &eventID, &to, &key}, func() error {
			ids = append(ids, id)
			records = append(records, &kgo.Record{Topic: to, Key: []byte(key), Headers: []kgo.RecordHeader{{Key: "x-event-id", Value: []byte(eventID)}}})
			return nil
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := o.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		o.took.Add(int64(len(ids)))
		_, err = tx.Exec(ctx, `UPDATE outbox_event SET published_at = now() WHERE id = ANY ($1)`, ids)
		return err
	})
}

func (o *other) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := o.batch(context.WithoutCancel(ctx)); err != nil {
			o.t.Errorf("the other relay: %v", err)
			return
		}
	}
}

func TestBesideRelaysThatLockRowsEveryEventIsPublishedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(5000)
	one, two := w.relay(competing.Config{}), w.relay(competing.Config{BatchSize: 20})
	w.start(one)
	w.start(two)
	// Whoever is quick at the start must not leave the others nothing.
	more := func(what string, works func() bool) {
		t.Helper()
		w.eventually(what, func() bool { w.fill(100); return works() })
	}
	more("both relays publish", func() bool { return one.Stats().Settled > 0 && two.Stats().Settled > 0 })
	o := &other{world: w, client: w.client()}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); o.run(ctx) }()
	more("the other publishes", func() bool { return o.took.Load() > 0 })
	for range 10 {
		w.fill(500)
	}
	w.eventually("everything is published", func() bool { return w.unpublished() == 0 })
	cancel()
	<-ended
	w.wantOnce(w.times(topic))
	all := int64(w.count(`SELECT count(*) FROM outbox_event`))
	// A pass is counted when it is committed.
	settled := func() int64 { return one.Stats().Settled + two.Stats().Settled + o.took.Load() }
	w.eventually(fmt.Sprintf("%d events are settled", all), func() bool { return settled() >= all })
	if n := settled(); n != all {
		t.Errorf("the relays have settled %d events, want %d", n, all)
	}
}

func TestOnlyWhatIsCommittedIsPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tx, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	const insert = `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		VALUES (gen_random_uuid(), 'Order', '1', 'order.confirmed.v1', '{}', $1, $2)`
	for _, s := range []string{`SAVEPOINT a`, `ROLLBACK TO a`} {
		if _, err := tx.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if s == `SAVEPOINT a` {
			_, err = tx.Exec(t.Context(), insert, topic, "rolled back")
		} else {
			_, err = tx.Exec(t.Context(), insert, topic, "late")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.start(w.relay(competing.Config{}))
	w.insert(topic, "early", 1)
	w.eventually("the committed event is published", func() bool { return w.unpublished() == 0 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the late event is published", func() bool {
		return w.count(`SELECT count(*) FROM outbox_event WHERE published_at IS NOT NULL`) == 2
	})
	w.wantOnce(w.times(topic))
}

func TestABadEventHoldsItsKeyAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := uuid.New()
	w.insertOne(bad, topic, "bad", `{"pad": "`+strings.Repeat("x", 2<<20)+`"}`)
	behind := w.insert(topic, "bad", 1)
	w.insert(topic, "good", 120)
	r := w.relay(competing.Config{})
	w.start(r)
	w.eventually("the other keys are published", func() bool { return w.unpublished() == 2 })
	w.eventually("the bad event is tried again", func() bool { return r.Stats().Errors[relay.ClassEvent] >= 3 })
	w.eventually("1 key is held and 120 events are settled, without an error", func() bool {
		s := r.Stats()
		return s.HeldKeys == 1 && s.ParkedKeys == 0 && s.Settled == 120 && s.LastError == nil
	})
	w.exec(`UPDATE outbox_event SET payload = '{}' WHERE event_id = $1`, bad)
	w.eventually("the key goes on", func() bool { return w.unpublished() == 0 })
	w.wantOnce(w.times(topic))
	var order []string
	for _, rec := range w.records(topic) {
		if string(rec.Key) == "bad" {
			order = append(order, eventID(rec))
		}
	}
	if want := []string{bad.String(), behind[0].String()}; !slices.Equal(order, want) {
		t.Errorf("the key's records are %v, want %v", order, want)
	}
	w.eventually("nothing is held any more", func() bool { return r.Stats().HeldKeys == 0 })
}

func TestAMissingTopicHoldsOnlyItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const missing = "order-service.order.missing"
	w.insert(missing, "1", 60)
	w.insert(topic, "1", 60)
	r := w.relay(competing.Config{})
	w.start(r)
	w.eventually("the other topic is published", func() bool { return w.unpublished() == 60 })
	w.eventually("the missing one is held", func() bool { return r.Stats().HeldTopics[missing] != nil })
	w.eventually("it is written down", func() bool {
		return w.count(`SELECT count(*) FROM outbox.held_topic JOIN outbox.relay USING (source, owner)
			WHERE topic = $1 AND code = 'UNKNOWN_TOPIC_OR_PARTITION' AND mode = 'competing'`, missing) == 1
	})
	w.createTopic(missing)
	w.eventually("the topic's events are published", func() bool { return w.unpublished() == 0 })
	if seen := w.times(missing); len(seen) != 60 {
		t.Errorf("%d events in the new topic, want 60", len(seen))
	}
	w.eventually("nothing is written down any more", func() bool { return w.count(`SELECT count(*) FROM outbox.held_topic`) == 0 })
}

func TestAStopTakesWhatIsWrittenOfHeldTopicsAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.insert("order-service.order.missing", "1", 1)
	stop := w.start(w.relay(competing.Config{}))
	const held = `SELECT count(*) FROM outbox.held_topic`
	w.eventually("the topic is written down", func() bool { return w.count(held) == 1 })
	stop()
	if n := w.count(held); n != 0 {
		t.Errorf("%d held topics after the stop, want none", n)
	}
}

func TestATopicThatMustExistEndsTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.relay(competing.Config{Topics: []string{topic, "no.such.topic"}}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no.such.topic") {
		t.Errorf("Run = %v, want it to name the topic", err)
	}
}

func TestWithoutMigrateTheRelaySaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Empty)
	w.exec(`CREATE TABLE outbox_event (id bigserial PRIMARY KEY)`)
	err := w.relay(competing.Config{}).Run(t.Context())
	if !errors.Is(err, relay.ErrConfiguration) || !strings.Contains(err.Error(), "outbox migrate up") {
		t.Errorf("Run = %v, want ErrConfiguration with the command that mends it", err)
	}
}

func TestItDoesNotStartWhileLanesAreLeased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(10)
	w.exec(`UPDATE outbox.lane SET owner = gen_random_uuid(), epoch = 1, expires_at = clock_timestamp() + interval '1 h' WHERE lane = 3`)
	err := w.relay(competing.Config{StartTimeout: 15 * time.Second}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "leases lanes") {
		t.Fatalf("Run = %v, want it refused", err)
	}
	if n := w.unpublished(); n != 10 {
		t.Errorf("%d events unpublished, want all 10", n)
	}
	r := w.relay(competing.Config{})
	w.start(r)
	w.eventually("the start is refused", func() bool { return r.Stats().LastError != nil })
	w.exec(`UPDATE outbox.lane SET owner = NULL, expires_at = NULL`)
	w.eventually("it starts when the lanes are free", func() bool { return w.unpublished() == 0 })
}

func TestAStopWithdraws(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.relay(competing.Config{})
	stop := w.start(r)
	const registered = `SELECT count(*) FROM outbox.relay WHERE mode = 'competing' AND expires_at > clock_timestamp()`
	w.eventually("it is registered", func() bool { return w.count(registered) == 1 && r.Stats().Leading })
	stop()
	if n := w.count(registered); n != 0 {
		t.Errorf("%d registrations after the stop", n)
	}
}

func TestALostRegistrationIsTakenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := &await.Journal{}
	r := w.relay(competing.Config{LeaseTTL: 5 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))})
	w.start(r)
	w.eventually("it works", func() bool { return r.Stats().Leading })
	w.exec(`DELETE FROM outbox.relay`)
	w.eventually("the loss is noticed", func() bool { return log.Says(relay.ErrLeaseLost.Error()) })
	w.fill(10)
	w.eventually("it works again", func() bool { return w.unpublished() == 0 })
	w.wantOnce(w.times(topic))
}

// A row that is in Kafka and cannot be marked would be published by each pass anew.
func TestARowThatCannotBeMarkedIsPublishedOnce(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{
		"an error":  `RAISE EXCEPTION 'no'`,
		"no change": `RETURN NULL`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + refusal + `; END $$`)
			w.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON outbox_event FOR EACH ROW WHEN (OLD.partition_key = 'stuck') EXECUTE FUNCTION refuse()`)
			w.insert(topic, "good", 10)
			w.insert(topic, "stuck", 1)
			w.insert(topic, "good", 10)
			r := w.relay(competing.Config{})
			w.start(r)
			w.eventually("the other rows are marked", func() bool { return w.unpublished() == 1 })
			w.insert(topic, "good", 10)
			w.eventually("it goes on", func() bool { return w.unpublished() == 1 && r.Stats().Settled == 30 })
			seen := w.times(topic)
			for id, n := range seen {
				if n != 1 {
					t.Errorf("event %s is %d times in Kafka", id, n)
				}
			}
			if s := r.Stats(); len(seen) != 31 || s.Unsettled != 1 {
				t.Errorf("%d events in Kafka and %d unsettled, want 31 and 1", len(seen), s.Unsettled)
			}
		})
	}
}

// Such a payload can be inserted and not be printed; the whole batch cannot be read with it.
func TestARowThatCannotBePrintedHoldsItsKeyOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.insert(topic, "good", 5)
	w.exec(`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		SELECT gen_random_uuid(), 'Order', '1', 'order.confirmed.v1', (SELECT jsonb_agg(('1e131071')::numeric) FROM generate_series(1, 9000)), $1, 'bad'`, topic)
	w.insert(topic, "good", 5)
	r := w.relay(competing.Config{LeaseTTL: 10 * time.Minute}) // the server works on a gigabyte of digits meanwhile
	w.start(r)
	w.eventually("the other key is published", func() bool { return w.unpublished() == 1 })
	w.eventually("the event is refused by itself", func() bool { return r.Stats().Errors[relay.ClassEvent] > 0 })
	if seen := w.times(topic); len(seen) != 10 {
		t.Errorf("%d events in Kafka, want 10", len(seen))
	}
}

func TestOnceEndsWhenNothingCanBeTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(330)
	r := w.relay(competing.Config{Once: true})
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := r.Stats(); s.Settled != 330 || s.Leading {
		t.Errorf("stats %+v, want 330 settled and no registration", s)
	}
	w.wantOnce(w.times(topic))
}
