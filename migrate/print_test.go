package migrate_test

import (
	"slices"
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
		{Table: `"Order-Svc"."it's"`, Lanes: 3, Delivery: migrate.ExactlyOnce, Headers: true},
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
	if got := codes(mustCheck(t, c, "outbox_event")); !slices.Contains(got, "w:id-serial") {
		t.Errorf("the table was changed: %v", got)
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
