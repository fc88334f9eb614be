package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// goneAtOnce is of how many records one look asks whether their events are still to be published.
const goneAtOnce = 1000

// ghosts finds records of outbox.failure whose events are published or gone. Whoever publishes an event removes its record, but only when the settle has committed; a relay that
// ends in between leaves it. Nobody would look at it again before the lane has another owner, and it would be shown, with its crashes, for as long.
type ghosts struct {
	db  pg.Runner
	row pg.Source
	// at is the record up to which the round has come.
	at relay.Ref
}

func newGhosts(db pg.Runner, row pg.Source) *ghosts {
	return &ghosts{db, row, relay.Ref{ID: beginning}}
}

// forget removes those of the next page; the last page begins the round anew. No lease is needed: an event that is published stays so. It relies on the primary keys of failure
// and of the table, and leaves alone what somebody has locked.
func (g *ghosts) forget(ctx context.Context) error {
	var looked int
	var id *int64
	var event *uuid.UUID
	err := pg.InTx(ctx, g.db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, plainPlan); err != nil {
			return fmt.Errorf("set the plan: %w", err)
		}
		return tx.QueryRow(ctx, fmt.Sprintf(`
WITH page AS MATERIALIZED (
    SELECT id, event_id FROM outbox.failure WHERE source = $1 AND (id, event_id) > ($2::bigint, $3::text::uuid) ORDER BY id, event_id LIMIT $4::integer
), gone AS (
    DELETE FROM outbox.failure f USING (
        SELECT l.id, l.event_id FROM outbox.failure l JOIN page p ON l.source = $1 AND l.id = p.id AND l.event_id = p.event_id
        WHERE (SELECT true FROM %s t WHERE t.id = l.id AND (t.event_id = l.event_id) IS TRUE AND t.published_at IS NULL LIMIT 1) IS NULL
        FOR UPDATE OF l SKIP LOCKED) free
    WHERE f.source = $1 AND f.id = free.id AND f.event_id = free.event_id
)
SELECT (SELECT count(*) FROM page), last.id, last.event_id FROM (SELECT) one LEFT JOIN (SELECT id, event_id FROM page ORDER BY id DESC, event_id DESC LIMIT 1) last ON true`,
			g.row.Table.SQL()), g.row.ID, g.at.ID, g.at.EventID.String(), goneAtOnce).Scan(&looked, &id, &event)
	})
	if err != nil {
		return fmt.Errorf("forget what has failed of %s and is published since: %w", g.row.Table, err)
	}
	if looked < goneAtOnce || id == nil || event == nil {
		g.at = relay.Ref{ID: beginning}
		return nil
	}
	g.at = relay.Ref{ID: *id, EventID: *event}
	return nil
}
