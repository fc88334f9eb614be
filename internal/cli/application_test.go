package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestConnectionsSayWhatTheyAreForUnlessTheConnectionStringDoes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	root := &cobra.Command{Use: "outbox"}
	migrate, up := &cobra.Command{Use: "migrate"}, &cobra.Command{Use: "up"}
	root.AddCommand(migrate)
	migrate.AddCommand(up)
	long := strings.Repeat("ö", 40)
	relayOf := func(name string) string { return (&part{cfg: config.Source{Name: name}}).applicationName() }
	for want, c := range map[string]struct{ params, name string }{
		"outbox-migrate-up":   {"", ""},
		"shop":                {"application_name=shop", ""},
		"outbox-relay":        {"", relayOf("")},
		"outbox-relay orders": {"", relayOf("orders")},
	} {
		url := db.URL + map[bool]string{true: "&", false: "?"}[strings.Contains(db.URL, "?")] + c.params
		cfg, err := target{url: url, table: "outbox_event"}.parse(t.Context(), environment{})
		if err != nil {
			t.Fatal(err)
		}
		name := c.name
		if name == "" {
			name = applicationName(up)
		}
		pool, err := newPool(t.Context(), cfg, name)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		err = pool.QueryRow(t.Context(), "SELECT current_setting('application_name')").Scan(&got)
		pool.Close()
		if err != nil || got != want {
			t.Errorf("%+v: connected as %q, %v; want %q", c, got, err, want)
		}
	}
	cfg := (&part{cfg: config.Source{Name: long, Table: "outbox_event"}}).postgres(nil)
	if !strings.HasPrefix(cfg.ApplicationName, "outbox-relay ö") {
		t.Errorf("a source with a long name is called %q", cfg.ApplicationName)
	}
}
