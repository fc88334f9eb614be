package outboxtest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// failing is a test that may fail: its text is kept.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) {
	f.text = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// failureOf runs what must fail, and returns how it does.
func failureOf(t *testing.T, run func(testing.TB)) string {
	t.Helper()
	f := &failing{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(f)
	}()
	<-ended
	if f.text == "" {
		t.Fatal("it does not fail")
	}
	return f.text
}

func want(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("got\n%s\nwant in it %q", got, part)
		}
	}
}

func event(kind, key string) outbox.Event {
	return outbox.Event{AggregateType: "Order", AggregateID: key, Type: kind, Topic: "shop.order", Payload: map[string]any{"n": 1}}
}

func begin(t *testing.T, db *pgtest.DB) pgx.Tx {
	t.Helper()
	tx, err := db.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func write(t *testing.T, tx outbox.Tx, events ...outbox.Event) {
	t.Helper()
	if _, err := outbox.Write(t.Context(), tx, events...); err != nil {
		t.Fatal(err)
	}
}

// commit writes events in a transaction of their own.
func commit(t *testing.T, db *pgtest.DB, events ...outbox.Event) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		_, err := outbox.Write(t.Context(), tx, events...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// processor handles events of the type seen.v1 by adding a row; what has the key "bad" fails.
func processor(t *testing.T, db *pgtest.DB) *inbox.Processor[pgx.Tx] {
	t.Helper()
	db.Exec(t, `CREATE TABLE seen (key text NOT NULL)`)
	handlers := inbox.NewHandlers[pgx.Tx]()
	inbox.On(handlers, "seen.v1", func(ctx context.Context, tx pgx.Tx, e inbox.Event[[]byte]) error {
		if string(e.Record.Key) == "bad" {
			return fmt.Errorf("key %s is bad", e.Record.Key)
		}
		_, err := tx.Exec(ctx, `INSERT INTO seen VALUES ($1)`, string(e.Record.Key))
		return err
	})
	p, err := inbox.NewProcessor("seer", inbox.Pool(db.Pool(t)), handlers, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func seen(t *testing.T, db *pgtest.DB) (n int) {
	t.Helper()
	if err := db.Conn(t).QueryRow(t.Context(), `SELECT count(*) FROM seen`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
