package inbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

type deposit struct {
	Account string `json:"account"`
	Cents   int    `json:"cents"`
}

// record has an id, a type, a key and a value.
func record(offset int64, id, kind, key, value string) *inbox.Record {
	r := &inbox.Record{Topic: "shop.order", Offset: offset, Key: []byte(key), Value: []byte(value)}
	if id != "" {
		r.Headers = append(r.Headers, inbox.Header{Key: "x-event-id", Value: []byte(id)})
	}
	r.Headers = append(r.Headers, inbox.Header{Key: "x-event-type", Value: []byte(kind)})
	return r
}

const deposited = "deposited.v1"

// handlers add to the balance what the event says; accounts do different things.
func handlers[Tx any](exec func(ctx context.Context, tx Tx, query string) error) *inbox.Handlers[Tx] {
	h := inbox.NewHandlers[Tx]()
	inbox.On[deposit](h, deposited, func(ctx context.Context, tx Tx, e inbox.Event[deposit]) error {
		if err := exec(ctx, tx, addSQL); err != nil {
			return err
		}
		switch e.Payload.Account {
		case "fails":
			return errHandler
		case "panics":
			panic("no account")
		case "breaks":
			return exec(ctx, tx, `SELECT 1/0`)
		case "swallows":
			_ = exec(ctx, tx, `SELECT 1/0`)
		case "hangs":
			return exec(ctx, tx, `SELECT pg_sleep(600)`)
		case "dawdles":
			<-ctx.Done() // and takes no notice
		case "dies":
			return exec(ctx, tx, `SELECT pg_terminate_backend(pg_backend_pid())`)
		case "raises":
			return exec(ctx, tx, `DO $$ BEGIN RAISE EXCEPTION 'no such account' USING ERRCODE = '53000'; END $$`)
		case "exits":
			runtime.Goexit()
		}
		return nil
	})
	return h
}

func pgxHandlers() *inbox.Handlers[pgx.Tx] {
	return handlers(func(ctx context.Context, tx pgx.Tx, query string) error { _, err := tx.Exec(ctx, query); return err })
}

func sqlHandlers() *inbox.Handlers[*sql.Tx] {
	return handlers(func(ctx context.Context, tx *sql.Tx, query string) error {
		_, err := tx.ExecContext(ctx, query)
		return err
	})
}

// processors are one over pgx and one over each driver of database/sql.
func processors(t *testing.T, cfg inbox.Config, test func(t *testing.T, db *pgtest.DB, p inbox.Handling)) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		db := account(t)
		p, err := inbox.NewProcessor("billing", inbox.Pool(db.Pool(t)), pgxHandlers(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		test(t, db, p)
	})
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run("database/sql with "+driver, func(t *testing.T) {
			t.Parallel()
			db := account(t)
			p, err := inbox.NewProcessor("billing", inbox.DB(open(t, driver, db.URL)), sqlHandlers(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			test(t, db, p)
		})
	}
}

// wantOutcomes compares results, and parts of the errors' texts.
func wantOutcomes(t *testing.T, got []inbox.Outcome, want ...any) {
	t.Helper()
	for i, o := range got {
		switch w := want[i].(type) {
		case inbox.Result:
			if o.Err != nil || o.Result != w {
				t.Errorf("outcome %d is %v, %v, want %v", i, o.Result, o.Err, w)
			}
		case string:
			if o.Err == nil || !strings.Contains(o.Err.Error(), w) || errors.Is(o.Err, inbox.ErrUnavailable) {
				t.Errorf("outcome %d is %v, %v, want an error with %q", i, o.Result, o.Err, w)
			}
		}
	}
}

func TestABatchIsOneTransactionAndARepeatWithinItIsOne(t *testing.T) {
	processors(t, inbox.Config{}, func(t *testing.T, db *pgtest.DB, p inbox.Handling) {
		in := []*inbox.Record{
			record(0, "a", deposited, "k", `{"account": "1"}`),
			record(1, "b", deposited, "k", `{"account": "1"}`),
			record(2, "a", deposited, "l", `{"account": "1"}`),
			record(3, "c", "renamed.v1", "k", `{}`),
		}
		wantOutcomes(t, p.Handle(t.Context(), in), inbox.Handled, inbox.Handled, inbox.Repeat, inbox.Ignored)
		wantOutcomes(t, p.Handle(t.Context(), in), inbox.Repeat, inbox.Repeat, inbox.Repeat, inbox.Ignored)
		if n := balance(t, db); n != 2 {
			t.Errorf("the balance is %d, want 2", n)
		}
	})
}

func TestOneThatFailsHoldsUpItsKeyAndNothingElse(t *testing.T) {
	for account, says := range map[string]string{
		"fails": "no such account", "panics": "the handler panicked: no account", "breaks": "division by zero", "swallows": "", "hangs": "not handled within 5s", "dawdles": "not handled within 5s",
		"dies": "the database answers", "raises": "no such account", "exits": "ended its goroutine",
	} {
		t.Run(account, func(t *testing.T) {
			cfg := inbox.Config{}
			if account == "hangs" || account == "dawdles" {
				cfg.Timeout = 5 * time.Second // enough for the others, however busy the machine is
			}
			processors(t, cfg, func(t *testing.T, db *pgtest.DB, p inbox.Handling) {
				in := []*inbox.Record{
					record(0, "a", deposited, "k", `{"account": "1"}`),
					record(1, "b", deposited, "k", `{"account": "`+account+`"}`),
					record(2, "c", deposited, "k", `{"account": "1"}`),
					record(3, "d", deposited, "l", `{"account": "1"}`),
				}
				wantOutcomes(t, p.Handle(t.Context(), in), inbox.Handled, says, "in front of this one", inbox.Handled)
				if n := balance(t, db); n != 2 {
					t.Errorf("the balance is %d, want 2", n)
				}
			})
		})
	}
}

func TestARecordThatCannotBeWhatItsHandlerTakesIsAPermanentFailure(t *testing.T) {
	processors(t, inbox.Config{}, func(t *testing.T, db *pgtest.DB, p inbox.Handling) {
		null, noType := record(3, "d", deposited, "n", ""), record(6, "g", "", "q", `{}`)
		null.Value = nil
		in := []*inbox.Record{
			record(0, "a", deposited, "k", `no JSON`),
			record(1, "b", deposited, "k", `{"account": "1"}`),
			record(2, "c", deposited, "m", ``),
			null,
			record(4, "e", deposited, "o", `{"cents": "1"}`),
			record(5, "", deposited, "p", `{"account": "1"}`),
			noType,
			record(7, strings.Repeat("x", 1025), deposited, "r", `{"account": "1"}`),
			record(8, "a\x00", deposited, "s", `{"account": "1"}`),
			record(9, "i", deposited, "t", `{"account": "1"}`),
		}
		out := p.Handle(t.Context(), in)
		wantOutcomes(t, out, "decode the value", "in front of this one", "it is empty", "it is null", "cents", "no event id", inbox.Ignored, "1025 bytes", "no text", inbox.Handled)
		for i, o := range out {
			if permanent := inbox.IsPermanent(o.Err); permanent != (o.Err != nil && i != 1) {
				t.Errorf("outcome %d, %v, is permanent: %v", i, o.Err, permanent)
			}
		}
		if n := balance(t, db); n != 1 {
			t.Errorf("the balance is %d, want 1", n)
		}
	})
}

// A process that was started anew handles at its first attempt what had failed before: it does not know of the failures.
func TestFailuresOfWhatIsSettledAreForgotten(t *testing.T) {
	processors(t, inbox.Config{}, func(t *testing.T, _ *pgtest.DB, p inbox.Handling) {
		fail := func(topic string, partition int32, offset int64, want int) {
			t.Helper()
			r := record(offset, "a", deposited, "k", "")
			r.Topic, r.Partition = topic, partition
			if n, err := p.Failed(t.Context(), r, errHandler); err != nil || n != want {
				t.Errorf("%s has failed %d times, %v, want %d", r.Place(), n, err, want)
			}
		}
		for _, offset := range []int64{4, 5, 6} {
			fail("shop.order", 0, offset, 1)
			fail("shop.order", 1, offset, 1)
			fail("shop.other", 0, offset, 1)
		}
		passed := p.(interface {
			Passed(ctx context.Context, next map[inbox.Partition]int64) error
		})
		err := passed.Passed(t.Context(), map[inbox.Partition]int64{{Topic: "shop.order", Number: 0}: 6, {Topic: "shop.order", Number: 1}: 5})
		if err != nil {
			t.Fatal(err)
		}
		for offset, want := range map[int64][3]int{4: {1, 1, 2}, 5: {1, 2, 2}, 6: {2, 2, 2}} {
			fail("shop.order", 0, offset, want[0])
			fail("shop.order", 1, offset, want[1])
			fail("shop.other", 0, offset, want[2])
		}
	})
}

func TestFailuresAreCountedInTheDatabase(t *testing.T) {
	processors(t, inbox.Config{}, func(t *testing.T, db *pgtest.DB, p inbox.Handling) {
		r := record(7, "a\x00", deposited, "k", "")
		for want := 1; want <= 3; want++ {
			if n, err := p.Failed(t.Context(), r, errors.New("no\x00 such \xff"+strings.Repeat("é", 5000))); err != nil || n != want {
				t.Errorf("%d failures, %v, want %d", n, err, want)
			}
		}
		if err := p.Settled(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if n, err := p.Failed(t.Context(), r, errHandler); err != nil || n != 1 {
			t.Errorf("%d failures, %v, want 1", n, err)
		}
	})
}

// A record that cannot be counted would block its key for ever, whatever the policy says.
func TestAFailureIsCountedInADatabaseThatLacksItsLetters(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Encoded("LATIN1"))
	pool := open(t, "postgres", db.URL) // which asks for UTF-8 by itself
	p, err := inbox.NewProcessor("billing", inbox.DB(pool), sqlHandlers(), inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for want := 1; want <= 2; want++ {
		if n, err := p.Failed(t.Context(), record(7, "ж", deposited, "k", ""), errors.New("kein Konto für Жanna")); err != nil || n != want {
			t.Errorf("%d failures, %v, want %d", n, err, want)
		}
	}
	var got string
	if err := pool.QueryRowContext(t.Context(), `SELECT last_error FROM outbox.inbox_failure`).Scan(&got); err != nil || got != `kein Konto f\u00fcr \u0416anna` {
		t.Errorf("the error is %q, %v", got, err)
	}
}

// The attempts of a record are not those of another one that had its offset before its topic was made anew.
func TestFailuresAtAPlaceAreThoseOfOneEvent(t *testing.T) {
	processors(t, inbox.Config{}, func(t *testing.T, db *pgtest.DB, p inbox.Handling) {
		for i, id := range []string{"a", "a", "b", "b", ""} {
			want := []int{1, 2, 1, 2, 1}[i]
			if n, err := p.Failed(t.Context(), record(7, id, deposited, "k", ""), fmt.Errorf("error %d", i)); err != nil || n != want {
				t.Errorf("failure %d of event %q: %d, %v, want %d", i, id, n, err, want)
			}
			if i == 3 {
				var got string
				if err := db.Conn(t).QueryRow(t.Context(), `SELECT concat_ws(', ', event_id, first_error, last_error) FROM outbox.inbox_failure`).Scan(&got); err != nil || got != "b, error 2, error 3" {
					t.Errorf("it is written down as %q, %v", got, err)
				}
			}
		}
	})
}

// A session of an operator that hangs in a transaction holds up what it has locked, and no worker for ever.
func TestAFailureThatCannotBeWrittenDownIsToldInTime(t *testing.T) {
	processors(t, inbox.Config{Timeout: time.Second}, func(t *testing.T, db *pgtest.DB, p inbox.Handling) {
		r := record(7, "a", deposited, "k", "")
		if _, err := p.Failed(t.Context(), r, errHandler); err != nil {
			t.Fatal(err)
		}
		operator, err := db.Conn(t).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := operator.Exec(t.Context(), `SELECT FROM outbox.inbox_failure FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		_, failed := p.Failed(t.Context(), r, errHandler)
		for doing, err := range map[string]error{"write down a failed record": failed, "forget a failed record": p.Settled(t.Context(), r)} {
			if err == nil || !strings.Contains(err.Error(), doing) || !strings.Contains(err.Error(), "another transaction") || errors.Is(err, inbox.ErrUnavailable) {
				t.Errorf("%s: %v, want an error that says that a transaction is in the way", doing, err)
			}
		}
		if err := operator.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := p.Failed(t.Context(), r, errHandler); err != nil || n != 2 {
			t.Errorf("%d failures, %v, want 2", n, err)
		}
	})
}

func TestIDsAndTypesAreFoundInTheUsualHeaders(t *testing.T) {
	t.Parallel()
	of := func(headers ...string) *inbox.Record {
		r := &inbox.Record{Topic: "t", Partition: 3, Offset: 9}
		for i := 0; i < len(headers); i += 2 {
			r.Headers = append(r.Headers, inbox.Header{Key: headers[i], Value: []byte(headers[i+1])})
		}
		return r
	}
	for name, c := range map[string]struct {
		r        *inbox.Record
		id, kind string
	}{
		"ours":             {of("x-event-id", "1", "x-event-type", "a", "ce_id", "2"), "1", "a"},
		"CloudEvents":      {of("ce_id", "2", "ce_type", "b"), "2", "b"},
		"Debezium":         {of("id", "3", "eventType", "c"), "3", "c"},
		"the last one":     {of("x-event-id", "1", "x-event-id", "4"), "4", ""},
		"an empty header":  {of("x-event-id", "", "ce_id", "2"), "2", ""},
		"nothing of these": {of("a", "b"), "", ""},
	} {
		id, err := inbox.EventID(c.r)
		if id != c.id || errors.Is(err, inbox.ErrNoID) != (c.id == "") || inbox.EventType(c.r) != c.kind {
			t.Errorf("%s: %q, %v, %q", name, id, err, inbox.EventType(c.r))
		}
	}
}

func TestARecordWithoutAnIDIsWhatThePolicySays(t *testing.T) {
	t.Parallel()
	for policy, want := range map[inbox.NoID][]any{
		inbox.FailNoID:   {"no event id", "no event id"},
		inbox.HandleNoID: {inbox.Handled, inbox.Handled},
		inbox.PlaceNoID:  {inbox.Handled, inbox.Repeat},
	} {
		processorsOnce(t, inbox.Config{NoID: policy}, func(t *testing.T, p inbox.Handling) {
			for i := range 2 {
				wantOutcomes(t, p.Handle(t.Context(), []*inbox.Record{record(5, "", deposited, "k", `{"account": "1"}`)}), want[i])
			}
		})
	}
}

// processorsOnce is processors for pgx alone.
func processorsOnce(t *testing.T, cfg inbox.Config, test func(t *testing.T, p inbox.Handling)) {
	t.Helper()
	p, err := inbox.NewProcessor("billing", inbox.Pool(account(t).Pool(t)), pgxHandlers(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	test(t, p)
}

func TestAProcessorSaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	h := inbox.NewHandlers[pgx.Tx]()
	none := func(context.Context, pgx.Tx, inbox.Event[json.RawMessage]) error { return nil }
	inbox.On(h, "a", none)
	inbox.On(h, "a", none)
	inbox.On(h, "", none)
	_, err := inbox.NewProcessor("", nil, h, inbox.Config{Unknown: 7, NoID: -1, Timeout: -1, Retain: time.Minute})
	for _, want := range []string{"Unknown 7", "NoID -1", "Timeout is negative", "Retain 1m0s", "store is nil", `"a" has two handlers`, "no event type", "consumer is empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if _, err := inbox.NewProcessor("a", inbox.Pool(nil), inbox.NewHandlers[pgx.Tx](), inbox.Config{}); err == nil || !strings.Contains(err.Error(), "no handlers") {
		t.Errorf("without handlers: %v", err)
	}
}

func TestOldEventsAreForgottenThoseOfTheConsumerOnly(t *testing.T) {
	processors(t, inbox.Config{Retain: 48 * time.Hour}, func(t *testing.T, db *pgtest.DB, p inbox.Handling) {
		db.Exec(t, `INSERT INTO outbox.inbox SELECT c, g::text, now() - g * interval '1 minute' FROM generate_series(1, 6000) g, (VALUES ('billing'), ('shipping')) v(c)`)
		if _, err := p.Failed(t.Context(), record(1, "a", deposited, "k", ""), errHandler); err != nil {
			t.Fatal(err)
		}
		db.Exec(t, `UPDATE outbox.inbox_failure SET last_failed_at = now() - interval '3 days'`)
		n, err := p.(interface {
			Prune(ctx context.Context) (int64, error)
		}).Prune(t.Context())
		if err != nil || n != 6000-2879 {
			t.Errorf("forgot %d, %v, want %d", n, err, 6000-2879)
		}
		var billing, shipping, failures int
		if err := db.Conn(t).QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE consumer = 'billing'), count(*) FILTER (WHERE consumer = 'shipping'),
			(SELECT count(*) FROM outbox.inbox_failure) FROM outbox.inbox`).Scan(&billing, &shipping, &failures); err != nil {
			t.Fatal(err)
		}
		if billing != 2879 || shipping != 6000 || failures != 0 {
			t.Errorf("%d of the consumer are left, %d of another one, %d failures", billing, shipping, failures)
		}
	})
}
