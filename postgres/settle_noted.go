package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

// noteEvery is how old the time of the last publication may be that is written down.
const noteEvery = 5 * time.Second

// noteSQL waits for nobody: the row of the source belongs to all relays of it.
const noteSQL = `UPDATE outbox.source SET last_published_at = greatest(last_published_at, now())
WHERE id = (SELECT id FROM outbox.source WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED)`

// noted writes down when something was last published.
type noted struct {
	now func() time.Time
	at  time.Time
	// refused tells that the role may not write it.
	refused bool
}

// note writes down that something was published just now, unless it has done so just before. It is for people who look, so nothing depends on it: when it
// fails the next one tries again, except where the role has no right to it, which an older grant lacks.
func (s *settler) note(ctx context.Context) {
	now := s.noted.now()
	if s.noted.refused || now.Sub(s.noted.at) < noteEvery {
		return
	}
	s.noted.at = now
	err := s.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, noteSQL, s.row.ID)
		return err
	})
	s.noted.refused = pg.Code(err) == "42501"
}
