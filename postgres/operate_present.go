package postgres

import (
	"context"
	"fmt"

	"github.com/outbox-relay/outbox/operate"
)

// present counts the relays of a source that are alive: those that take lanes, those that stand by and take none, and those that compete for rows.
type present struct{ working, waiting, competing int }

// present counts them. A relay that has only just registered is counted with those that stand by: it has not shown that it works.
func (l survey) present(ctx context.Context) (p present, err error) {
	err = l.tx.QueryRow(ctx, `
SELECT count(*) FILTER (WHERE mode = 'leased' AND standing > 0), count(*) FILTER (WHERE mode = 'leased' AND standing = 0), count(*) FILTER (WHERE mode = 'competing')
FROM outbox.relay WHERE source = $1::uuid AND expires_at > now()`, l.row.ID.String()).Scan(&p.working, &p.waiting, &p.competing)
	return p, err
}

// laneFree is why nobody has a lane though relays are alive; nil when none is.
func (p present) laneFree(lane int32) *operate.Reason {
	text := fmt.Sprintf("no relay has its lane, %d: ", lane)
	switch {
	case p.working == 1:
		text += "one that is alive will take it"
	case p.working > 1:
		text += fmt.Sprintf("one of %d that are alive will take it", p.working)
	case p.waiting > 0:
		text += fmt.Sprintf("%d alive, and none of them works: they have only just started, or stand by until they can publish; their log says why", p.waiting)
	default:
		return nil
	}
	return &operate.Reason{Code: operate.ReasonLaneFree, Text: text}
}
