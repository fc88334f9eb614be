package outbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox"
)

// usable proves that the transaction has not been broken, by a business row and an event.
func usable(t *testing.T, tx pgx.Tx) {
	t.Helper()
	run(t, tx, `INSERT INTO orders VALUES (gen_random_uuid()::text)`)
	write(t, tx, confirmed())
}

// hardbyte/awa#85: a character that PostgreSQL cannot store aborted the whole business transaction.
func TestTheTransactionGoesOnAfterARefusal(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	tx := begin(t, pool)
	id := confirmed()
	id.AggregateID = "4\x002"
	for _, e := range []outbox.Event{
		id,
		withPayload([]byte(`{"a":"x\u0000y"}`)),
		withPayload([]byte(`{"deep":[{"a\u0000":1}]}`)),
		withPayload(map[string]string{"a": "x\x00y"}),
		withPayload([]byte(`"\ud800"`)),
		withPayload([]byte(`1e200000`)),
	} {
		if _, err := outbox.Write(t.Context(), tx, confirmed(), e); !errors.Is(err, outbox.ErrInvalid) {
			t.Errorf("error %v, want ErrInvalid", err)
		}
		usable(t, tx)
	}
	commit(t, tx)
}

func TestHeadersAreStored(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	run(t, pool, `ALTER TABLE outbox_event ADD COLUMN headers jsonb`)
	tx := begin(t, pool)
	e := confirmed()
	e.Headers = map[string]string{"trace": "00-1", "empty": "", "f": `ü"<\`}
	write(t, tx, confirmed(), e)
	got := query(t, tx, `SELECT coalesce(headers::text, 'NULL') FROM outbox_event ORDER BY id`)
	if want := `NULL {"f": "ü\"<\\", "empty": "", "trace": "00-1"}`; strings.Join(got, " ") != want {
		t.Errorf("headers %s, want %s", strings.Join(got, " "), want)
	}
}

func TestHeadersWithoutAColumnAreRefusedBeforeTheTransactionBreaks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ ddl, says string }{
		"missing column": {"", "ADD COLUMN headers jsonb"},
		"dropped column": {"ALTER TABLE outbox_event ADD COLUMN headers jsonb; ALTER TABLE outbox_event DROP COLUMN headers", "ADD COLUMN headers jsonb"},
		"other type":     {"ALTER TABLE outbox_event ADD COLUMN headers text", "it is of type text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := setup(t)
			run(t, pool, c.ddl)
			tx := begin(t, pool)
			e := confirmed()
			e.Headers = map[string]string{"trace": "1"}
			_, err := outbox.Write(t.Context(), tx, e)
			if !errors.Is(err, outbox.ErrNoHeadersColumn) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want ErrNoHeadersColumn that says %q", err, c.says)
			}
			usable(t, tx)
		})
	}
}

func TestADomainOverJSONBHoldsHeaders(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	run(t, pool, `CREATE DOMAIN header_object AS jsonb CHECK (jsonb_typeof(VALUE) = 'object'); ALTER TABLE outbox_event ADD COLUMN headers header_object`)
	e := confirmed()
	e.Headers = map[string]string{"trace": "1"}
	write(t, begin(t, pool), e)
}

func TestAMissingTableIsSaid(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	w := newWriter(t, outbox.Config{Table: "elsewhere"})
	for _, headers := range []map[string]string{nil, {"trace": "1"}} {
		e := confirmed()
		e.Headers = headers
		_, err := w.Write(t.Context(), begin(t, pool), e)
		if err == nil || !strings.Contains(err.Error(), `into "elsewhere": no such table: create it`) {
			t.Errorf("error %v", err)
		}
	}
}

func TestAnAssumedHeadersColumnThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	w := newWriter(t, outbox.Config{Headers: outbox.HeadersAssumed})
	e := confirmed()
	e.Headers = map[string]string{"trace": "1"}
	if _, err := w.Write(t.Context(), begin(t, setup(t)), e); !errors.Is(err, outbox.ErrNoHeadersColumn) {
		t.Errorf("error %v, want ErrNoHeadersColumn", err)
	}
}

func TestAnIDThatIsInTheTableIsADuplicate(t *testing.T) {
	t.Parallel()
	tx := begin(t, setup(t))
	again := confirmed()
	again.ID = write(t, tx, confirmed())[0]
	if _, err := outbox.Write(t.Context(), tx, again); !errors.Is(err, outbox.ErrDuplicateID) {
		t.Errorf("error %v, want ErrDuplicateID", err)
	}
}

func TestRowsThatATriggerSwallowsAreAnError(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	run(t, pool, `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.event_type = 'order.changed-1.v1' THEN RETURN NULL; END IF; RETURN NEW; END $$;
		CREATE TRIGGER swallow BEFORE INSERT ON outbox_event FOR EACH ROW EXECUTE FUNCTION swallow()`)
	_, err := outbox.Write(t.Context(), begin(t, pool), numbered(3)...)
	if !errors.Is(err, outbox.ErrNotStored) || !strings.Contains(err.Error(), "2 of 3 rows") {
		t.Errorf("error %v, want ErrNotStored", err)
	}
}

func TestTheDriversErrorIsKept(t *testing.T) {
	t.Parallel()
	tx := begin(t, setup(t))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.Write(t.Context(), tx, confirmed()); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("error %v, want pgx.ErrTxClosed", err)
	}
}
