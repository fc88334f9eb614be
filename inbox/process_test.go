package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var errHandler = errors.New("no such account")

// account is a database with a table that handlers add to.
func account(t *testing.T) *pgtest.DB {
	t.Helper()
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE account (n int NOT NULL); INSERT INTO account VALUES (0)`)
	return db
}

const addSQL = `UPDATE account SET n = n + 1`

func balance(t *testing.T, db *pgtest.DB) (n int) {
	t.Helper()
	if err := db.Conn(t).QueryRow(t.Context(), `SELECT n FROM account`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// once handles an event in a transaction of its own, which is rolled back after an error unless commit says otherwise.
type once func(consumer, id string, commit bool, fn func() error) (bool, error)

// eachWay runs a test with pgx and with database/sql over two drivers. add is what a handler does with the transaction of the last call.
func eachWay(t *testing.T, test func(t *testing.T, db *pgtest.DB, do once, add func() error)) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		db := account(t)
		pool := db.Pool(t)
		var tx pgx.Tx
		test(t, db, func(consumer, id string, commit bool, fn func() error) (bool, error) {
			var err error
			if tx, err = pool.Begin(t.Context()); err != nil {
				return false, err
			}
			handled, err := inbox.Process(t.Context(), tx, consumer, id, func(context.Context) error { return fn() })
			if err != nil && !commit {
				return handled, errors.Join(err, tx.Rollback(t.Context()))
			}
			return handled, errors.Join(err, tx.Commit(t.Context()))
		}, func() error { _, err := tx.Exec(t.Context(), addSQL); return err })
	})
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run("database/sql with "+driver, func(t *testing.T) {
			t.Parallel()
			db := account(t)
			pool := open(t, driver, db.URL)
			var tx *sql.Tx
			test(t, db, func(consumer, id string, commit bool, fn func() error) (bool, error) {
				var err error
				if tx, err = pool.BeginTx(t.Context(), nil); err != nil {
					return false, err
				}
				handled, err := inbox.ProcessSQL(t.Context(), tx, consumer, id, func(context.Context) error { return fn() })
				if err != nil && !commit {
					return handled, errors.Join(err, tx.Rollback())
				}
				return handled, errors.Join(err, tx.Commit())
			}, func() error { _, err := tx.ExecContext(t.Context(), addSQL); return err })
		})
	}
}

func open(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestAnEventIsHandledOnceForEachConsumer(t *testing.T) {
	eachWay(t, func(t *testing.T, db *pgtest.DB, do once, add func() error) {
		for i, want := range []bool{true, false, false} {
			if handled, err := do("billing", "7b5a", false, add); err != nil || handled != want {
				t.Errorf("delivery %d: handled %v, %v, want %v", i, handled, err, want)
			}
		}
		if handled, err := do("shipping", "7b5a", false, add); err != nil || !handled {
			t.Errorf("another consumer: handled %v, %v", handled, err)
		}
		if n := balance(t, db); n != 2 {
			t.Errorf("the balance is %d, want 2", n)
		}
	})
}

func TestWhatFailsComesAgainEvenIfItsCallerCommits(t *testing.T) {
	eachWay(t, func(t *testing.T, db *pgtest.DB, do once, add func() error) {
		for _, commit := range []bool{false, true} {
			if handled, err := do("billing", "7b5a", commit, func() error { return errHandler }); handled || !errors.Is(err, errHandler) {
				t.Errorf("a handler that fails: handled %v, %v", handled, err)
			}
		}
		if handled, err := do("billing", "7b5a", false, add); err != nil || !handled {
			t.Errorf("the next delivery: handled %v, %v", handled, err)
		}
		if n := balance(t, db); n != 1 {
			t.Errorf("the balance is %d, want 1", n)
		}
	})
}

func TestWhatPanicsComesAgainEvenIfItsCallerCommits(t *testing.T) {
	t.Parallel()
	db := account(t)
	pool := db.Pool(t)
	for i, want := range []bool{false, true, false} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			defer func() { _ = recover() }()
			handled, err := inbox.Process(t.Context(), tx, "billing", "7b5a", func(context.Context) error {
				if i == 0 {
					panic(errHandler)
				}
				return nil
			})
			if handled != want {
				t.Errorf("delivery %d: handled %v, want %v", i, handled, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestARepeatThatASnapshotCannotSeeIsAnErrorToTryAgain(t *testing.T) {
	t.Parallel()
	db := account(t)
	tx, err := db.Conn(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT n FROM account`); err != nil { // takes the snapshot
		t.Fatal(err)
	}
	db.Exec(t, `INSERT INTO outbox.inbox (consumer, event_id) VALUES ('billing', '7b5a')`)
	handled, err := inbox.Process(t.Context(), tx, "billing", "7b5a", func(context.Context) error { return nil })
	var state interface{ SQLState() string }
	if handled || !errors.As(err, &state) || state.SQLState() != "40001" {
		t.Errorf("handled %v, %v, want SQLSTATE 40001", handled, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWhatASavepointUndoesComesAgain(t *testing.T) {
	t.Parallel()
	db := account(t)
	tx, err := db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, false} {
		part, err := tx.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		handled, err := inbox.Process(t.Context(), part, "billing", "7b5a", func(ctx context.Context) error {
			_, err := part.Exec(ctx, addSQL)
			return err
		})
		if end := map[bool]func(context.Context) error{true: part.Rollback, false: part.Commit}[i == 0]; err != nil || handled != want || end(t.Context()) != nil {
			t.Errorf("delivery %d: handled %v, %v, want %v", i, handled, err, want)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := balance(t, db); n != 1 {
		t.Errorf("the balance is %d, want 1", n)
	}
}

func TestWhatCannotBeRememberedIsRefusedAndTheTransactionGoesOn(t *testing.T) {
	eachWay(t, func(t *testing.T, _ *pgtest.DB, do once, add func() error) {
		for name, c := range map[string][2]string{
			"consumer is empty": {"", "a"},
			"at most 1024":      {"billing", strings.Repeat("x", 1025)},
			"no text":           {"billing", "a\x00b"},
			"event id is empty": {"billing", ""},
			"at most 255 can":   {strings.Repeat("c", 256), "a"},
		} {
			if handled, err := do(c[0], c[1], true, add); handled || err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: handled %v, %v", name, handled, err)
			}
		}
	})
}

// Of two deliveries at the same time one handler runs, and the other waits for what becomes of it.
func TestTwoDeliveriesAtOnceRunOneHandler(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"the first commits": false, "the first rolls back": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := account(t)
			pool := db.Pool(t)
			first, goOn := make(chan struct{}), make(chan struct{})
			var runs atomic.Int32
			deliver := func(fn func() error) error {
				return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := inbox.Process(t.Context(), tx, "billing", "7b5a", func(context.Context) error {
						if _, err := tx.Exec(t.Context(), addSQL); err != nil {
							return err
						}
						runs.Add(1)
						return fn()
					})
					return err
				})
			}
			var both sync.WaitGroup
			both.Go(func() {
				err := deliver(func() error {
					close(first)
					<-goOn
					if fails {
						return errHandler
					}
					return nil
				})
				if fails != errors.Is(err, errHandler) {
					t.Errorf("the first: %v", err)
				}
			})
			<-first
			both.Go(func() {
				if err := deliver(func() error { return nil }); err != nil {
					t.Errorf("the second: %v", err)
				}
			})
			awaitBlocked(t, pool)
			close(goOn)
			both.Wait()
			if n := balance(t, db); n != 1 || (runs.Load() == 2) != fails {
				t.Errorf("the balance is %d after %d runs", n, runs.Load())
			}
		})
	}
}

// awaitBlocked waits until a session waits for another one's transaction.
func awaitBlocked(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	await.Until(t, "a session waits", func() (blocked bool) {
		if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&blocked); err != nil {
			t.Fatal(err)
		}
		return blocked
	})
}

func TestADatabaseWithoutTheTableSaysWhatToDo(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Empty).Pool(t)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := inbox.Process(t.Context(), tx, "billing", "7b5a", func(context.Context) error { return nil })
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "run outbox migrate up") {
		t.Errorf("the error is %v", err)
	}
}

func ExampleProcess() {
	bill := func(ctx context.Context, pool *pgxpool.Pool, eventID string, total int) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			handled, err := inbox.Process(ctx, tx, "billing", eventID, func(ctx context.Context) error {
				_, err := tx.Exec(ctx, `UPDATE account SET balance = balance - $1`, total)
				return err
			})
			if err == nil && !handled {
				fmt.Println("a repeat")
			}
			return err
		})
	}
	_ = bill // with your database
}

// The context of a handler may have ended; the caller's commit has another one.
func TestWhatFailsByItsContextComesAgainEvenIfItsCallerCommits(t *testing.T) {
	t.Parallel()
	late := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, fn := range map[string]func(ctx context.Context) error{
		"fails":         late,
		"panics":        func(ctx context.Context) error { panic(late(ctx)) },
		"ends the test": func(ctx context.Context) error { _ = late(ctx); runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := account(t)
			viaPgx, viaSQL := db.Pool(t), open(t, "postgres", db.URL)
			for id, do := range map[string]func(fn func(context.Context) error, timeout time.Duration) (bool, error){
				"a": func(fn func(context.Context) error, timeout time.Duration) (handled bool, err error) {
					tx, err := viaPgx.Begin(t.Context())
					if err != nil {
						return false, err
					}
					defer func() { err = errors.Join(err, tx.Commit(t.Context())) }()
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					return inbox.Process(ctx, tx, "billing", "a", fn)
				},
				"b": func(fn func(context.Context) error, timeout time.Duration) (handled bool, err error) {
					tx, err := viaSQL.BeginTx(t.Context(), nil)
					if err != nil {
						return false, err
					}
					defer func() { err = errors.Join(err, tx.Commit()) }()
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					return inbox.ProcessSQL(ctx, tx, "billing", "b", fn)
				},
			} {
				over := make(chan struct{})
				go func() {
					defer close(over)
					defer func() { _ = recover() }()
					if handled, err := do(fn, 200*time.Millisecond); handled || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s: handled %v, %v", id, handled, err)
					}
				}()
				<-over
				if handled, err := do(func(context.Context) error { return nil }, time.Minute); err != nil || !handled {
					t.Errorf("%s: the next delivery: handled %v, %v", id, handled, err)
				}
			}
		})
	}
}
