package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// Limits of what is counted: a backlog of many millions must not be read through to be told that it is large.
const (
	backlogLimit   = 100_000
	statusLimit    = 1_000_000
	backlogTimeout = 3 * time.Second
	statusTimeout  = 10 * time.Second
)

// Backlog is what waits in a source, taken in one statement by the database's clock. Ages are counted from created_at, the start of
// the writer's transaction; they are never negative, and zero when nothing waits.
type Backlog struct {
	// Pending is how many events are unpublished, parked ones and those behind them included.
	Pending int64
	// PendingCapped tells that there are more: counting ended at the limit, oldest first.
	PendingCapped bool
	// OldestAge is the age of the oldest unpublished event, of a parked key or not.
	OldestAge time.Duration
	// EligibleAge is the age of the oldest unpublished event whose key is not parked and that no pause keeps: how far the relay is behind.
	EligibleAge time.Duration
	// Paused is what operators have paused.
	Paused Paused
	// ParkedKeys is how many keys are parked, and ParkedAge how long the first of them has been.
	ParkedKeys int64
	ParkedAge  time.Duration
	// Indexed is false when the index for what is unpublished is gone: reading then costs more the longer the table gets.
	Indexed bool
}

// TopicStatus is the part of one topic in what waits.
type TopicStatus struct {
	Topic string
	// Pending is how many events of the topic are unpublished, among those that were counted of all topics. PendingCapped tells that counting ended at the limit, so
	// that there may be more.
	Pending       int64
	PendingCapped bool
	OldestAge     time.Duration
	EligibleAge   time.Duration
	ParkedKeys    int64
	// PausedKeys is how many of its keys are paused by themselves.
	PausedKeys int64
	// HeldCode and HeldReason say why nothing can be published to the topic; "" when nothing stands in the way, as far as the relay has
	// noticed: a topic that no event was tried for is not looked at. HeldSince is when that was noticed.
	HeldCode, HeldReason string
	HeldSince            time.Time
}

// LaneStatus is who may publish a lane.
type LaneStatus struct {
	Lane  int32
	Epoch int64
	// Owner is the zero UUID when nobody holds the lane; OwnerName is empty then, or when the owner is not registered any more.
	Owner     uuid.UUID
	OwnerName string
	// Remaining is how long the lease still lasts; zero or less when it has expired or there is none.
	Remaining time.Duration
	// ParkedKeys is how many keys of the lane are parked.
	ParkedKeys int64
}

// RelayStatus is a relay process that was seen. One that has stopped cleanly is forgotten; one that has not, a day after it was last alive, by the next one that
// starts.
type RelayStatus struct {
	relay.Owner
	// Competing tells that it competes for rows and has no lanes.
	Competing bool
	StartedAt time.Time
	SeenAt    time.Time
	// Remaining is how long the relay counts as alive unless it says so again; zero or less when it is dead.
	Remaining time.Duration
	// SilentSince is since when Kafka answers nothing to it, as far as it has said; zero when Kafka answers.
	SilentSince time.Time
}

// Status is what an operator wants to know of a source, taken in one snapshot by the database's clock.
type Status struct {
	Backlog
	// Table is the table's name, SourceID the id that migrate gave to the source.
	Table    string
	SourceID uuid.UUID
	// At is the database's time of the snapshot.
	At time.Time
	// FirstPublished is when the source's first event was published; zero if none ever was.
	FirstPublished time.Time
	// LastPublished is when an event was last published, as far as the newest rows and those before the oldest unpublished one tell;
	// zero when they tell nothing, as always in a source that deletes.
	LastPublished time.Time
	Topics        []TopicStatus
	// Dead is how many events were given up and are kept; DeadCapped tells that there are more: counting ended at the limit.
	Dead       int64
	DeadCapped bool
	// LetterTopics are the dead-letter topics that take nothing, those with the most keys first, as the oldest parked keys tell.
	LetterTopics []operate.LetterTopic
	// Pauses are the first hundred of what is paused, with what each keeps: the source, then topics, then keys, the oldest pause first. The [Backlog] counts all.
	Pauses []PauseStatus
	Lanes  []LaneStatus
	Relays []RelayStatus
}

// Backlog returns what waits, cheaply enough for every scrape: it counts to 100,000 and gives up after 3 s. It uses a connection of
// its own, made when it is missing, so it neither waits for the relay nor ends its term. It logs when the index goes or comes back.
func (s *Source) Backlog(ctx context.Context) (Backlog, error) {
	o, err := s.now("count the backlog of")
	if err != nil {
		return Backlog{}, err
	}
	b, err := pg.Glance(ctx, watcher{s}, o.row, backlogTimeout, func(ctx context.Context, tx pgx.Tx) (Backlog, error) {
		return readBacklog(ctx, tx, o.row, backlogLimit)
	})
	if err != nil {
		return Backlog{}, err
	}
	s.reportIndex(o.row, b.Indexed)
	return b, nil
}

// reportIndex logs when the index goes and when it is back: an ORM that syncs its schema drops it without a word.
func (s *Source) reportIndex(row pg.Source, indexed bool) {
	switch was := s.unindexed.Swap(!indexed); {
	case !indexed && !was:
		s.cfg.Logger.Warn(missingIndex(row.Table, row.Partitioned))
	case indexed && was:
		s.cfg.Logger.Info("the index for what is unpublished is back", "table", s.table.String())
	}
}

// Status returns all that is known of the source. It counts to 1,000,000 and gives up after 10 s.
func (s *Source) Status(ctx context.Context) (Status, error) {
	o, err := s.now("read the status of")
	if err != nil {
		return Status{}, err
	}
	return readStatus(ctx, watcher{s}, o.row, statusLimit)
}

// watcher runs on the watch session, and makes it when it is missing or broken.
type watcher struct{ s *Source }

func (w watcher) Run(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	if w.s.closed.Load() {
		return fmt.Errorf("use the watch connection: %w", errNotOpen)
	}
	if err := w.s.watch.repair(ctx, w.s.connect); err != nil {
		return err
	}
	return w.s.watch.Run(ctx, fn)
}

// readStatus reads what is unpublished once, and counts to limit.
func readStatus(ctx context.Context, db pg.Runner, row pg.Source, limit int64) (Status, error) {
	return pg.Glance(ctx, db, row, statusTimeout, func(ctx context.Context, tx pgx.Tx) (Status, error) {
		st := Status{Table: row.Table.String(), SourceID: row.ID}
		var errs [8]error
		w, err := takeCensus(ctx, tx, row, limit)
		if err != nil {
			return st, err
		}
		st.Topics = w.topics
		st.Backlog, errs[0] = w.backlog(ctx, tx, row)
		st.Lanes, errs[1] = readLanes(ctx, tx, row.ID)
		st.Relays, errs[2] = readRelays(ctx, tx, row.ID)
		st.LastPublished, errs[3] = readLastPublished(ctx, tx, row)
		errs[4] = tx.QueryRow(ctx, `
SELECT now(), coalesce(first_published_at, '0001-01-01 00:00:00+00') FROM outbox.source WHERE id = $1`, row.ID).
			Scan(&st.At, &st.FirstPublished)
		st.Pauses, errs[5] = w.pauses(ctx, tx, row)
		st.LetterTopics, errs[6] = readLetterTopics(ctx, tx, row.ID, int(limit))
		st.Dead, st.DeadCapped, errs[7] = countDead(ctx, tx, row.ID, limit)
		return st, firstError(errs[:]...)
	})
}

func readBacklog(ctx context.Context, tx pgx.Tx, row pg.Source, limit int64) (Backlog, error) {
	var b Backlog
	var oldest, eligible, parked int64
	err := tx.QueryRow(ctx, fmt.Sprintf(pendingSQL+`
SELECT count(*), `+oldestAge("")+`, `+oldestAge(notKept)+`, `+besideSQL("$3")+`
FROM waiting`, row.Table.SQL()), row.ID, limit+1, row.Table.SQL()).
		Scan(&b.Pending, &oldest, &eligible, &b.ParkedKeys, &parked, &b.Indexed, &b.Paused.Source, &b.Paused.Topics, &b.Paused.Keys)
	if err != nil {
		return Backlog{}, fmt.Errorf("count what is unpublished: %w", err)
	}
	b.OldestAge, b.EligibleAge, b.ParkedAge = pg.Microseconds(oldest), pg.Microseconds(eligible), pg.Microseconds(parked)
	b.cap(limit)
	return b, nil
}

// cap ends the count at the limit, where one more was counted to know that there are more.
func (b *Backlog) cap(limit int64) {
	if b.Pending > limit {
		b.Pending, b.PendingCapped = limit, true
	}
}

// besideSQL are the columns of a [Backlog] of the source $1 that the unpublished events do not tell: parked keys and their age, the index, and what is paused. table is the
// parameter with the table's name.
func besideSQL(table string) string {
	return `(SELECT count(*) FROM outbox.parked_key WHERE source = $1),
    (SELECT coalesce(greatest(0, max(extract(epoch FROM now() - parked_at)) * 1000000), 0)::bigint
     FROM outbox.parked_key WHERE source = $1),
    (SELECT ` + indexedOf(table+"::text") + `), ` + pausedSQL
}

// countDead counts the dead events, limit of them at most.
func countDead(ctx context.Context, q pg.Querier, source uuid.UUID, limit int64) (n int64, capped bool, err error) {
	err = q.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM outbox.dead_event WHERE source = $1 LIMIT $2) d", source, limit+1).Scan(&n)
	if err != nil {
		return 0, false, fmt.Errorf("count the dead events: %w", err)
	}
	return min(n, limit), n > limit, nil
}

func readLanes(ctx context.Context, q pg.Querier, source uuid.UUID) ([]LaneStatus, error) {
	rows, err := q.Query(ctx, `
SELECT l.lane, l.epoch, coalesce(l.owner, '00000000-0000-0000-0000-000000000000'), coalesce(r.name, ''),
       coalesce(extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000, 0)::bigint, coalesce(k.parked, 0)
FROM outbox.lane l LEFT JOIN outbox.relay r ON r.source = l.source AND r.owner = l.owner
LEFT JOIN (SELECT lane, count(*) AS parked FROM outbox.parked_key WHERE source = $1 GROUP BY lane) k ON k.lane = l.lane
WHERE l.source = $1 ORDER BY l.lane`, source)
	if err != nil {
		return nil, fmt.Errorf("read the lanes: %w", err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (l LaneStatus, err error) {
		var remaining int64
		err = r.Scan(&l.Lane, &l.Epoch, &l.Owner, &l.OwnerName, &remaining, &l.ParkedKeys)
		l.Remaining = pg.Microseconds(remaining)
		return l, err
	})
}

func readRelays(ctx context.Context, q pg.Querier, source uuid.UUID) ([]RelayStatus, error) {
	rows, err := q.Query(ctx, `
SELECT owner, name, version, mode = 'competing', started_at, seen_at, (extract(epoch FROM expires_at - clock_timestamp()) * 1000000)::bigint, silent_since FROM outbox.relay
WHERE source = $1 ORDER BY started_at, owner`, source)
	if err != nil {
		return nil, fmt.Errorf("read the relays: %w", err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (s RelayStatus, err error) {
		var remaining int64
		var silent *time.Time
		err = r.Scan(&s.ID, &s.Name, &s.Version, &s.Competing, &s.StartedAt, &s.SeenAt, &remaining, &silent)
		s.Remaining, s.SilentSince = pg.Microseconds(remaining), timeOrZero(silent)
		return s, err
	})
}
