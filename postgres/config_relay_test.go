package postgres

import (
	"testing"

	"github.com/outbox-relay/outbox/internal/pg"
)

func TestARelayIsKnownByItsNameWithAndWithoutASource(t *testing.T) {
	t.Parallel()
	got := queryOne[[]string](t, newDatabase(t), `
SELECT array_agg(a.application_name ORDER BY 1) FROM (VALUES ('outbox-relay'), ('outbox-relay orders'), ('outbox-relayed'), ('shop'), (NULL)) a(application_name) WHERE `+pg.OfRelay)
	same(t, "names of relays", got, []string{"outbox-relay", "outbox-relay orders"})
}
