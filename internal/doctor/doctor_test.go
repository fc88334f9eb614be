package doctor

import (
	"context"
	"crypto/rand"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func examine(t *testing.T, url string) Report {
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
	defer pool.Close()
	report, err := Examine(t.Context(), pool, "public.outbox_event")
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func codes(r Report) (list []string) {
	for _, f := range r.Findings {
		list = append(list, f.Code)
	}
	return list
}

func TestNothingIsFoundWhereAllIsWell(t *testing.T) {
	t.Parallel()
	r := examine(t, pgtest.New(t).URL)
	if len(r.Findings) > 0 || len(r.Sound) != 4 || !r.Ready {
		t.Errorf("the report is %+v", r)
	}
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
	role := "doctor_" + strings.ToLower(rand.Text()[:12])
	conn := db.Conn(t)
	do := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE ROLE " + role + " LOGIN PASSWORD 'of-a-test'")
	t.Cleanup(func() {
		do("DROP OWNED BY " + role)
		do("DROP ROLE " + role)
	})
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "of-a-test")
	r := examine(t, u.String())
	if got := codes(r); !slices.Equal(got, []string{"rights-missing"}) || r.Ready {
		t.Fatalf("found %v", got)
	}
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
		if r := examine(t, u.String()); !r.Ready || len(r.Findings) > 0 {
			t.Errorf("with what is printed, the report is %+v", r)
		}
	}
	do("REVOKE UPDATE ON outbox.lane FROM " + role)
	if r := examine(t, u.String()); len(r.Findings) != 1 || !strings.HasSuffix(r.Findings[0].Text, "lacks rights: UPDATE on outbox.lane") || len(r.Sound) != 3 {
		t.Errorf("without one, the report is %+v", r)
	}
}
