package migrate

import (
	"context"
	"fmt"
)

// AdvisoryLock orders all who migrate.
const AdvisoryLock int64 = advisoryLock

// UpWith brings the schema outbox to a version that this program does not know, by more migrations behind its own.
func UpWith(ctx context.Context, c Conn, texts ...string) error {
	s, err := Config{}.check()
	if err != nil {
		return err
	}
	all, err := All()
	if err != nil {
		return err
	}
	for _, text := range texts {
		m, err := newMigration(fmt.Sprintf("%03d_next.up.sql", len(all)+1), text)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	return s.upState(ctx, c, all, &Result{})
}
