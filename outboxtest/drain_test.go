package outboxtest_test

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/outboxtest"
)

func TestWhatIsCommittedIsInKafkaWhenDrainReturns(t *testing.T) {
	t.Parallel()
	db, brokers := pgtest.New(t), outboxtest.Kafka(t)
	pool := db.Pool(t)
	outboxtest.Drain(t, pool, brokers) // with nothing to do
	const events = 300
	for range events {
		commit(t, db, event("seen.v1", "a"))
	}
	open := begin(t, db)
	write(t, open, event("seen.v1", "open"))
	outboxtest.Drain(t, pool, brokers)
	if got := kafkatest.Records(t, brokers, "shop.order"); len(got) != events {
		t.Errorf("%d records, want %d", len(got), events)
	}
	if err := open.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	outboxtest.Drain(t, pool, brokers)
	outboxtest.Drain(t, pool, brokers)
	if got := kafkatest.Records(t, brokers, "shop.order"); len(got) != events+1 {
		t.Errorf("after another drain %d records, want %d", len(got), events+1)
	}
}

func TestAnotherTableIsDrained(t *testing.T) {
	t.Parallel()
	db, brokers := pgtest.New(t, pgtest.Migrated(migrate.Config{Table: `sales."My.Events"`})), outboxtest.Kafka(t)
	w, err := outbox.NewWriter(outbox.Config{Schema: "sales", Table: "My.Events"})
	if err != nil {
		t.Fatal(err)
	}
	table := outboxtest.Table{Schema: "sales", Name: "My.Events"}
	tx := begin(t, db)
	if _, err := w.Write(t.Context(), tx, event("seen.v1", "a")); err != nil {
		t.Fatal(err)
	}
	table.RequireWritten(t, tx, outboxtest.Want{Key: "a"})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	table.Drain(t, db.Pool(t), brokers)
	if got := kafkatest.Records(t, brokers, "shop.order"); len(got) != 1 {
		t.Errorf("%d records, want 1", len(got))
	}
}

func TestAnEventThatCannotBePublishedFailsTheTestWithTheReason(t *testing.T) {
	t.Parallel()
	db, brokers := pgtest.New(t), outboxtest.Kafka(t)
	big := event("order.placed.v1", "big")
	big.Payload = strings.Repeat("x", 2<<20)
	commit(t, db, event("order.placed.v1", "small"), big)
	got := failureOf(t, func(tb testing.TB) { outboxtest.Drain(tb, db.Pool(t), brokers) })
	want(t, got, "1 event not published", `order.placed.v1, to shop.order, key "big": the key is parked: `)
	if got := kafkatest.Records(t, brokers, "shop.order"); len(got) != 1 {
		t.Errorf("%d records, want that of the other key", len(got))
	}
}

// A database may have several tables, with the same topics and keys.
func TestTheReasonIsThatOfTheTable(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Migrated(migrate.Config{Table: "sales.outbox_event"}))
	if _, err := migrate.Up(t.Context(), db.Conn(t), migrate.Config{Table: "public.outbox_event"}); err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{"sales", "public"} {
		w, err := outbox.NewWriter(outbox.Config{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		big, tx := event("order.placed.v1", "big"), begin(t, db)
		big.Payload = strings.Repeat("x", 2<<20)
		if _, err := w.Write(t.Context(), tx, big); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	brokers := outboxtest.Kafka(t)
	drain := func(schema string) string {
		return failureOf(t, func(tb testing.TB) { outboxtest.Table{Schema: schema}.Drain(tb, db.Pool(t), brokers) })
	}
	drain("sales")
	db.Exec(t, `UPDATE outbox.parked_key SET reason = 'the reason of sales'`)
	if got := drain("public"); strings.Contains(got, "of sales") {
		t.Errorf("got\n%s", got)
	}
	want(t, drain("sales"), "the key is parked: the reason of sales")
}

func TestADatabaseThatIsNotMigratedIsSaidToBe(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	got := failureOf(t, func(tb testing.TB) { outboxtest.Drain(tb, db.Pool(t), outboxtest.Kafka(t)) })
	want(t, got, "outbox migrate up")
}
