package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/operate"
)

// event looks at one event as an operator.
func (d *desk) show(ref operate.Ref) operate.EventDetail {
	d.Helper()
	e, err := d.service().Event(d.Context(), operate.Actor{Name: "ann", Role: operate.Operator}, ref)
	if err != nil {
		d.Fatalf("show %s: %v", ref, err)
	}
	return e
}

// why are the codes of an event's reasons.
func (d *desk) why(id int64) []operate.ReasonCode {
	d.Helper()
	var codes []operate.ReasonCode
	for _, r := range d.show(operate.Ref{ID: id}).Why {
		codes = append(codes, r.Code)
	}
	return codes
}

func TestAnEventSaysWhyItDoesNotMove(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	type codes = []operate.ReasonCode
	same(t, "parked, no relay", d.why(3), codes{operate.ReasonParked, operate.ReasonNoRelay})
	wantNobody := func(texts ...string) {
		t.Helper()
		r := d.show(operate.Ref{ID: 9}).Why[0]
		wantText(t, errors.New(r.Text), texts...)
		same(t, "since, which nobody knows", r.Since.IsZero(), true)
	}
	wantNobody("no relay is alive: start one", "one that stops cleanly leaves no trace")
	owner := d.relay("shop-1")
	for id, want := range map[int64]codes{
		1: {operate.ReasonPublished},
		3: {operate.ReasonParked},
		4: {operate.ReasonBehindParked},
		5: {operate.ReasonQueued},
		6: {operate.ReasonNextAttempt},
		7: {operate.ReasonNextAttempt},
		8: {operate.ReasonDead},
	} {
		same(t, fmt.Sprint("event ", id), d.why(id), want)
	}
	r := d.show(operate.Ref{ID: 4}).Why[0]
	same(t, "the blocking event", *r.Event, operate.Ref{ID: 3, EventID: eventID(3)})
	same(t, "its text and time", []bool{strings.Contains(r.Text, "by event 3 (MESSAGE_TOO_LARGE: the record has 9000 bytes)"), r.Since.IsZero()}, []bool{true, false})
	same(t, "the one that is tried again", []*operate.Ref{d.show(operate.Ref{ID: 6}).Why[0].Event, d.show(operate.Ref{ID: 7}).Why[0].Event}, []*operate.Ref{nil, {ID: 6, EventID: eventID(6)}})
	wantText(t, errors.New(d.show(operate.Ref{ID: 3}).Why[0].Text), "outbox keys unpark --topic "+order+" --key ")
	d.exec(`UPDATE outbox_event SET partition_key = 'elsewhere' WHERE id = 3`)
	wantText(t, errors.New(d.show(operate.Ref{ID: 4}).Why[0].Text), "by event 3, which does not wait under this key any more: outbox keys unpark --topic ")
	d.exec(`UPDATE outbox_event SET partition_key = (SELECT partition_key FROM outbox_event WHERE id = 4) WHERE id = 3`)
	wantText(t, errors.New(d.show(operate.Ref{ID: 6}).Why[0].Text), "after 3 attempts (")
	d.exec(`UPDATE outbox.failure SET attempts = 1`)
	wantText(t, errors.New(d.show(operate.Ref{ID: 7}).Why[0].Text), "after 1 attempt (")
	same(t, "the owner of the lane", d.show(operate.Ref{ID: 5}).LaneOwner, "shop-1")

	d.exec(`INSERT INTO outbox.held_topic (source, owner, topic, code, reason) VALUES ($1, $2, $3, 'UNKNOWN_TOPIC_OR_PARTITION', 'create it')`, d.id, owner, invoice)
	d.exec(`INSERT INTO outbox.pause (source, scope, paused_by) VALUES ($1, 'source', 'ann')`, d.id)
	d.exec(`INSERT INTO outbox.pause (source, scope, topic, paused_by, reason) VALUES ($1, 'topic', $2, 'bob', 'not now')`, d.id, invoice)
	d.exec(`INSERT INTO outbox.pause (source, scope, topic, key_hash, partition_key, paused_by) VALUES ($1, 'key', $2, $3, 'd', 'eve')`, d.id, invoice, pg.KeyHash(relayKey(invoice, "d")))
	d.exec(`INSERT INTO outbox.request (source, verb, topic, partition_key, requested_by) VALUES ($1, 'skip', $2, 'd', 'dan')`, d.id, invoice)
	d.exec(`UPDATE outbox.relay SET started_at = now() - interval '1 h', proved_at = now() - interval '10 min'`)
	for _, c := range d.why(9) {
		if c == operate.ReasonOutage {
			t.Error("a relay that had nothing to ask for a while is said not to be answered")
		}
	}
	d.exec(`UPDATE outbox.relay SET silent_since = now() - interval '10 min'`)
	var said []string
	for _, r := range d.show(operate.Ref{ID: 9}).Why {
		said = append(said, fmt.Sprintf("%s by %s", r.Code, r.By))
	}
	same(t, "all at once", said, []string{
		"paused by ann", "paused by bob", "paused by eve", "topic_held by shop-1", "outage by shop-1", "requested by dan",
	})

	d.exec(`UPDATE outbox.relay SET expires_at = now()`)
	d.exec(`UPDATE outbox.lane SET expires_at = now()`)
	d.exec(`DELETE FROM outbox.pause`)
	d.exec(`DELETE FROM outbox.request`)
	same(t, "a dead relay holds nothing", d.why(9), codes{operate.ReasonNoRelay})
	wantNobody("no relay is alive: start one", "shop-1 was last seen at 20", "ended without a word")
	d.exec(`UPDATE outbox.relay SET expires_at = now() + interval '1 h'`)
	same(t, "a free lane", d.why(9), codes{operate.ReasonTopicHeld, operate.ReasonLaneFree})
	wantFree := func(text string) {
		t.Helper()
		why := d.show(operate.Ref{ID: 9}).Why
		wantText(t, errors.New(why[len(why)-1].Text), text)
		kept := d.events(operate.EventQuery{EventFilter: operate.EventFilter{Refs: []operate.Ref{{ID: 5}}}}).Events[0].Kept
		if kept == nil || kept.Code != operate.ReasonLaneFree || !strings.Contains(kept.Text, text) {
			t.Errorf("in a list event 5 is kept by %+v, want that %s", kept, text)
		}
	}
	wantFree("one that is alive will take it")
	d.exec(`UPDATE outbox.relay SET standing = 0`)
	wantFree("1 alive, and none of them works")
	d.exec(`INSERT INTO outbox.relay (source, owner, name, version, standing, expires_at) VALUES ($1, $2, 'shop-2', '1', 1, now() + interval '1 h')`, d.id, uuid.New())
	wantFree("one that is alive will take it")
	d.exec(`UPDATE outbox.relay SET mode = 'competing'`)
	d.exec(`DELETE FROM outbox.held_topic`)
	same(t, "competing relays", d.why(9), codes{operate.ReasonQueued})
}

func TestAnOpenWriterIsNamed(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	d.exec(`SELECT setval('outbox_event_id_seq', 20)`)
	d.relay("shop-1")
	conn, err := d.db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Rollback(tx)
	if _, err := tx.Exec(t.Context(), insertSQL, eventID(50), "k"); err != nil {
		t.Fatal(err)
	}
	pid := int32(conn.Conn().PgConn().PID())
	_, err = d.store.Event(t.Context(), lookTime, operate.Ref{EventID: eventID(50)})
	same(t, "code", operate.CodeOf(err), operate.CodeNotFound)
	wantText(t, err, "its transaction is still open", fmt.Sprintf("pid %d", pid), "idle in transaction", "open since")
	// An event that was written after the transaction began shows it, too.
	d.event(10, order, "later", "NULL")
	e := d.show(operate.Ref{ID: 10})
	last := e.Why[len(e.Why)-1]
	same(t, "reason", last.Code, operate.ReasonOpenWriter)
	same(t, "writer", []any{last.Writer.PID, last.Writer.State, last.Writer.Began.IsZero(), last.Writer.QueryAt.IsZero()}, []any{pid, "idle in transaction", false, false})
	same(t, "an older event", d.why(9), []operate.ReasonCode{operate.ReasonQueued})
}

// An event that has failed, and that a policy gives up, hangs in the relay while its row is locked. The database knows by whom.
func TestAnEventSaysWhoHasItsRowLocked(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	d.relay("shop-1")
	why := d.show(operate.Ref{ID: 5}).Why
	same(t, "reasons while it is free", len(why), 1)
	wantText(t, errors.New(why[0].Text), "nothing that the database knows keeps it", "shop-1 has its lane", "has not yet decided what becomes of it after a failure")
	conn, err := d.db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Rollback(tx)
	if _, err := tx.Exec(t.Context(), `SELECT FROM outbox_event WHERE id = 5 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	why = d.show(operate.Ref{ID: 5}).Why
	same(t, "reasons", len(why), 1)
	same(t, "code", why[0].Code, operate.ReasonRowLocked)
	pid := int32(conn.Conn().PgConn().PID())
	wantText(t, errors.New(why[0].Text), "its row is locked", fmt.Sprintf("pid %d", pid), "idle in transaction", "open since")
	same(t, "who and since when", []any{why[0].Writer.PID, why[0].Since.IsZero()}, []any{pid, false})
	pg.Rollback(tx)
	same(t, "when it is free again", d.why(5), []operate.ReasonCode{operate.ReasonQueued})
}

func TestAnEventIsShownWhole(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	d.exec(`ALTER TABLE outbox_event ADD COLUMN headers jsonb, ADD COLUMN "my tenant" text`)
	d.exec(`UPDATE outbox_event SET payload = '{"id": 9007199254740993, "x": 1.50}', headers = '{"trace": "abc"}', "my tenant" = 'blue' WHERE id IN (5, 9)`)
	d.die(9, "nobody wants it")
	for _, id := range []int64{5, 9} {
		e := d.show(operate.Ref{ID: id})
		same(t, "payload", string(e.Payload), `{"x": 1.50, "id": 9007199254740993}`)
		same(t, "headers", string(e.Headers), `{"trace": "abc"}`)
		if len(e.Extra) != 1 || e.Extra[0].Name != "my tenant" || *e.Extra[0].Value != "blue" {
			t.Errorf("other columns = %+v", e.Extra)
		}
		same(t, "by its event id", d.show(operate.Ref{EventID: eventID(id)}).ID, id)
	}
	same(t, "who gave it up", d.show(operate.Ref{ID: 9}).DiedBy, "ann")
	f := d.show(operate.Ref{ID: 6}).Failures
	same(t, "failures", []any{f.Attempts, f.FirstError, f.LastError}, []any{3, "the first error", "the last error"})
	e, err := d.service().Event(t.Context(), operate.Actor{Name: "eve"}, operate.Ref{ID: 5})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what a viewer sees", []any{e.ID, e.Withheld, e.Payload, e.Headers, e.Extra}, []any{int64(5), true, operate.Text(nil), operate.Text(nil), []operate.Column(nil)})
}

func TestAnEventWhoseIDWasIssuedTwiceHasANote(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	d.die(9, "given up")
	d.exec(`INSERT INTO outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
OVERRIDING SYSTEM VALUE VALUES (9, $1, 'Order', '1', 'order.placed.v1', '{}', $2, 'd')`, eventID(109), invoice)
	e := d.show(operate.Ref{ID: 9})
	same(t, "the one in the table", []any{e.EventID, e.State}, []any{eventID(109), operate.StatePending})
	if len(e.Notes) != 1 || !strings.Contains(e.Notes[0], eventID(9).String()) {
		t.Errorf("notes = %v, want the dead one", e.Notes)
	}
	same(t, "the dead one by its event id", d.show(operate.Ref{EventID: eventID(9)}).State, operate.StateDead)
	same(t, "both, one a page", listed(first(d.all(operate.EventQuery{EventFilter: operate.EventFilter{MinID: 8}, Limit: 1}))), []int64{9, 9, 8})
	same(t, "both, the oldest first", listed(first(d.all(operate.EventQuery{EventFilter: operate.EventFilter{MinID: 8}, Limit: 1, Order: operate.OldestFirst}))), []int64{8, 9, 9})
}

func TestADeadEventSaysWhereItWasSent(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	d.exec(`UPDATE outbox.dead_event SET letter_topic = 'dead.orders', letter_partition = 2, letter_offset = 41 WHERE id = 8`)
	e, offset := d.show(operate.Ref{ID: 8}), int64(41)
	same(t, "letter", e.Letter, &operate.Letter{Topic: "dead.orders", Partition: 2, Offset: &offset})
	same(t, "notes", e.Notes, []string{"it was sent to the dead-letter topic dead.orders, partition 2, offset 41"})
	d.exec(`UPDATE outbox.dead_event SET letter_offset = NULL`)
	same(t, "notes without an offset", d.show(operate.Ref{ID: 8}).Notes, []string{"it was sent to the dead-letter topic dead.orders, partition 2"})
	found, _, err := d.store.Find(t.Context(), []operate.Ref{{ID: 8}, {ID: 9}})
	if err != nil || len(found) != 2 || found[0].Letter+found[1].Letter != "dead.orders" {
		t.Errorf("found %+v, %v", found, err)
	}
}

func first(events []operate.Event, _ int) []operate.Event { return events }

// Tables that others made may have other types, and lack what is not needed to publish.
func TestLooksBearATableThatIsLooser(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`ALTER TABLE outbox_event DROP COLUMN aggregate_type, DROP COLUMN aggregate_id, ALTER COLUMN topic TYPE varchar(99), ALTER COLUMN event_id DROP NOT NULL, ALTER COLUMN payload DROP NOT NULL`)
	d.exec(`INSERT INTO outbox_event (event_id, event_type, payload, topic, partition_key, created_at) VALUES (NULL, 'a', NULL, 't', 'k', 'infinity'), ($1, 'a', '{}', 't', 'k', '0044-03-15 BC')`, eventID(2))
	got := d.events(operate.EventQuery{})
	same(t, "events", listed(got.Events), []int64{2, 1})
	same(t, "times that no clock shows", []bool{got.Events[0].CreatedAt.IsZero(), got.Events[1].CreatedAt.IsZero()}, []bool{true, true})
	same(t, "by a missing column", len(d.events(operate.EventQuery{EventFilter: operate.EventFilter{AggregateID: some("1")}}).Events), 0)
	e := d.show(operate.Ref{ID: 1})
	same(t, "event id, payload", []any{e.EventID, e.Payload}, []any{uuid.Nil, operate.Text(nil)})
	if len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "payload is NULL") {
		t.Errorf("notes = %v", e.Notes)
	}
	same(t, "topics", len(d.topics().Topics), 1)
}

// A jsonb of some 90 kB can hold numbers whose text PostgreSQL cannot print.
func TestAnEventThatCannotBePrintedIsShownWithoutItsPayload(t *testing.T) {
	t.Parallel()
	d := mixed(t)
	d.exec(`UPDATE outbox_event SET payload = (SELECT jsonb_object_agg(i, ('1e' || 130000)::numeric) FROM generate_series(1, 9000) i) WHERE id = 5`)
	e := d.show(operate.Ref{ID: 5})
	same(t, "payload", e.Payload, operate.Text(nil))
	same(t, "has a note", len(e.Notes) > 0, true)
}

func TestLooksWorkInADatabaseOfAnotherEncoding(t *testing.T) {
	t.Parallel()
	test := pgtest.New(t, pgtest.Encoded("LATIN1"))
	cfg, err := pgxpool.ParseConfig(test.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.AfterConnect = pg.AsUTF8
	db, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	d := deskOn(t, test, db)
	d.event(1, order, "Köln", "NULL")
	d.event(2, order, "Köln", "NULL")
	d.park(1, order, "Köln", "größer")
	same(t, "waiting", listed(d.events(operate.EventQuery{EventFilter: operate.EventFilter{State: operate.StateWaiting, PartitionKey: some("Köln")}}).Events), []int64{2})
	same(t, "error", listed(d.events(operate.EventQuery{EventFilter: operate.EventFilter{Error: "größer"}}).Events), []int64{1})
	_, err = d.service().Events(t.Context(), operate.Actor{}, operate.EventQuery{EventFilter: operate.EventFilter{Topic: some("日本")}})
	same(t, "a text that this database cannot have", operate.CodeOf(err), operate.CodeInvalid)
}
