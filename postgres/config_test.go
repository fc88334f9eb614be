package postgres

import (
	"strings"
	"testing"
)

func TestTableNamesAreTakenAsTheCatalogSpellsThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]tableName{
		"outbox_event":            {"public", "outbox_event"},
		"shop.outbox_event":       {"shop", "outbox_event"},
		"shop.OutboxEvent":        {"shop", "OutboxEvent"},
		`"my.schema"."Out""box"`:  {"my.schema", `Out"box`},
		`shop."with space"`:       {"shop", "with space"},
		`"a.b"`:                   {"public", "a.b"},
		`x"; DROP TABLE y; --.ok`: {`x"; DROP TABLE y; --`, "ok"},
	} {
		got, err := parseTable(text)
		if err != nil || got != want {
			t.Errorf("parseTable(%q) = %+v, %v; want %+v", text, got, err, want)
			continue
		}
		if again, err := parseTable(got.String()); err != nil || again != want {
			t.Errorf("parseTable(%q), its own text = %+v, %v; want %+v", got.String(), again, err, want)
		}
	}
}

func TestImpossibleTableNamesAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", ".", "a.", ".b", "a.b.c", `"open`, `"a"b`, `""`, "a\x00b", strings.Repeat("x", 64)} {
		if got, err := parseTable(text); err == nil {
			t.Errorf("parseTable(%q) = %+v, want an error", text, got)
		}
	}
}

func TestConfigReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := New(nil, Config{Table: "a.b.c", Settle: 7})
	if err == nil {
		t.Fatal("New gave no error")
	}
	for _, part := range []string{"pool is nil", `"a.b.c"`, "settle mode 7"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %q", err, part)
		}
	}
}
