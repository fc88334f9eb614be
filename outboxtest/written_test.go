package outboxtest_test

import (
	"database/sql"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
	"github.com/outbox-relay/outbox/outboxsql"
	"github.com/outbox-relay/outbox/outboxtest"
)

func TestWrittenIsWhatThisTransactionHasWritten(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	commit(t, db, event("before.v1", "a"))
	tx := begin(t, db)
	outboxtest.RequireWritten(t, tx) // one that has written nothing at all
	write(t, tx, event("own.v1", "b"))
	commit(t, db, event("between.v1", "c"))
	other := begin(t, db)
	write(t, other, event("open.v1", "d"))
	got := outboxtest.Written(t, tx)
	if len(got) != 1 || got[0].Type != "own.v1" {
		t.Errorf("got %+v, want the event of type own.v1 alone", got)
	}
	// The transaction goes on.
	write(t, tx, event("own.v2", "b"))
	outboxtest.RequireWritten(t, tx, outboxtest.Want{Type: "own.v1"}, outboxtest.Want{Type: "own.v2"})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A savepoint has a transaction id of its own, and so have those of others that commit while this transaction is open.
func TestWhatFollowsASavepointIsWrittenUnlessItIsRolledBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tx := begin(t, db)
	write(t, tx, event("first.v1", "a"))
	kept, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(t, kept, event("kept.v1", "a"))
	commit(t, db, event("foreign.v1", "x"))
	outboxtest.RequireWritten(t, kept, outboxtest.Want{Type: "first.v1"}, outboxtest.Want{Type: "kept.v1"})
	if err := kept.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	dropped, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(t, dropped, event("dropped.v1", "a"))
	if err := dropped.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	commit(t, db, event("foreign.v1", "x"))
	outboxtest.RequireWritten(t, tx, outboxtest.Want{Type: "first.v1"}, outboxtest.Want{Type: "kept.v1"})
}

func TestEveryFieldOfAnEventComesBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Migrated(migrate.Config{Table: "sales.outbox_event", Headers: true}))
	table := outboxtest.Table{Schema: "sales"}
	given := outbox.Event{
		ID: uuid.New(), AggregateType: "Order", AggregateID: "42", Type: "order.placed.v1", Topic: "shop.order", PartitionKey: "k\"1",
		Payload: json.RawMessage(`{"a": 1.50}`), Headers: map[string]string{"tenant": "north"},
	}
	w, err := outbox.NewWriter(outbox.Config{Schema: "sales"})
	if err != nil {
		t.Fatal(err)
	}
	tx := begin(t, db)
	if _, err := w.Write(t.Context(), tx, given); err != nil {
		t.Fatal(err)
	}
	if got := table.Written(t, tx); !reflect.DeepEqual(got, []outbox.Event{given}) {
		t.Errorf("got  %+v\nwant %+v", got, given)
	}
	table.RequireWritten(t, tx, outboxtest.Want{Headers: map[string]string{"tenant": "north"}})
	got := failureOf(t, func(tb testing.TB) {
		table.RequireWritten(tb, tx, outboxtest.Want{Headers: map[string]string{"tenant": "south", "user": "7"}})
	})
	want(t, got, `Headers["tenant"] is "north", want "south"`, `Headers["user"] is missing, want "7"`)
}

func TestTransactionsOfDatabaseSQLAreLookedAtTheSame(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db, err := sql.Open(driver, pgtest.New(t).URL)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			outboxtest.RequireWrittenSQL(t, tx)
			if _, err := outboxsql.Write(t.Context(), tx, event("order.placed.v1", "a")); err != nil {
				t.Fatal(err)
			}
			outboxtest.RequireWrittenSQL(t, tx, outboxtest.Want{Type: "order.placed.v1", Topic: "shop.order", Key: "a", AggregateType: "Order", AggregateID: "a"})
			want(t, failureOf(t, func(tb testing.TB) { outboxtest.RequireWrittenSQL(tb, tx) }), "written, not wanted")
		})
	}
}

func TestATableThatIsNotThereIsSaidToBeMissing(t *testing.T) {
	t.Parallel()
	tx := begin(t, pgtest.New(t, pgtest.Empty))
	got := failureOf(t, func(tb testing.TB) { outboxtest.Table{Schema: "nowhere"}.Written(tb, tx) })
	want(t, got, `"nowhere"."outbox_event"`, "does not exist")
}
