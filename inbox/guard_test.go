package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// ending has a handler that adds to the balance, and then does to its transaction what end does, if the event says so.
func ending[Tx any](t *testing.T, store inbox.Store[Tx], exec func(context.Context, Tx, string) error, end func(context.Context, Tx) error) inbox.Handling {
	t.Helper()
	h := inbox.NewHandlers[Tx]()
	inbox.On(h, deposited, func(ctx context.Context, tx Tx, e inbox.Event[deposit]) error {
		if err := exec(ctx, tx, addSQL); err != nil || e.Payload.Account != "ends" {
			return err
		}
		return end(ctx, tx)
	})
	p, err := inbox.NewProcessor("billing", store, h, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A batch has one transaction: whatever a handler does to it, the others' records are handled, once.
func TestAHandlerThatEndsItsTransactionTakesNoOtherEventWithIt(t *testing.T) {
	t.Parallel()
	viaPgx := func(end func(context.Context, pgx.Tx) error) func(*testing.T, *pgtest.DB) inbox.Handling {
		return func(t *testing.T, db *pgtest.DB) inbox.Handling {
			return ending(t, inbox.Pool(db.Pool(t)), func(ctx context.Context, tx pgx.Tx, query string) error { _, err := tx.Exec(ctx, query); return err }, end)
		}
	}
	viaSQL := func(driver string, end func(context.Context, *sql.Tx) error) func(*testing.T, *pgtest.DB) inbox.Handling {
		return func(t *testing.T, db *pgtest.DB) inbox.Handling {
			exec := func(ctx context.Context, tx *sql.Tx, query string) error {
				_, err := tx.ExecContext(ctx, query)
				return err
			}
			return ending(t, inbox.DB(open(t, driver, db.URL)), exec, end)
		}
	}
	commit := func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }
	rollback := func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }
	const stays, goes = "ends its transaction", "has ended its transaction"
	for name, c := range map[string]struct {
		of   func(*testing.T, *pgtest.DB) inbox.Handling
		says string // "": what it has done is committed, and the event a repeat
		n    int
	}{
		"pgx commits":             {viaPgx(func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }), stays, 2},
		"pgx rolls back":          {viaPgx(func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }), stays, 2},
		"pgx commits in secret":   {viaPgx(func(ctx context.Context, tx pgx.Tx) error { _ = tx.Commit(ctx); return nil }), stays, 2},
		"pgx sends a COMMIT":      {viaPgx(func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "COMMIT"); return err }), "", 4},
		"lib/pq commits":          {viaSQL("postgres", commit), "", 4},
		"lib/pq rolls back":       {viaSQL("postgres", rollback), goes, 2},
		"pgx's stdlib commits":    {viaSQL("pgx", commit), "", 4},
		"pgx's stdlib rolls back": {viaSQL("pgx", rollback), goes, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := account(t)
			p := c.of(t, db)
			// One that was handled long before stays so.
			wantOutcomes(t, p.Handle(t.Context(), []*inbox.Record{record(9, "z", deposited, "l", `{"account": "1"}`)}), inbox.Handled)
			out := p.Handle(t.Context(), []*inbox.Record{
				record(0, "a", deposited, "k", `{"account": "1"}`),
				record(1, "b", deposited, "k", `{"account": "ends"}`),
				record(2, "c", deposited, "k", `{"account": "1"}`),
				record(3, "d", deposited, "l", `{"account": "1"}`),
				record(9, "z", deposited, "l", `{"account": "1"}`),
			})
			if c.says == "" {
				wantOutcomes(t, out, inbox.Repeat, inbox.Repeat, inbox.Handled, inbox.Handled, inbox.Repeat)
			} else {
				wantOutcomes(t, out, inbox.Handled, c.says, "in front of this one", inbox.Handled, inbox.Repeat)
			}
			if n := balance(t, db); n != c.n+1 {
				t.Errorf("the balance is %d, want %d", n, c.n+1)
			}
		})
	}
}

func TestAHandlerThatEndsItsTransactionAloneIsToldSo(t *testing.T) {
	t.Parallel()
	db := account(t)
	p := ending(t, inbox.DB(open(t, "postgres", db.URL)), func(ctx context.Context, tx *sql.Tx, query string) error {
		_, err := tx.ExecContext(ctx, query)
		return err
	},
		func(_ context.Context, tx *sql.Tx) error { return tx.Commit() })
	in := []*inbox.Record{record(1, "b", deposited, "k", `{"account": "ends"}`)}
	out := p.Handle(t.Context(), in)
	wantOutcomes(t, out, "has ended its transaction")
	if !strings.Contains(out[0].Err.Error(), "savepoint") {
		t.Errorf("%v does not say what to do", out[0].Err)
	}
	wantOutcomes(t, p.Handle(t.Context(), in), inbox.Repeat)
}

// A COMMIT that is a statement is not seen at once. When a later handler of the transaction fails, the others' events must not be taken for handled.
func TestNoEventIsLostWhenAHandlerCommitsByAStatement(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{"pgx": "COMMIT AND CHAIN", "postgres": "COMMIT", "stdlib": "COMMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := account(t)
			db.Exec(t, `CREATE TABLE done (id text)`)
			failed := map[string]bool{}
			of := func(exec func(query string, args ...any) error, e inbox.Event[deposit]) error {
				switch again := failed[e.ID]; {
				case e.Payload.Account == "ends":
					if err := exec(statement); err != nil {
						return err
					}
				case e.Payload.Account == "ends and fails" && !again:
					failed[e.ID] = true
					return errors.Join(exec(statement), errHandler)
				case e.Payload.Account == "fails" && !again:
					failed[e.ID] = true
					return errHandler
				}
				return exec(`INSERT INTO done VALUES ($1)`, e.ID)
			}
			var p inbox.Handling
			var err error
			if name == "pgx" {
				h := inbox.NewHandlers[pgx.Tx]()
				inbox.On(h, deposited, func(ctx context.Context, tx pgx.Tx, e inbox.Event[deposit]) error {
					return of(func(query string, args ...any) error { _, err := tx.Exec(ctx, query, args...); return err }, e)
				})
				p, err = inbox.NewProcessor("billing", inbox.Pool(db.Pool(t)), h, inbox.Config{})
			} else {
				driver := map[string]string{"postgres": "postgres", "stdlib": "pgx"}[name]
				h := inbox.NewHandlers[*sql.Tx]()
				inbox.On(h, deposited, func(ctx context.Context, tx *sql.Tx, e inbox.Event[deposit]) error {
					return of(func(query string, args ...any) error { _, err := tx.ExecContext(ctx, query, args...); return err }, e)
				})
				p, err = inbox.NewProcessor("billing", inbox.DB(open(t, driver, db.URL)), h, inbox.Config{})
			}
			if err != nil {
				t.Fatal(err)
			}
			in := []*inbox.Record{
				record(0, "a", deposited, "k", `{"account": "ends"}`),
				record(1, "b", deposited, "l", `{"account": "1"}`),
				record(2, "c", deposited, "m", `{"account": "fails"}`),
				record(3, "d", deposited, "n", `{"account": "1"}`),
			}
			p.Handle(t.Context(), in)
			p.Handle(t.Context(), in)
			alone := []*inbox.Record{record(4, "e", deposited, "o", `{"account": "ends and fails"}`)}
			p.Handle(t.Context(), alone)
			p.Handle(t.Context(), alone)
			var done int
			if err := db.Conn(t).QueryRow(t.Context(), `SELECT count(DISTINCT id) FROM done`).Scan(&done); err != nil || done != 5 {
				t.Errorf("%d of 5 events are handled, %v", done, err)
			}
		})
	}
}
