package pg

import (
	"strings"
	"testing"
)

func TestTableNamesAreTakenAsTheCatalogSpellsThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Table{
		"outbox_event":            {"public", "outbox_event"},
		"shop.outbox_event":       {"shop", "outbox_event"},
		"shop.OutboxEvent":        {"shop", "OutboxEvent"},
		`"my.schema"."Out""box"`:  {"my.schema", `Out"box`},
		`shop."with space"`:       {"shop", "with space"},
		`"a.b"`:                   {"public", "a.b"},
		`x"; DROP TABLE y; --.ok`: {`x"; DROP TABLE y; --`, "ok"},
	} {
		got, err := ParseTable(text)
		if err != nil || got != want {
			t.Errorf("ParseTable(%q) = %+v, %v; want %+v", text, got, err, want)
			continue
		}
		if again, err := ParseTable(got.String()); err != nil || again != want {
			t.Errorf("ParseTable(%q), its own text = %+v, %v; want %+v", got.String(), again, err, want)
		}
	}
}

func TestImpossibleTableNamesAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", ".", "a.", ".b", "a.b.c", `"open`, `"a"b`, `""`, "a\x00b", strings.Repeat("x", 64)} {
		if got, err := ParseTable(text); err == nil {
			t.Errorf("ParseTable(%q) = %+v, want an error", text, got)
		}
	}
}
