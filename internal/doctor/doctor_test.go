package doctor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/checkup"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func examine(t *testing.T, url string) Report {
	t.Helper()
	return examineBy(t, url, checkup.Config{})
}

func examineBy(t *testing.T, url string, limits checkup.Config) Report {
	t.Helper()
	pool := poolOf(t, url)
	defer pool.Close()
	report, err := Examine(t.Context(), Config{Pool: pool, Table: "public.outbox_event", WithoutKafka: "a test without", Checkups: limits, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func poolOf(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// codes are those of the findings, without that of the superuser by whom the tests work.
func codes(r Report) (list []string) {
	for _, f := range r.Findings {
		if f.Code != "rights-superuser" {
			list = append(list, f.Code)
		}
	}
	return list
}

func TestNothingIsFoundWhereAllIsWell(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	_, url := newRole(t, db)
	r := examine(t, url)
	// What other roles do, and when the database was made, is not seen by a relay's role.
	if len(r.Findings) > 0 || len(r.Sound) != 14 || len(r.NotLookedAt) != 3 || !r.Ready {
		t.Errorf("the report is %+v", r)
	}
}

// newRole makes a role with the rights of a relay.
func newRole(t *testing.T, db *pgtest.DB) (name, address string) {
	t.Helper()
	name = "doctor_" + strings.ToLower(rand.Text()[:12])
	db.Exec(t, "CREATE ROLE "+name+" LOGIN PASSWORD 'of-a-test'")
	conn := db.Conn(t)
	t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + name, "DROP ROLE " + name} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	grantRelay(t, db, name)
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "of-a-test")
	return name, u.String()
}

func grantRelay(t *testing.T, db *pgtest.DB, role string) {
	t.Helper()
	sql, err := migrate.Grants(migrate.Config{}, role)
	if err != nil {
		t.Fatal(err)
	}
	db.Exec(t, sql)
}

func TestErrorsComeFirst(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	for _, sql := range []string{"DROP INDEX ix_outbox_event_unpublished", "DELETE FROM outbox.lane", "DELETE FROM outbox.source"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r := examine(t, db.URL)
	if got := codes(r); len(got) != 2 || got[0] != "source-missing" || r.Ready {
		t.Errorf("found %v", got)
	}
	if i := slices.IndexFunc(r.Findings, func(f Finding) bool { return strings.Contains(f.Mend, "CREATE INDEX CONCURRENTLY") }); i < 0 {
		t.Errorf("nothing mends the index: %+v", r.Findings)
	}
}

func TestMissingRightsAreAFindingWithTheOneCommandThatGivesThem(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role, address := newRole(t, db)
	conn := db.Conn(t)
	do := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	do("DROP OWNED BY " + role)
	r := examine(t, address)
	if got := codes(r); !slices.Equal(got, []string{"rights-missing"}) || r.Ready {
		t.Fatalf("found %v", got)
	}
	if got := vitals(r); !slices.Equal(got, []string{schemaSubject}) {
		t.Errorf("not seen of what matters: %q", got)
	}
	if why := r.NotLookedAt[0].Why; !strings.Contains(why, "may not read the schema outbox") {
		t.Errorf("the reason is %q", why)
	}
	do("ALTER TABLE outbox_event RENAME COLUMN topic TO topics")
	if got := codes(examine(t, address)); !slices.Contains(got, "rights-missing") || !slices.Contains(got, "column-missing") {
		t.Errorf("with a column that is called otherwise: %v", got)
	}
	do("ALTER TABLE outbox_event RENAME COLUMN topics TO topic")
	for _, want := range []string{"the role " + role + " lacks rights: ", "USAGE on SCHEMA outbox", `SELECT on "public"."outbox_event"`, `UPDATE (published_at) on "public"."outbox_event"`,
		"DELETE on outbox.dead_event", "UPDATE (outcome) on outbox.request", `SELECT on SEQUENCE "public"."outbox_event_id_seq"`} {
		if !strings.Contains(r.Findings[0].Text, want) {
			t.Errorf("%q does not say %q", r.Findings[0].Text, want)
		}
	}
	if want := ": outbox migrate grants --table public.outbox_event --role " + role; !strings.HasSuffix(r.Findings[0].Mend, want) {
		t.Errorf("%q does not end with %q", r.Findings[0].Mend, want)
	}
	for _, grants := range []func(migrate.Config, string) (string, error){migrate.Grants, migrate.GrantsOperator} {
		do("DROP OWNED BY " + role)
		sql, err := grants(migrate.Config{}, role)
		if err != nil {
			t.Fatal(err)
		}
		do(sql)
		if r := examine(t, address); !r.Ready || len(r.Findings) > 0 {
			t.Errorf("with what is printed, the report is %+v", r)
		}
	}
	do("REVOKE UPDATE ON outbox.lane FROM " + role)
	if r := examine(t, address); len(r.Findings) != 1 || !strings.HasSuffix(r.Findings[0].Text, "lacks rights: UPDATE on outbox.lane") || slices.Contains(r.Sound, "the role has the rights of a relay") {
		t.Errorf("without one, the report is %+v", r)
	}
}

func TestANewerSchemaIsAnErrorOnlyWhereItBreaksThisVersion(t *testing.T) {
	t.Parallel()
	for breaks, want := range map[string]string{"false": "schema-newer", "true": "schema-unusable"} {
		db := pgtest.New(t)
		db.Exec(t, "INSERT INTO outbox.migration (version, name, checksum, breaks) VALUES (900, 'future', 'x', "+breaks+")")
		r := examine(t, db.URL)
		if got := codes(r); !slices.Equal(got, []string{want}) || r.Ready == (breaks == "true") {
			t.Errorf("breaks %s: found %v, ready %t, want %s", breaks, got, r.Ready, want)
		}
	}
}

func TestEachFindingHasAllItsFieldsInJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Finding{Code: "a", Severity: Warning, Text: "b"})
	if want := `{"code":"a","severity":"warning","text":"b","why":"","mend":"","mend_is_sql":false}`; err != nil || string(text) != want {
		t.Errorf("it is %s, %v, want %s", text, err, want)
	}
}
