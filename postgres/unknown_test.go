package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

func TestAnUnknownTableIsToldFromOneThatIsNotRegistered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage, table string
		want          []string
		sources       int
	}{
		"mistyped":       {`SELECT`, "public.outbx_event", []string{"there is no such table", "which has the outboxes public.outbox_event;", "outbox migrate up --table public.outbx_event"}, 1},
		"not registered": {`DELETE FROM outbox.source`, "public.outbox_event", []string{"the table is there, and not registered"}, 0},
		"no schema":      {`DROP SCHEMA outbox CASCADE`, "public.outbox_event", []string{"the table is there, and not registered"}, 0},
		"nothing":        {`DROP SCHEMA outbox CASCADE; DROP TABLE outbox_event`, "public.outbox_event", []string{"no such table", "which has no outbox at all"}, 0},
		"renamed":        {`ALTER TABLE outbox_event RENAME TO "old.events"`, "public.outbox_event", []string{"no such table any more", `it was renamed to public."old.events"`}, 1},
		"dropped":        {`DROP TABLE outbox_event`, "public.outbox_event", []string{"no such table any more", "dropped or renamed"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			exec(t, db, c.damage)
			_, err := newSource(t, db, Config{Table: c.table}).Open(t.Context())
			cc := db.Config().ConnConfig
			wantText(t, err, append(c.want, "database "+cc.Database+" at ", cc.Host)...)
			var unknown *pg.UnknownTableError
			if !errors.As(err, &unknown) || len(unknown.Sources) != c.sources || !errors.Is(err, relay.ErrConfiguration) {
				t.Errorf("%v is no configuration error with %d sources", err, c.sources)
			}
			if n := strings.Count(err.Error(), c.table); n < 2 && unknown.Renamed == "" || strings.Contains(err.Error(), cc.User+":") {
				t.Errorf("%v does not name the table and its command, or says too much", err)
			}
		})
	}
}
