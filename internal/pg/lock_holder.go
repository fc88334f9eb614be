package pg

import (
	"context"
	"fmt"
	"time"
)

// QuietWait is for how long a command waits for a lock without a word.
const QuietWait = time.Second

// LockHolder is a session that is waited for. The zero value is one of which nothing could be found out.
type LockHolder struct {
	PID         int32
	Application string
	// Open is for how long its transaction is.
	Open time.Duration
}

// ReadLockHolder finds out about the session whose process id the query returns.
func ReadLockHolder(ctx context.Context, q Querier, pid string, args ...any) (h LockHolder) {
	var us int64
	err := q.QueryRow(ctx, `
SELECT a.pid, coalesce(a.application_name, ''), coalesce((extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000)::bigint, 0)
FROM pg_stat_activity a WHERE a.pid = (`+pid+`)`, args...).Scan(&h.PID, &h.Application, &us)
	if err != nil {
		return LockHolder{} // it has ended in this moment, or there is no time to look
	}
	h.Open = (time.Duration(us) * time.Microsecond).Round(100 * time.Millisecond)
	return h
}

func (h LockHolder) String() string {
	if h.PID == 0 {
		return "somebody who has ended in this moment"
	}
	return fmt.Sprintf("pid %d, application %q, in a transaction for %s", h.PID, h.Application, h.Open)
}
