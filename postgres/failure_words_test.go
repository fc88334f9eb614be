package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/relay"
)

// A trigger of the service's may take a value for a number. What the row holds must be neither logged nor kept where people read it who may not read the table.
func TestWhatTheServerRefusesIsSaidWithoutTheRowsValues(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 1)
	exec(t, db, `UPDATE outbox_event SET payload = '{"card": "acme"}'`)
	exec(t, db, `CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN PERFORM (OLD.payload->>'card')::int; RETURN OLD; END $f$`)
	exec(t, db, `CREATE TRIGGER counts BEFORE UPDATE OF published_at OR DELETE ON outbox_event FOR EACH ROW EXECUTE FUNCTION counts()`)
	_, buried := buryOne(t.Context(), s, c, relay.DeadEvent{FailedEvent: failed(orders, refs[0], "X"), By: "relay one"})
	_, skipped := askedFor(t, db, s, c, VerbSkip, orders, refs[0])
	for what, err := range map[string]error{
		"a settle": wantUnsettled(t, s, refs, 0, refs[0]), "a burial": buried, "a request": textError(skipped),
	} {
		wantText(t, err, "22P02", "the server's log has")
		if strings.Contains(err.Error(), "acme") {
			t.Errorf("%s: %v: it repeats what the row holds", what, err)
		}
	}
}

func TestMessagesThatHoldNoValuesAreSaidAsTheyAre(t *testing.T) {
	t.Parallel()
	for code, said := range map[string]bool{"22P02": false, "22003": false, "22007": false, "22P05": false, "22001": true, "22012": true, "23514": true, "42501": true, "P0001": true} {
		refused := fmt.Errorf("mark events: %w", &pgconn.PgError{Severity: "ERROR", Code: code, Message: `the value "acme"`})
		err := withoutValues(refused)
		same(t, code+" says its message", strings.Contains(err.Error(), "acme"), said)
		wantText(t, err, "mark events: ERROR: ", code)
		if !errors.Is(err, refused) {
			t.Errorf("%s: %v is another error", code, err)
		}
	}
}
