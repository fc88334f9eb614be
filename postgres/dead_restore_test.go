package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/relay"
)

// askedFor writes down a request about an event and carries out what is open; it returns the outcome and the error.
func askedFor(t *testing.T, db *pgxpool.Pool, s *Source, c relay.Claim, verb string, key relay.Key, ref relay.Ref) (outcome, problem string) {
	t.Helper()
	id := queryOne[int64](t, db, `
INSERT INTO outbox.request (source, verb, topic, partition_key, requested_by, reason, id_of_event, event_id)
SELECT id, $1, $2, $3, 'ann', 'why not', $4, $5 FROM outbox.source RETURNING id`, verb, key.Topic, key.PartitionKey, ref.ID, ref.EventID)
	carryOutAll(t, s, c)
	outcome = queryOne[string](t, db, `SELECT coalesce(outcome, 'open') FROM outbox.request WHERE id = $1`, id)
	return outcome, queryOne[string](t, db, `SELECT coalesce(error, '') FROM outbox.request WHERE id = $1`, id)
}

func wantOutcome(t *testing.T, outcome, problem, want string, parts ...string) {
	t.Helper()
	if problem == "" {
		wantText(t, textError(outcome), append([]string{want}, parts...)...)
		return
	}
	same(t, "outcome", outcome, want)
	wantText(t, textError(problem), parts...)
}

func TestADeadEventComesBackAsItWas(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `ALTER TABLE outbox_event ADD COLUMN headers jsonb, ADD COLUMN "Größe" int GENERATED ALWAYS AS (length(topic)) STORED, ADD COLUMN tags text[]`)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	refs := insert(t, db, orders, 3)
	exec(t, db, `UPDATE outbox_event SET headers = '{"a": 1e400, "b": null}', tags = '{x,"y z",NULL}', created_at = '2020-01-01 00:00:00.123456+05' WHERE id = $1`, refs[1].ID)
	row := queryOne[string](t, db, `SELECT e::text FROM outbox_event e WHERE id = $1`, refs[1].ID)
	outcome, problem := askedFor(t, db, s, c, VerbDead, orders, refs[1])
	wantOutcome(t, outcome, problem, "dead: event "+refs[1].EventID.String())
	same(t, "code, reason, who", queryOne[[]string](t, db, `SELECT array[code, reason, died_by] FROM outbox.dead_event`), []string{"DEAD", "why not", "ann"})
	outcome, problem = askedFor(t, db, s, c, VerbRestore, orders, refs[1])
	wantOutcome(t, outcome, problem, fmt.Sprintf("restored: event %s (id %d) goes out in its place", refs[1].EventID, refs[1].ID))
	same(t, "the row", queryOne[string](t, db, `SELECT e::text FROM outbox_event e WHERE id = $1`, refs[1].ID), row)
	same(t, "dead events", queryOne[int](t, db, `SELECT count(*) FROM outbox.dead_event`), 0)
	outcome, problem = askedFor(t, db, s, c, VerbRestore, orders, refs[1])
	wantOutcome(t, outcome, problem, OutcomeAlready, "is in the table and unpublished")
	settle(t, s, refs[1:2])
	outcome, problem = askedFor(t, db, s, c, VerbRestore, orders, refs[1])
	wantOutcome(t, outcome, problem, OutcomeAlready, "is in the table and published since")
}

// The bytes of json are what consumers get, so that no restore may change them; and a JSON null is not NULL.
func TestJSONComesBackToTheByte(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `ALTER TABLE outbox_event ALTER COLUMN payload TYPE json, ADD COLUMN headers json, ADD COLUMN "it's \j" json, ADD COLUMN extra jsonb`)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	refs := insert(t, db, orders, 3)
	exec(t, db, `UPDATE outbox_event SET payload = '{ "b": 1.50,"a": "x", "a":  null }', headers = ' null', "it's \j" = '"a  b"', extra = 'null' WHERE id = $1`, refs[0].ID)
	exec(t, db, `UPDATE outbox_event SET payload = '"text"' WHERE id = $1`, refs[1].ID)
	rows := func() []string {
		return queryOne[[]string](t, db, `SELECT array(SELECT concat_ws('|', e::text, extra IS NULL, headers IS NULL) FROM outbox_event e ORDER BY id)`)
	}
	before := rows()
	for _, ref := range refs[:2] {
		askedFor(t, db, s, c, VerbDead, orders, ref)
	}
	same(t, "shown", queryOne[string](t, db, `SELECT event->'payload'->>'b' FROM outbox.dead_event WHERE id = $1`, refs[0].ID), "1.50")
	for _, ref := range refs[:2] {
		outcome, problem := askedFor(t, db, s, c, VerbRestore, orders, ref)
		wantOutcome(t, outcome, problem, "restored")
	}
	same(t, "rows", rows(), before)
	// An event that died before its texts were kept comes back, too.
	askedFor(t, db, s, c, VerbDead, orders, refs[0])
	exec(t, db, `UPDATE outbox.dead_event SET event = event - 'outbox:texts'`)
	outcome, problem := askedFor(t, db, s, c, VerbRestore, orders, refs[0])
	wantOutcome(t, outcome, problem, "restored")
	same(t, "an old one", queryOne[string](t, db, `SELECT payload::jsonb->>'b' FROM outbox_event WHERE id = $1`, refs[0].ID), "1.50")
}

// A service may have given its JSON a domain, or a domain of a domain.
func TestJSONOfADomainComesBackToTheByte(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	if _, err := db.Exec(t.Context(), `
CREATE DOMAIN written AS json; CREATE DOMAIN "Doc's" AS written CHECK (json_typeof(VALUE) <> 'number'); CREATE DOMAIN given AS jsonb NOT NULL DEFAULT '{}';
CREATE DOMAIN short AS varchar(3) NOT NULL DEFAULT 'abc';
ALTER TABLE outbox_event ALTER COLUMN payload TYPE "Doc's", ADD COLUMN headers written, ADD COLUMN extra given, ADD COLUMN loose jsonb`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	refs := insert(t, db, orders, 2)
	exec(t, db, `UPDATE outbox_event SET payload = '{ "b": 1.50,"a": "x", "a":  null }', headers = ' null', extra = 'null', loose = 'null' WHERE id = $1`, refs[0].ID)
	rows := func() []string {
		return queryOne[[]string](t, db, `SELECT array(SELECT concat_ws('|', payload, headers, headers IS NULL, extra, extra IS NULL, loose, loose IS NULL) FROM outbox_event ORDER BY id)`)
	}
	before := rows()
	for _, ref := range refs {
		askedFor(t, db, s, c, VerbDead, orders, ref)
	}
	exec(t, db, `ALTER TABLE outbox_event ADD COLUMN since short`)
	for _, ref := range refs {
		outcome, problem := askedFor(t, db, s, c, VerbRestore, orders, ref)
		wantOutcome(t, outcome, problem, "restored")
	}
	same(t, "rows", rows(), before)
	same(t, "a column that was added since", queryOne[[]string](t, db, `SELECT array(SELECT since::text FROM outbox_event)`), []string{"abc", "abc"})
}

// A JSON null is a value where the column cannot be NULL.
func TestAPayloadOfNullComesBack(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 1)
	exec(t, db, `UPDATE outbox_event SET payload = 'null'`)
	askedFor(t, db, s, c, VerbSkip, orders, refs[0])
	outcome, problem := askedFor(t, db, s, c, VerbRestore, orders, refs[0])
	wantOutcome(t, outcome, problem, "restored")
	same(t, "payload", queryOne[string](t, db, `SELECT payload::text FROM outbox_event`), "null")
}

func TestARestoreSaysWhenNewerEventsAreOut(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 2)
	other := insert(t, db, relay.Key{Topic: orders.Topic, PartitionKey: "another"}, 1)
	askedFor(t, db, s, c, VerbDead, orders, refs[0])
	settle(t, s, other)
	outcome, _ := askedFor(t, db, s, c, VerbRestore, orders, refs[0])
	same(t, "outcome before", outcome, fmt.Sprintf("restored: event %s (id %d) goes out in its place", refs[0].EventID, refs[0].ID))
	askedFor(t, db, s, c, VerbDead, orders, refs[0])
	settle(t, s, refs[1:])
	outcome, _ = askedFor(t, db, s, c, VerbRestore, orders, refs[0])
	wantText(t, textError(outcome), " goes out behind newer events of its key, which are published already")
	if strings.Contains(outcome, "in its place") {
		t.Errorf("the outcome contradicts itself: %s", outcome)
	}
}

// What was settled by deleting, or is pruned, is published all the same.
func TestARestoreDoesNotPromiseThePlaceOfWhatMayBeOvertaken(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 2)
	askedFor(t, db, s, c, VerbDead, orders, refs[0])
	settle(t, s, refs[1:])
	exec(t, db, `DELETE FROM outbox_event`)
	outcome, _ := askedFor(t, db, s, c, VerbRestore, orders, refs[0])
	wantText(t, textError(outcome), "not known: settled rows of its key may have been deleted")
	if strings.Contains(outcome, "in its place") {
		t.Errorf("the outcome promises a place: %s", outcome)
	}
}

func TestARestoredEventOfAParkedKeyWaits(t *testing.T) {
	t.Parallel()
	db, s, c, refs := stopped(t)
	askedFor(t, db, s, c, VerbDead, orders, refs[1])
	outcome, problem := askedFor(t, db, s, c, VerbRestore, orders, refs[1])
	wantOutcome(t, outcome, problem, "waits in its place until its key, which is parked at event "+refs[0].EventID.String())
	same(t, "parked keys", len(parkedKeys(t, s)), 1)
}

func TestWhatCannotBeRestoredSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  string
		outcome string
		parts   []string
	}{
		"a column is gone":              {`ALTER TABLE outbox_event DROP COLUMN tenant`, OutcomeRefused, []string{"columns that the table does not have any more: tenant"}},
		"a column is new and required":  {`ALTER TABLE outbox_event ADD COLUMN "Shop" text NOT NULL`, OutcomeRefused, []string{`older than column "Shop"`, `ALTER COLUMN "Shop" SET DEFAULT`}},
		"a column is new with default":  {`ALTER TABLE outbox_event ADD COLUMN shop text NOT NULL DEFAULT 'x'`, "restored", nil},
		"a column got another type":     {`ALTER TABLE outbox_event ALTER COLUMN tenant DROP DEFAULT, ALTER COLUMN tenant TYPE int USING 1`, OutcomeRefused, []string{`column "tenant" (integer)`, "22P02", "correct outbox.dead_event.event"}},
		"the id was given again":        {`UPDATE outbox_event SET id = DEFAULT WHERE false; INSERT INTO outbox_event OVERRIDING SYSTEM VALUE SELECT (jsonb_populate_record(NULL::outbox_event, event || jsonb_build_object('event_id', gen_random_uuid()))).* FROM outbox.dead_event`, OutcomeRefused, []string{"the table has a row with id 1", "there stands event ", "(id 1) of topic " + orders.Topic + ", unpublished"}},
		"the event was written again":   {`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, tenant) SELECT event_id, 'a', 'a', 'a', '{}', topic, partition_key, 'x' FROM outbox.dead_event`, OutcomeRefused, []string{"outbox_event_event_id_key", "UNIQUE (event_id)", ". In its place stands event ", "(id 2) of topic " + orders.Topic + ", unpublished", "(SQLSTATE 23505)"}},
		"a constraint refuses it":       {`ALTER TABLE outbox_event ADD CONSTRAINT small CHECK (length(tenant) < 3) NOT VALID`, OutcomeRefused, []string{`check constraint "small"`, "CHECK ((length(tenant) < 3))"}},
		"a row it points to is gone":    {`CREATE TABLE tenant (name text PRIMARY KEY); ALTER TABLE outbox_event ADD FOREIGN KEY (tenant) REFERENCES tenant`, OutcomeRefused, []string{"FOREIGN KEY (tenant) REFERENCES tenant(name)", "is not there"}},
		"a value is missing now":        {`ALTER TABLE outbox_event ALTER COLUMN tenant DROP NOT NULL; UPDATE outbox.dead_event SET event = event || '{"tenant": null}'; ALTER TABLE outbox_event ALTER COLUMN tenant SET NOT NULL`, OutcomeRefused, []string{`give column "tenant" a value`}},
		"a unique index refuses it":     {`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key) VALUES (gen_random_uuid(), 'a', 'a', 'a', '{}', 't', 'k'); CREATE UNIQUE INDEX "one tenant" ON outbox_event (tenant)`, OutcomeRefused, []string{`CREATE UNIQUE INDEX "one tenant"`}},
		"a trigger makes an int of it":  {`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM NEW.tenant::int; RETURN NEW; END $$; CREATE TRIGGER no BEFORE INSERT ON outbox_event FOR EACH ROW EXECUTE FUNCTION no()`, OutcomeRefused, []string{"a value is refused, which the server's log has", "22P02"}},
		"a trigger says no":             {`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no more of these'; END $$; CREATE TRIGGER no BEFORE INSERT ON outbox_event FOR EACH ROW EXECUTE FUNCTION no()`, OutcomeRefused, []string{"no more of these", "PL/pgSQL function no()"}},
		"a trigger keeps the row out":   {`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; CREATE TRIGGER no BEFORE INSERT ON outbox_event FOR EACH ROW EXECUTE FUNCTION no()`, OutcomeRefused, []string{"a trigger, or row-level security, lets no INSERT through"}},
		"the dead event is gone, too":   {`DELETE FROM outbox.dead_event`, OutcomeNotFound, []string{"neither in the table nor among the dead ones"}},
		"the request is of another key": {`UPDATE outbox.dead_event SET partition_key = 'another'`, OutcomeRefused, []string{"of another topic or partition key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			exec(t, db, `ALTER TABLE outbox_event ADD COLUMN tenant text NOT NULL DEFAULT 'acme'`)
			s := openSource(t, db, Config{})
			mine := claim(t, s, owner("a"))
			refs := insert(t, db, orders, 1)
			askedFor(t, db, s, mine, VerbDead, orders, refs[0])
			if _, err := db.Exec(t.Context(), c.change, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
			outcome, problem := askedFor(t, db, s, mine, VerbRestore, orders, refs[0])
			wantOutcome(t, outcome, problem, c.outcome, c.parts...)
			if strings.Contains(problem, "acme") {
				t.Errorf("%s: it repeats what the row holds", problem)
			}
			back := 0
			if c.outcome == "restored" {
				back = 1
			}
			same(t, "the event is back", queryOne[int](t, db, `SELECT count(*) FROM outbox_event WHERE id = $1 AND event_id = $2`, refs[0].ID, refs[0].EventID), back)
		})
	}
}

func TestOneThatCannotBeRestoredKeepsNoOther(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `ALTER TABLE outbox_event ADD COLUMN tenant text NOT NULL DEFAULT '1'`)
	parkMany(t, db, 50, VerbDead, true)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	carryOutAll(t, s, c)
	exec(t, db, `UPDATE outbox.dead_event SET event = event || '{"tenant": "acme"}' WHERE id IN (3, 40)`)
	exec(t, db, `ALTER TABLE outbox_event ALTER COLUMN tenant DROP DEFAULT, ALTER COLUMN tenant TYPE int USING 1`)
	exec(t, db, `INSERT INTO outbox.request (source, verb, topic, partition_key, id_of_event, event_id, requested_by)
SELECT source, 'restore', topic, partition_key, id, event_id, 'ann' FROM outbox.dead_event ORDER BY id`)
	done, released, _ := carryOutAll(t, s, c)
	same(t, "done and released", []int{done, released}, []int{50, 0})
	same(t, "refused", queryOne[[]int64](t, db, `SELECT array(SELECT id_of_event FROM outbox.request WHERE outcome = 'refused' ORDER BY id)`), []int64{3, 40})
	same(t, "dead events", queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox.dead_event ORDER BY id)`), []int64{3, 40})
	same(t, "events", queryOne[int](t, db, `SELECT count(*) FROM outbox_event`), 48)
}

func TestWhatBecomesOfSingleEvents(t *testing.T) {
	t.Parallel()
	db, s, c, refs := stopped(t)
	free := relay.Key{Topic: "b", PartitionKey: "x"}
	idle := insert(t, db, free, 2)
	unknown := relay.Ref{ID: 4711, EventID: refs[0].EventID}
	for _, step := range []struct {
		verb  string
		key   relay.Key
		ref   relay.Ref
		want  string
		parts []string
	}{
		{VerbRetry, orders, refs[1], OutcomeRefused, []string{"it waits behind event " + refs[0].EventID.String()}},
		{VerbRetry, free, idle[0], OutcomeRefused, []string{"has not failed"}},
		{VerbRetry, orders, unknown, OutcomeNotFound, []string{"4711"}},
		{VerbSkip, free, refs[0], OutcomeRefused, []string{"of another topic or partition key"}},
		{VerbSkip, orders, refs[1], "skipped: event " + refs[1].EventID.String(), nil},
		{VerbSkip, orders, refs[1], OutcomeAlready, []string{"among the dead ones"}},
		{VerbRetry, orders, refs[1], OutcomeRefused, []string{"restore it"}},
		{VerbRetry, orders, refs[0], "retried: its key goes on with it", nil},
		{VerbDead, free, idle[0], "dead: event " + idle[0].EventID.String(), nil},
		{VerbRestore, orders, unknown, OutcomeNotFound, []string{"4711"}},
		{VerbSkip, free, relay.Ref{ID: idle[1].ID}, OutcomeNotFound, nil},
	} {
		outcome, problem := askedFor(t, db, s, c, step.verb, step.key, step.ref)
		wantOutcome(t, outcome, problem, step.want, step.parts...)
	}
	same(t, "parked keys", parkedKeys(t, s), nil)
	for _, keeps := range []struct{ sql, want string }{
		{`SELECT`, "it waits for its turn"},
		{`INSERT INTO outbox.held_topic (source, owner, topic, code, reason) SELECT r.source, r.owner, 'b', 'UNKNOWN_TOPIC_OR_PARTITION', 'create it' FROM outbox.relay r`,
			"a can publish nothing to its topic (UNKNOWN_TOPIC_OR_PARTITION: create it); when that is mended it goes out by itself"},
		{`INSERT INTO outbox.pause (source, scope, topic, paused_by) SELECT id, 'topic', 'b', 'ann' FROM outbox.source`, "its topic is paused by ann; outbox resume lets it go on"},
		{`WITH gone AS (DELETE FROM outbox.pause) UPDATE outbox.relay SET expires_at = clock_timestamp()`, "no relay is alive to publish it"},
	} {
		exec(t, db, keeps.sql)
		outcome, problem := askedFor(t, db, s, c, VerbRetry, free, idle[1])
		wantOutcome(t, outcome, problem, OutcomeRefused, "has not failed: "+keeps.want)
	}
	settle(t, s, idle[1:])
	outcome, problem := askedFor(t, db, s, c, VerbSkip, free, idle[1])
	wantOutcome(t, outcome, problem, OutcomeRefused, "is published since")
	outcome, problem = askedFor(t, db, s, c, VerbRetry, free, idle[1])
	wantOutcome(t, outcome, problem, OutcomeAlready, "is published since")
}

// An event that waits for its next attempt is due at once, and its attempts go with it when it dies.
func TestRetryMakesAWaitingEventDue(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 1)
	exec(t, db, `INSERT INTO outbox.failure (source, id, event_id, topic, partition_key, lane, attempts, next_attempt_at)
SELECT id, $1, $2, $3, $4, 0, 3, clock_timestamp() + interval '1 hour' FROM outbox.source`, refs[0].ID, refs[0].EventID, orders.Topic, orders.PartitionKey)
	outcome, problem := askedFor(t, db, s, c, VerbRetry, orders, refs[0])
	wantOutcome(t, outcome, problem, "retried: it is tried again now")
	same(t, "due", queryOne[bool](t, db, `SELECT next_attempt_at <= clock_timestamp() FROM outbox.failure`), true)
	exec(t, db, `UPDATE outbox.failure SET next_attempt_at = clock_timestamp() + interval '1 hour'`)
	exec(t, db, `
INSERT INTO outbox.request (source, verb, topic, partition_key, requested_by, reason, id_of_event, event_id)
SELECT id, $1, $2, $3, 'ann', 'why not', $4, $5 FROM outbox.source`, VerbDead, orders.Topic, orders.PartitionKey, refs[0].ID, refs[0].EventID)
	done, err := s.Requests(t.Context(), c, allReady)
	if err != nil || !slices.Equal(done.Released, []relay.Key{orders}) {
		t.Errorf("released %v, %v: want the key, which waited for the event", done.Released, err)
	}
	same(t, "attempts", queryOne[int](t, db, `SELECT attempts FROM outbox.dead_event`), 3)
	same(t, "records of attempts", queryOne[int](t, db, `SELECT count(*) FROM outbox.failure`), 0)
}
