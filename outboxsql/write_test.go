package outboxsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/outboxsql"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const contract = `CREATE TABLE outbox_event (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid         NOT NULL UNIQUE,
    aggregate_type text         NOT NULL,
    aggregate_id   text         NOT NULL,
    event_type     text         NOT NULL,
    payload        jsonb        NOT NULL,
    topic          text         NOT NULL,
    partition_key  text         NOT NULL,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    published_at   timestamptz
);
CREATE TABLE orders (id text PRIMARY KEY);`

// eachDriver runs a test on a database of its own with each driver.
func eachDriver(t *testing.T, test func(t *testing.T, db *sql.DB)) {
	t.Parallel()
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			database := pgtest.New(t, pgtest.Empty)
			database.Exec(t, contract)
			db, err := sql.Open(driver, database.URL)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			test(t, db)
		})
	}
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	// The test's context ends before the clean-up, and would make database/sql roll back at the same time.
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
	})
	return tx
}

func run(t *testing.T, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// column returns the first column of a query's rows as text.
func column(t *testing.T, tx *sql.Tx, query string) []string {
	t.Helper()
	rows, err := tx.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

func confirmed() outbox.Event {
	return outbox.Event{
		AggregateType: "Order",
		AggregateID:   "42",
		Type:          "order.confirmed.v1",
		Topic:         "order-service.order.confirmed",
		Payload:       map[string]int{"total": 10},
	}
}

func TestEventsAreStoredInTheOrderGiven(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		tx := begin(t, db)
		var events []outbox.Event
		var want []string
		for i := range 500 {
			e := confirmed()
			e.AggregateID = fmt.Sprint(500 - i)
			events = append(events, e)
		}
		ids, err := outboxsql.Write(t.Context(), tx, events...)
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			want = append(want, fmt.Sprintf(`%s|Order|%s|order.confirmed.v1|{"total": 10}|order-service.order.confirmed|%[2]s`, id, events[i].AggregateID))
		}
		got := column(t, tx, `SELECT concat_ws('|', event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
			FROM outbox_event ORDER BY id`)
		if !slices.Equal(got, want) {
			t.Errorf("%d rows, the first %q, want %d, the first %q", len(got), got[0], len(want), want[0])
		}
	})
}

// An array literal has an escape of its own beside that of JSON: a mistake in either shows here.
func TestEveryTextPassesTheArrayLiterals(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		run(t, db, `ALTER TABLE outbox_event ADD COLUMN headers jsonb`)
		tx := begin(t, db)
		texts := []string{`"`, `\`, `\"`, `{`, `}`, `,`, `NULL`, `null`, ` `, ` a `, `'`, `$1`, `{"a","b"}`, "\n\t\r", "é😀\u2028", "\x01\x7f", `\\u0000`, `a\,b`}
		var events []outbox.Event
		var want []string
		for _, text := range texts {
			e := confirmed()
			e.AggregateType, e.AggregateID, e.Type, e.PartitionKey = text, text, text, text
			e.Payload, e.Headers = text, map[string]string{text: text}
			events = append(events, e, confirmed())
			want = append(want, strings.Repeat(text+"|", 6)+text, "none")
		}
		if _, err := outboxsql.Write(t.Context(), tx, events...); err != nil {
			t.Fatal(err)
		}
		got := column(t, tx, `SELECT CASE WHEN headers IS NULL THEN 'none' ELSE concat_ws('|', aggregate_type, aggregate_id, event_type,
			partition_key, payload #>> '{}', (SELECT key || '|' || value FROM jsonb_each_text(headers))) END FROM outbox_event ORDER BY id`)
		if !slices.Equal(got, want) {
			t.Errorf("got\n%q, want\n%q", got, want)
		}
	})
}

func TestNumbersKeepAllTheirDigits(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		tx := begin(t, db)
		e := confirmed()
		e.Payload = []byte(`{"n":9007199254740993,"u":18446744073709551615,"d":0.1234567890123456789,"p":1.10}`)
		if _, err := outboxsql.Write(t.Context(), tx, e); err != nil {
			t.Fatal(err)
		}
		want := []string{`{"d": 0.1234567890123456789, "n": 9007199254740993, "p": 1.10, "u": 18446744073709551615}`}
		if got := column(t, tx, `SELECT payload::text FROM outbox_event`); !slices.Equal(got, want) {
			t.Errorf("payload %s, want %s", got, want)
		}
	})
}

// usable proves that the transaction has not been broken, by a business row and an event.
func usable(t *testing.T, tx *sql.Tx) {
	t.Helper()
	run(t, tx, `INSERT INTO orders VALUES (gen_random_uuid()::text)`)
	if _, err := outboxsql.Write(t.Context(), tx, confirmed()); err != nil {
		t.Errorf("the transaction is broken: %v", err)
	}
}

func TestTheTransactionGoesOnAfterARefusal(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		tx := begin(t, db)
		bad := confirmed()
		bad.Payload = []byte(`{"a\u0000":1}`)
		if _, err := outboxsql.Write(t.Context(), tx, bad); !errors.Is(err, outbox.ErrInvalid) {
			t.Errorf("error %v, want ErrInvalid", err)
		}
		usable(t, tx)
		bad = confirmed()
		bad.Headers = map[string]string{"trace": "1"}
		if _, err := outboxsql.Write(t.Context(), tx, bad); !errors.Is(err, outbox.ErrNoHeadersColumn) {
			t.Errorf("error %v, want ErrNoHeadersColumn", err)
		}
		usable(t, tx)
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	})
}

func TestErrorsOfTheDatabaseAreTold(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		first := confirmed()
		first.ID = uuid.MustParse("0198a0f0-1111-7222-8333-444444444444")
		tx := begin(t, db)
		if _, err := outboxsql.Write(t.Context(), tx, first); err != nil {
			t.Fatal(err)
		}
		if _, err := outboxsql.Write(t.Context(), tx, first); !errors.Is(err, outbox.ErrDuplicateID) {
			t.Errorf("error %v, want ErrDuplicateID", err)
		}
		w, err := outboxsql.NewWriter(outbox.Config{Schema: "nowhere", Headers: outbox.HeadersAssumed})
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write(t.Context(), begin(t, db), confirmed())
		if err == nil || !strings.Contains(err.Error(), `into "nowhere"."outbox_event": no such table`) {
			t.Errorf("error %v", err)
		}
		run(t, db, `CREATE RULE swallow AS ON INSERT TO outbox_event DO INSTEAD NOTHING`)
		if _, err := outboxsql.Write(t.Context(), begin(t, db), confirmed()); !errors.Is(err, outbox.ErrNotStored) {
			t.Errorf("error %v, want ErrNotStored", err)
		}
	})
}

func TestARolledBackTransactionLeavesNoEvent(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		tx := begin(t, db)
		if _, err := outboxsql.Write(t.Context(), tx, confirmed()); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if got := column(t, begin(t, db), `SELECT event_id::text FROM outbox_event`); got != nil {
			t.Errorf("events %v", got)
		}
	})
}

func TestNoEventsNoStatement(t *testing.T) {
	t.Parallel()
	if ids, err := outboxsql.Write(t.Context(), nil); ids != nil || err != nil {
		t.Errorf("got %v, %v, want nothing", ids, err)
	}
}

func TestAWrongConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := outboxsql.NewWriter(outbox.Config{Topics: outbox.Topics{Service: "OrderService"}}); err == nil {
		t.Error("no error")
	}
}

func TestTheContextsHeadersAreStoredWhereThereIsAColumn(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		w, err := outboxsql.NewWriter(outbox.Config{ContextHeaders: func(context.Context) map[string]string { return map[string]string{"traceparent": "00-1"} }})
		if err != nil {
			t.Fatal(err)
		}
		tx := begin(t, db)
		if _, err := w.Write(t.Context(), tx, confirmed()); err != nil {
			t.Fatal(err)
		}
		run(t, tx, `ALTER TABLE outbox_event ADD COLUMN headers jsonb`)
		if _, err := w.Write(t.Context(), tx, confirmed()); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := tx.QueryRowContext(t.Context(), `SELECT string_agg(coalesce(headers::text, 'NULL'), ' ' ORDER BY id) FROM outbox_event`).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if want := `NULL {"traceparent": "00-1"}`; got != want {
			t.Errorf("headers %s, want %s", got, want)
		}
	})
}
