package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pgtest"
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
	if len(r.Findings) > 0 || len(r.Sound) != 3 || r.Failed() {
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
	if got := codes(r); len(got) != 2 || got[0] != "source-missing" || !r.Failed() {
		t.Errorf("found %v", got)
	}
	if i := slices.IndexFunc(r.Findings, func(f Finding) bool { return strings.Contains(f.Mend, "CREATE INDEX CONCURRENTLY") }); i < 0 {
		t.Errorf("nothing mends the index: %+v", r.Findings)
	}
}
