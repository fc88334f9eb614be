package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
)

// standInFor is how long a look at outcomes may carry out requests, when no relay does.
const standInFor = time.Second

// tallySQL counts requests by how they ended. Texts that differ in numbers and ids alone are one reason. job + 0 keeps the planner from the
// index of jobs, in which those of this one are many: the primary key leads to the batch.
const tallySQL = `
SELECT kind, CASE kind WHEN 'failed' THEN
        left(regexp_replace(error, '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9]{2,}', '…', 'g'), 500) ELSE '' END AS reason, count(*)
FROM (SELECT error, CASE WHEN done_at IS NULL THEN 'open' WHEN outcome IN ('cancelled', 'already done', 'not found') THEN outcome
        WHEN error IS NULL THEN 'done' ELSE 'failed' END AS kind
    FROM outbox.request WHERE source = $1::text::uuid AND id BETWEEN $2::bigint AND $3::bigint AND job + 0 = $4::bigint) r
GROUP BY 1, 2`

// Tally implements [operate.Matches].
func (s *Store) Tally(ctx context.Context, job, first, last int64) (operate.Tally, error) {
	t, err := s.tally(ctx, job, first, last)
	if err != nil || t.Open == 0 {
		return t, err
	}
	for until := time.Now().Add(standInFor); t.Open > 0 && time.Now().Before(until); {
		before := t.Open
		if err := s.StandIn(ctx); err != nil {
			return t, s.refusal(ctx, err, "carry out requests without a relay", changeTimeout)
		}
		if t, err = s.tally(ctx, job, first, last); err != nil {
			return t, err
		}
		if t.Open >= before {
			// A relay is alive, or what is open is not ready.
			break
		}
	}
	return t, nil
}

func (s *Store) tally(ctx context.Context, job, first, last int64) (operate.Tally, error) {
	t := operate.Tally{Failed: map[string]int64{}}
	err := s.change(ctx, "look at the outcomes", func(ctx context.Context, l survey) error {
		rows, err := l.tx.Query(ctx, tallySQL, l.row.ID.String(), first, last, job)
		if err != nil {
			return err
		}
		var kind, reason string
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&kind, &reason, &n}, func() error {
			switch kind {
			case "open":
				t.Open += n
			case "cancelled":
				t.Cancelled += n
			case "already done":
				t.AlreadyDone += n
			case "not found":
				t.NotFound += n
			case "done":
				t.Done += n
			default:
				t.Failed[reason] += n
			}
			return nil
		})
		return err
	})
	return t, err
}
