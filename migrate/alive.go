package migrate

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// refuseIfAlive keeps a migration that breaks from being applied under relays that cannot work with what it leaves: all that are alive, as none can have been started
// by a program that knows the migration. No relay can begin to work until the transaction ends, and then it finds the migration there.
func refuseIfAlive(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "LOCK TABLE outbox.source, outbox.relay IN ACCESS EXCLUSIVE MODE"); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `SELECT r.name || ' (' || s.table_schema || '.' || s.table_name || ')' FROM outbox.relay r JOIN outbox.source s ON s.id = r.source
		WHERE r.expires_at > clock_timestamp() ORDER BY 1`, pgx.QueryExecModeExec)
	if err != nil {
		return err
	}
	alive, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(alive) == 0 {
		return err
	}
	return fmt.Errorf("older relays cannot work with the schema after it, and these are alive: %s; stop them all, then run it again",
		strings.Join(alive, ", "))
}
