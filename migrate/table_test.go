package migrate_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/outbox-relay/outbox/migrate"
)

func TestParseTableTakesAnyName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 63)
	for text, want := range map[string]migrate.Table{
		"outbox_event":                 {Schema: "public", Name: "outbox_event"},
		"shop.outbox_event":            {Schema: "shop", Name: "outbox_event"},
		"order-outbox":                 {Schema: "public", Name: "order-outbox"},
		"user":                         {Schema: "public", Name: "user"},
		"OutBox Event":                 {Schema: "public", Name: "OutBox Event"},
		`a"b`:                          {Schema: "public", Name: `a"b`},
		`"Order-Svc"."OutBox Event"`:   {Schema: "Order-Svc", Name: "OutBox Event"},
		`"my.schema".events`:           {Schema: "my.schema", Name: "events"},
		`shop."a""b.c"`:                {Schema: "shop", Name: `a"b.c`},
		`x"; DROP TABLE y; --`:         {Schema: "public", Name: `x"; DROP TABLE y; --`},
		long + "." + long:              {Schema: long, Name: long},
		strings.Repeat("ж", 31) + ".ж": {Schema: strings.Repeat("ж", 31), Name: "ж"},
	} {
		got, err := migrate.ParseTable(text)
		if err != nil || got != want {
			t.Errorf("ParseTable(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestParseTableRefusesWithTheReason(t *testing.T) {
	t.Parallel()
	for text, reason := range map[string]string{
		"":                      "empty",
		".":                     "empty",
		"shop.":                 "empty",
		".events":               "empty",
		`""`:                    "empty",
		"a.b.c":                 "3 parts",
		`"open`:                 "not closed",
		`"a"b`:                  "after a closing quote",
		strings.Repeat("x", 64): "64 bytes",
		"a\x00b":                "does not allow",
		"a\xffb":                "does not allow",
	} {
		got, err := migrate.ParseTable(text)
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("ParseTable(%q) = %+v, %v; want an error with %q", text, got, err, reason)
		}
	}
}

func FuzzParseTable(f *testing.F) {
	for _, seed := range []string{"outbox_event", `"a.b"."c""d"`, `a"b.c`, "ж.ж", `"`, "a.b.c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		table, err := migrate.ParseTable(text)
		if err != nil {
			return
		}
		again, err := migrate.ParseTable(table.String())
		if err != nil || again != table {
			t.Fatalf("%q is %+v, which prints as %s, which is %+v, %v", text, table, table, again, err)
		}
		name := table.IndexName()
		if len(name) > 63 || !utf8.ValidString(name) {
			t.Fatalf("the index name of %+v is %q", table, name)
		}
	})
}

func TestIndexNamesStayApart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 62)
	a, b := migrate.Table{Name: long + "1"}.IndexName(), migrate.Table{Name: long + "2"}.IndexName()
	if a == b || len(a) > 63 || len(b) > 63 {
		t.Errorf("index names %q and %q: want two, of 63 bytes at most", a, b)
	}
	if got := (migrate.Table{Name: "outbox_event"}).IndexName(); got != "ix_outbox_event_unpublished" {
		t.Errorf("the contract's index is named %s", got)
	}
}
