package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox/relay"
)

// sweepPage is how many rows one statement of the sweep looks at.
const sweepPage = 5_000

// unpublished is an unpublished row as the sweep sees it.
type unpublished struct {
	ref relay.Ref
	key relay.Key
	// late tells that a writer who was open at Start may have committed it.
	late bool
	// foreign tells that it is of another relay's lane.
	foreign bool
}

// Sweep implements [relay.Reader].
func (r *reader) Sweep(ctx context.Context, budget time.Duration, known func(relay.Ref) bool, held relay.Held) (found int, err error) {
	if r.walking() || r.walk != nil || r.beyondDue {
		return 0, nil
	}
	isHeld, topics := heldBy(held)
	for began := r.now(); ; {
		full, found, err := r.sweepPage(ctx, func(u unpublished) bool { return u.foreign || known(u.ref) || isHeld(u.key) })
		if err != nil {
			return 0, fmt.Errorf("sweep %s: %w", r.row.Table, err)
		}
		if found > 0 {
			r.swept = beginning
			r.heldTopics = topics
			return found, r.begin(ctx)
		}
		if !full {
			r.swept = beginning
			return 0, nil
		}
		if r.now().Sub(began) >= budget {
			return 0, nil
		}
	}
}

// heldBy returns the question whether a key is held, and the topics that are. held may be nil: then nothing is.
func heldBy(held relay.Held) (isHeld func(relay.Key) bool, topics []string) {
	if held == nil {
		return func(relay.Key) bool { return false }, nil
	}
	topics = slices.Clone(held.HeldTopics())
	set := make(map[string]bool, len(topics))
	for _, t := range topics {
		set[t] = true
	}
	return func(k relay.Key) bool { return set[k.Topic] || held.HeldKey(k) }, topics
}

// sweepPage looks at one page. A row that nobody has in hand is a find only if it is still unpublished, and still in nobody's hand, in a
// later snapshot: the settler may have committed it after the first one, and then nobody knows it any more.
func (r *reader) sweepPage(ctx context.Context, inHand func(unpublished) bool) (full bool, found int, err error) {
	top, page, err := r.unpublishedRows(ctx, func(s *statement) string {
		return above(s, r.swept)
	})
	if err != nil {
		return false, 0, err
	}
	var suspects []int64
	for _, u := range page {
		if r.passed(u, top) && !inHand(u) {
			suspects = append(suspects, u.ref.ID)
		}
	}
	if len(page) > 0 {
		r.swept = page[len(page)-1].ref.ID
	}
	if len(suspects) == 0 {
		return len(page) >= sweepPage, 0, nil
	}
	top, page, err = r.unpublishedRows(ctx, func(s *statement) string {
		return "e.id = ANY (" + s.param(pgtype.Int8ArrayOID, suspects) + ")"
	})
	for _, u := range page {
		if r.passed(u, top) && !inHand(u) {
			found++
		}
	}
	return true, found, err
}

// passed tells whether the reader has left the row behind: it is neither ahead, where the head will come to it, nor in a hole, where a look
// will find it.
func (r *reader) passed(u unpublished, top int64) bool {
	id := u.ref.ID
	if id > r.cursor && id <= top {
		return false
	}
	return !r.holes.contains(id, u.late)
}

// unpublishedRows returns a page of unpublished rows in the order of ids, and the last id that the sequence gave.
func (r *reader) unpublishedRows(ctx context.Context, where func(*statement) string) (top int64, page []unpublished, err error) {
	s := &statement{}
	late, foreign := "false", "false"
	if g := r.holes.start(); g != nil {
		late = notOlder(s, g.since)
	}
	if !r.lanes.all() {
		// A condition would make one statement look for its rows among any number of other relays' ones.
		foreign = "NOT " + r.mine(s)
	}
	fmt.Fprintf(&s.text, `SELECT last_value - (NOT is_called)::integer, NULL::uuid, NULL::text, NULL::text, false, false FROM %s
UNION ALL (SELECT e.id, coalesce(e.event_id, '00000000-0000-0000-0000-000000000000'), coalesce(e.topic::text, ''), coalesce(e.partition_key::text, ''), %s, %s FROM %s e WHERE e.published_at IS NULL AND %s ORDER BY e.id LIMIT %d)`,
		r.row.Sequence, late, foreign, r.table(), where(s), sweepPage)
	err = r.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return s.run(ctx, conn, func(v [][]byte) error {
			if v[1] == nil {
				top = int64Of(v[0])
				return nil
			}
			id := relay.Ref{ID: int64Of(v[0]), EventID: uuid.UUID(v[1])}
			page = append(page, unpublished{id, relay.Key{Topic: string(v[2]), PartitionKey: string(v[3])}, v[4][0] == 1, v[5][0] == 1})
			return nil
		})
	})
	return top, page, err
}
