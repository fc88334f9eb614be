package migrate_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

const insufficientPrivilege = "42501"

// asRole gives the role what grants prints, and returns a connection with the rights of the role.
func asRole(t *testing.T, config migrate.Config, prepare string, grants func(migrate.Config, string) (string, error)) (*pgx.Conn, migrate.Result) {
	t.Helper()
	db := pgtest.New(t, pgtest.Empty)
	admin := db.Conn(t)
	r := mustUp(t, admin, config)
	mustExec(t, admin, prepare)
	role := makeRole(t, db, admin)
	sql, err := grants(config, role)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, admin, sql)
	mustExec(t, admin, insertInto(r))
	return connectAs(t, db, role), r
}

func insertInto(r migrate.Result) string {
	return `INSERT INTO ` + r.Table.SQL() + ` (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		VALUES (gen_random_uuid(), 'Order', '1', 'order.confirmed.v1', '{}', 't', '1')`
}

func allowed(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func forbidden(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := c.Exec(t.Context(), sql); sqlState(err) != insufficientPrivilege {
			t.Errorf("%s: want permission denied, got %v", sql, err)
		}
	}
}

func TestTheRelaysRightsAreEnoughAndNoMore(t *testing.T) {
	t.Parallel()
	config := migrate.Config{Table: `"Order-Svc"."it's $do$"`}
	c, r := asRole(t, config, "SELECT 1", migrate.Grants)
	table, source := r.Table.SQL(), "(SELECT id FROM outbox.source)"
	sequence := scan[string](t, c, "SELECT pg_get_serial_sequence($1, 'id')", table)
	name := scan[string](t, c, "SELECT quote_literal($1::text)", sequence)
	allowed(t, c,
		"SELECT * FROM "+table,
		"UPDATE "+table+" t SET published_at = now() FROM unnest('{1}'::bigint[]) a(id) WHERE t.id = a.id AND t.published_at IS NULL",
		"SELECT last_value, is_called FROM "+sequence,
		"SELECT * FROM pg_locks",
		"SELECT * FROM outbox.migration",
		"UPDATE outbox.source SET first_published_at = now() WHERE first_published_at IS NULL",
		"SELECT * FROM outbox.lane ORDER BY lane FOR UPDATE",
		"UPDATE outbox.lane SET epoch = epoch + 1",
		"SELECT lanes FROM outbox.source FOR KEY SHARE",
		"INSERT INTO outbox.relay (source, owner, name, version, expires_at) SELECT "+source+", gen_random_uuid(), 'n', 'v', now()",
		"UPDATE outbox.relay SET seen_at = now()",
		`INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
			SELECT `+source+`, 't', '\x00', 'k', 0, 1, gen_random_uuid(), 'x', 'c', 'r' ON CONFLICT (source, key_hash) DO UPDATE SET reason = ''`,
		"DELETE FROM outbox.parked_key",
		`WITH me AS (SELECT source, owner FROM outbox.relay FOR KEY SHARE)
			INSERT INTO outbox.held_topic (source, owner, topic, code, reason) SELECT source, owner, 't', 'c', 'r' FROM me
			ON CONFLICT (source, owner, topic) DO UPDATE SET reason = EXCLUDED.reason`,
		"DELETE FROM outbox.held_topic",
		"DELETE FROM outbox.relay",
		"SELECT * FROM outbox.request WHERE done_at IS NULL FOR UPDATE",
		"UPDATE outbox.request SET done_at = now(), outcome = 'done', error = NULL",
		`INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, died_by)
			SELECT `+source+`, 1, gen_random_uuid(), 't', 'k', 0, '{}', 'c', 'r', 'me' ON CONFLICT (source, id, event_id) DO UPDATE SET reason = ''`,
	)
	forbidden(t, c,
		insertInto(r),
		"DELETE FROM "+table,
		"UPDATE "+table+" SET payload = '{}'",
		"TRUNCATE "+table,
		"SELECT setval("+name+", 1)",
		"SELECT nextval("+name+")",
		"CREATE TABLE outbox.x ()",
		`CREATE TABLE "Order-Svc".x ()`,
		"UPDATE outbox.source SET lanes = 3",
		"DELETE FROM outbox.source",
		"INSERT INTO outbox.lane (source, lane) SELECT "+source+", 100",
		"UPDATE outbox.migration SET checksum = ''",
		"UPDATE outbox.request SET verb = 'x'",
	)
	st, err := migrate.GetStatus(t.Context(), c, config)
	if err != nil || st.Err() != nil {
		t.Errorf("the relay's look at the start: %v, %v", err, st.Err())
	}
}

func TestAnOperatorMayDoWhatARelayDoesAndWriteRequests(t *testing.T) {
	t.Parallel()
	c, r := asRole(t, migrate.Config{}, "SELECT 1", migrate.GrantsOperator)
	allowed(t, c,
		`INSERT INTO outbox.request (source, verb, topic, partition_key, requested_by) SELECT id, 'resume', 't', 'k', 'me' FROM outbox.source`,
		"SELECT * FROM outbox.held_topic",
		"DELETE FROM outbox.parked_key",
		"UPDATE "+r.Table.SQL()+" SET published_at = now()",
	)
	forbidden(t, c, insertInto(r), "DELETE FROM outbox.request", "UPDATE outbox.source SET lanes = 3")
	sql, err := migrate.GrantsOperator(migrate.Config{}, "ann")
	if first, _, _ := strings.Cut(sql, "\n"); err != nil || first != `-- What an operator of public.outbox_event needs, for role "ann".` {
		t.Errorf("the first line is %q, %v", first, err)
	}
	if strings.Contains(sql, "relay of") {
		t.Errorf("it speaks of a relay:\n%s", sql)
	}
}

func TestTheRelayMayDeleteOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	c, r := asRole(t, migrate.Config{Delete: true}, "SELECT 1", migrate.Grants)
	allowed(t, c, "DELETE FROM "+r.Table.SQL()+" WHERE published_at IS NULL")
	forbidden(t, c, insertInto(r), "TRUNCATE "+r.Table.SQL())
}

// Dead events come back by the role of the relay that is alive, or by the operator's when there is none.
func TestARelayAndAnOperatorMayPutEventsBackOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	for name, grants := range map[string]func(migrate.Config, string) (string, error){"relay": migrate.Grants, "operator": migrate.GrantsOperator} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := asRole(t, migrate.Config{Restore: true}, "SELECT 1", grants)
			table := r.Table.SQL()
			allowed(t, c, `INSERT INTO `+table+` (id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key) OVERRIDING SYSTEM VALUE
SELECT 77, gen_random_uuid(), 'A', '1', 'x', '{}', 't', 'k'`, "DELETE FROM outbox.dead_event")
			forbidden(t, c, "DELETE FROM "+table, "TRUNCATE "+table)
		})
	}
}

func TestAWriterMayInsertAndNotReadOthers(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]string{
		"identity":            "SELECT 1",
		"serial":              serial + "; ALTER SEQUENCE s OWNED BY outbox_event.id",
		"sequence of its own": serial,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := asRole(t, migrate.Config{}, prepare, migrate.GrantsWriter)
			table := r.Table.SQL()
			allowed(t, c, insertInto(r), insertInto(r)+" RETURNING id, created_at, published_at")
			forbidden(t, c, "SELECT payload FROM "+table, "UPDATE "+table+" SET published_at = now()", "DELETE FROM "+table, "SELECT * FROM outbox.source")
		})
	}
}

func TestTheRelayMayReadAnySequenceOfTheTable(t *testing.T) {
	t.Parallel()
	c, _ := asRole(t, migrate.Config{}, serial, migrate.Grants)
	allowed(t, c, "SELECT last_value FROM s")
	forbidden(t, c, "SELECT nextval('s')")
}

func TestRolesOfAnyNameAreQuoted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := db.Conn(t)
	role := "it's \"a\" $do$\n; SELECT 1/0; -- " + db.Name
	quoted := pgx.Identifier{role}.Sanitize()
	mustExec(t, c, "CREATE ROLE "+quoted)
	defer mustExec(t, c, "DROP OWNED BY "+quoted+"; DROP ROLE "+quoted)
	for _, grants := range []func(migrate.Config, string) (string, error){migrate.Grants, migrate.GrantsWriter} {
		sql, err := grants(migrate.Config{}, role)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, c, sql)
	}
	if _, err := migrate.Grants(migrate.Config{}, ""); err == nil {
		t.Error("an empty role was accepted")
	}
}

func TestAViewerReadsEveryTableAndChangesNone(t *testing.T) {
	t.Parallel()
	config := migrate.Config{Table: `"Order-Svc"."it's $do$"`}
	c, r := asRole(t, config, "SELECT 1", migrate.GrantsViewer)
	table := r.Table.SQL()
	unread := scan[[]string](t, c, `SELECT array(SELECT tablename::text FROM pg_tables WHERE schemaname = 'outbox' AND NOT has_table_privilege(schemaname || '.' || tablename, 'SELECT'))`)
	if len(unread) > 0 {
		t.Errorf("it cannot read %q", unread)
	}
	changed := scan[[]string](t, c, `SELECT array(SELECT tablename::text FROM pg_tables WHERE schemaname = 'outbox' AND has_table_privilege(schemaname || '.' || tablename, 'INSERT, UPDATE, DELETE, TRUNCATE'))`)
	if len(changed) > 0 {
		t.Errorf("it can change %q", changed)
	}
	allowed(t, c, "SELECT payload FROM "+table)
	forbidden(t, c, insertInto(r), "UPDATE "+table+" SET published_at = now()", "DELETE FROM "+table)
}

func TestAnOwnerMigratesADatabaseThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"public.outbox_event", `"Order-Svc"."it's $do$"`} {
		config := migrate.Config{Table: table}
		db := pgtest.New(t, pgtest.Empty)
		admin := db.Conn(t)
		role := makeRole(t, db, admin)
		if _, err := migrate.Up(t.Context(), connectAs(t, db, role), config); err == nil {
			t.Errorf("%s: it migrates without the rights", table)
		}
		sql, err := migrate.GrantsOwner(config, role)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, admin, sql)
		mustUp(t, connectAs(t, db, role), config)
	}
}
