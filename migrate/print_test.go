package migrate_test

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/migrate"
)

func TestPrintedSQLMakesWhatUpMakes(t *testing.T) {
	t.Parallel()
	for _, config := range []migrate.Config{
		{},
		{Table: "a\n; SELECT 1/0; --"},
		{Table: `"Order-Svc"."it's"`, Lanes: 3, Delivery: migrate.AtLeastOnce, Headers: true},
	} {
		printed, made := pgtest.New(t, pgtest.Empty).Conn(t), pgtest.New(t, pgtest.Empty).Conn(t)
		sql, err := migrate.Print(config)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, printed, sql)
		up := mustUp(t, made, config)
		diffLines(t, "what the printed SQL makes", catalog(t, printed), catalog(t, made))

		again := mustUp(t, printed, config)
		if len(again.Applied) != 0 || again.TableCreated || again.SourceCreated || again.Lanes != up.Lanes || again.Delivery != up.Delivery {
			t.Errorf("up after the printed SQL did %+v", again)
		}
		diffLines(t, "up after the printed SQL", catalog(t, printed), catalog(t, made))
		if n := scan[int](t, printed, "SELECT count(*) FROM outbox.lane"); n != up.Lanes {
			t.Errorf("%d lanes, want %d", n, up.Lanes)
		}
		if ds := mustCheck(t, printed, up.Table.String()); ds != nil {
			t.Errorf("the printed table differs: %v", ds)
		}
	}
}

func TestPrintedSQLLeavesAnExistingTableAlone(t *testing.T) {
	t.Parallel()
	c := pgtest.New(t, pgtest.Empty).Conn(t)
	sql, err := migrate.Print(migrate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, c, "CREATE TABLE outbox_event (id bigserial PRIMARY KEY, published_at timestamptz)")
	mustExec(t, c, sql)
	if n := scan[int](t, c, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'outbox_event'::regclass AND attnum > 0"); n != 2 {
		t.Errorf("the table has %d columns, want its own two", n)
	}
}

func TestTheColumnHeadersIsMadeOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	without, err := migrate.Print(migrate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	with, err := migrate.Print(migrate.Config{Headers: true})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(without, "headers") || !strings.Contains(with, "headers        jsonb") {
		t.Errorf("without:\n%s\nwith:\n%s", without, with)
	}
}

func TestPrintedSQLHasNoTabs(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]func() (string, error){
		"print":           func() (string, error) { return migrate.Print(migrate.Config{Headers: true}) },
		"relay's grants":  func() (string, error) { return migrate.Grants(migrate.Config{Delete: true}, "r") },
		"operator's":      func() (string, error) { return migrate.GrantsOperator(migrate.Config{}, "r") },
		"writer's grants": func() (string, error) { return migrate.GrantsWriter(migrate.Config{}, "r") },
	} {
		if sql, err := text(); err != nil || strings.Contains(sql, "\t") {
			t.Errorf("%s: %v\n%s", name, err, sql)
		}
	}
}
