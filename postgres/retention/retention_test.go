package retention

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/expect"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/operate"
)

// records keeps a log that several goroutines write.
type records struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *records) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *records) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// newRetention returns one whose log is kept and that never pauses in a turn.
func newRetention(t *testing.T, db *pgxpool.Pool, cfg Config) (*Retention, *records) {
	t.Helper()
	log := &records{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	r, err := New(db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.pause = func(context.Context, time.Duration) {}
	return r, log
}

func turn(t *testing.T, r *Retention) (caughtUp bool) {
	t.Helper()
	caughtUp, err := r.turn(t.Context())
	r.outcome(err)
	if err != nil {
		t.Fatal(err)
	}
	return caughtUp
}

// Time passes as the test says. Every turn stands for ten seconds in which 500 events a second come and are settled (BL-115).
func TestTheTableLevelsOffUnderConstantLoad(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	r, _ := newRetention(t, db, Config{Rules: events(time.Minute, 0)})
	var passed atomic.Int64
	r.ahead = func() time.Duration { return time.Duration(passed.Load()) }
	start := time.Now()
	r.now = func() time.Time { return start.Add(r.ahead()) }
	largest := 0
	for range 60 {
		pgtest.Exec(t, db, `
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at, published_at)
SELECT gen_random_uuid(), 'Order', g::text, 'order.confirmed.v1', '{}', 'orders', g::text, now() + $1 * interval '1 us', CASE WHEN g % 500 > 0 THEN now() + $1 * interval '1 us' END
FROM generate_series(1, 5000) g`, r.ahead().Microseconds())
		for !turn(t, r) {
			continue
		}
		largest = max(largest, pgtest.One[int](t, db, `SELECT count(published_at) FROM outbox_event`))
		passed.Add(int64(10 * time.Second))
	}
	// A minute of events, a turn more, and a page that was too young as a whole.
	if largest > 5000*6+2*5000 {
		t.Errorf("there were %d settled events at a time, want about a minute's 30,000", largest)
	}
	expect.Same(t, "unpublished", pgtest.One[int](t, db, `SELECT count(*) FROM outbox_event WHERE published_at IS NULL`), 600)
	expect.Same(t, "pruned", r.Stats().Pruned.Events, int64(300_000-600)-pgtest.One[int64](t, db, `SELECT count(published_at) FROM outbox_event`))
}

// The oldest rows are those that wait for an operator; each turn must not read them again.
func TestAWalkPassesWhatWaitsOnceAnHour(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 30_000, 3*time.Hour, "true")
	settledRows(t, db, 5000, 3*time.Hour, "false")
	r, _ := newRetention(t, db, Config{Rules: events(2*time.Hour, 0)})
	start, passed := time.Now(), time.Duration(0)
	r.now = func() time.Time { return start.Add(passed) }
	expect.Same(t, "caught up", turn(t, r), true)
	expect.Same(t, "left", holds(t, db), "0 settled, 30000 unpublished")
	position := r.walk.after
	if position < 30_000 {
		t.Fatalf("the walk stands at %d, want it behind what waits", position)
	}
	pgtest.Exec(t, db, `UPDATE outbox_event SET published_at = created_at WHERE id <= 10`)
	settledRows(t, db, 10, 3*time.Hour, "false")
	expect.Same(t, "caught up", turn(t, r), true)
	expect.Same(t, "what came behind it", holds(t, db), "10 settled, 29990 unpublished")
	passed = time.Hour
	expect.Same(t, "caught up", turn(t, r), true)
	expect.Same(t, "after an hour", holds(t, db), "0 settled, 29990 unpublished")
}

// An incident left 20,000 old events unpublished; they were settled just now. What lies behind them is still to go.
func TestWhatWasSettledLateDoesNotEndTheWalk(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 20_000, 3*time.Hour, "true")
	pgtest.Exec(t, db, `UPDATE outbox_event SET published_at = now()`)
	settledRows(t, db, 100, 3*time.Hour, "false")
	settledRows(t, db, 12_000, time.Hour, "false")
	r, _ := newRetention(t, db, Config{Rules: events(2*time.Hour, 0)})
	expect.Same(t, "caught up", turn(t, r), true)
	expect.Same(t, "left", holds(t, db), "32000 settled, 0 unpublished")
	if r.walk.after > 20_100+12_000/2 {
		t.Errorf("the walk stands at %d, want it where rows are too young", r.walk.after)
	}
}

func TestARetentionKeepsTheNewest(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	r, _ := newRetention(t, db, Config{Rules: events(0, 7000)})
	now := time.Now()
	r.now = func() time.Time { return now }
	for range 5 {
		settledRows(t, db, 3000, 0, "g % 3 = 0")
		turn(t, r)
		now = now.Add(time.Minute)
	}
	expect.Same(t, "left", holds(t, db), "7000 settled, 5000 unpublished")
}

func TestABudgetEndsARunAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 3*prunePage, 3*time.Hour, "false")
	r, _ := newRetention(t, db, Config{Rules: events(time.Hour, 0), Budget: time.Nanosecond, Restart: 24 * time.Hour})
	ticks := 0
	start := time.Now()
	r.now = func() time.Time { ticks++; return start.Add(time.Duration(ticks/3) * time.Microsecond) }
	runs := 0
	for !turn(t, r) {
		if runs++; runs > 100 {
			t.Fatal("it does not get to the end")
		}
		if s := r.Stats(); s.CaughtUp {
			t.Error("it says that nothing is left")
		}
	}
	expect.Same(t, "left", holds(t, db), "0 settled, 0 unpublished")
	if runs < 2 {
		t.Errorf("%d runs ended with their budget, want more", runs)
	}
}

func TestOneRelayOfASourceDeletes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	cfg := Config{Rules: events(time.Hour, 0), Name: "relay-1"}
	a, logA := newRetention(t, db, cfg)
	cfg.Name = "relay-2"
	b, logB := newRetention(t, db, cfg)
	turn(t, a)
	settledRows(t, db, 10, 3*time.Hour, "false")
	for range 3 {
		turn(t, b)
	}
	expect.Same(t, "left", holds(t, db), "10 settled, 0 unpublished")
	expect.Same(t, "lines of the one that waits", strings.Count(logB.String(), "another relay deletes what is old\" relay=relay-1"), 1)
	h, err := newPruner(t, db).Holding(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect.Same(t, "who deletes", fmt.Sprint(h.Retained, " ", h.By, " ", h.OlderThan), "true relay-1 1h0m0s")
	a.leave(t.Context())
	turn(t, b)
	expect.Same(t, "left", holds(t, db), "0 settled, 0 unpublished")
	turn(t, a)
	expect.Same(t, "active", fmt.Sprint(a.Stats().Active, b.Stats().Active), "false true")
	expect.Same(t, "lines of the first", strings.Count(logA.String(), "this relay deletes what is old"), 1)
	pgtest.Exec(t, db, `UPDATE outbox.retention SET expires_at = clock_timestamp() - interval '1 ms'`)
	turn(t, a)
	expect.Same(t, "active after the other's crash", a.Stats().Active, true)
}

func TestARelayWithoutTheRightWarnsOnceAndGoesOn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 10, 3*time.Hour, "false")
	least := pgtest.AsRelay(t, db, "UPDATE (published_at)")
	r, log := newRetention(t, least, Config{Rules: events(time.Hour, 0), Interval: time.Millisecond})
	turns := make(chan struct{}, 100)
	r.pause = func(ctx context.Context, _ time.Duration) {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	for range 3 {
		<-turns
	}
	expect.Same(t, "warnings", strings.Count(log.String(), "nothing old is deleted now"), 1)
	expect.Text(t, r.Stats().LastError, "outbox migrate grants", "--delete")
	pgtest.Exec(t, db, "GRANT DELETE ON outbox_event TO "+least.Config().ConnConfig.User)
	pgtest.Exec(t, db, "GRANT SELECT, INSERT, UPDATE ON outbox.retention TO "+least.Config().ConnConfig.User)
	await.Until(t, "it deletes", func() bool { <-turns; return r.Stats().Pruned.Events == 10 })
	cancel()
	<-ended
	expect.Same(t, "lines", strings.Count(log.String(), "this relay deletes what is old"), 1)
	expect.Same(t, "given back", pgtest.One[bool](t, db, `SELECT expires_at <= clock_timestamp() FROM outbox.retention`), true)
}

func TestARelayWarnsWhereNothingIsEverDeleted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	settledRows(t, db, 10, 50*time.Hour, "false")
	r, log := newRetention(t, db, Config{})
	for range 3 {
		turn(t, r)
	}
	for _, want := range []string{"the table grows without end", "--retain 168h", "outbox prune", "oldest_settled_age=50h0m", "table_bytes="} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log does not say %q once: %s", want, log)
		}
	}
	h := r.Stats().Holding
	expect.About(t, "the age of the oldest", h.OldestSettledAge, 50*time.Hour)
	if h.Bytes == 0 || !h.Endless() {
		t.Errorf("the holding is %+v", h)
	}
	prune(t, db, events(100*time.Hour, 0))
	again, quiet := newRetention(t, db, Config{})
	turn(t, again)
	expect.Same(t, "what is said where somebody prunes", quiet.String(), "")
}

func TestDeadEventsAndTheAuditAreRetained(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).Pool(t)
	pgtest.Exec(t, db, `INSERT INTO outbox.audit (source, at, actor, verb) SELECT id, now() - interval '3 days', 'me', 'skip' FROM outbox.source`)
	day := 24 * time.Hour
	r, _ := newRetention(t, db, Config{Rules: operate.Prune{Dead: &day, Audit: &day}})
	turn(t, r)
	expect.Same(t, "pruned", r.Stats().Pruned, operate.Pruned{Audit: 1})
}

func TestARetentionRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	_, err := New(pgtest.New(t).Pool(t), Config{Budget: -1, Rules: operate.Prune{Events: &operate.PruneEvents{OlderThan: -1}, Partitions: &operate.PrunePartitions{}}})
	expect.Text(t, err, "none that is negative", "outbox prune --partitions", "settled events")
}

// A relay is there all the time, and prune perhaps once a day. Where its role may not attach a partition it says what does.
func TestARetentionAttachesALostPartitionAgainOrSaysHow(t *testing.T) {
	t.Parallel()
	for what, owner := range map[string]bool{"as the owner": true, "as a relay": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Partitioned(t, "id", "1..101", "101..201", "201..10001")
			settledRows(t, db, 250, time.Hour, "g = 50")
			detachNoted(t, db, "outbox_event_0", "outbox_event_1")
			pool := db
			if !owner {
				pool = pgtest.AsRelay(t, db, "UPDATE (published_at)")
				pgtest.Exec(t, db, "GRANT SELECT ON outbox.retention TO "+pool.Config().ConnConfig.User)
				pgtest.Exec(t, db, "GRANT SELECT ON outbox_event_0 TO "+pool.Config().ConnConfig.User)
			}
			var log strings.Builder
			r, err := New(pool, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				r.lookedAt = time.Time{}
				if _, err := r.turn(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if owner {
				// The other one may go, which is no business of a relay.
				expect.Same(t, "partitions", partitionsOf(t, db), []string{"outbox_event_0", "outbox_event_2"})
				expect.Same(t, "said", strings.Count(log.String(), "it is attached again"), 1)
				return
			}
			expect.Same(t, "partitions", partitionsOf(t, db), []string{"outbox_event_2"})
			expect.Same(t, "said", strings.Count(log.String(), "statement="), 2)
			expect.Text(t, errors.New(log.String()), "partition=public.outbox_event_0", "holds unpublished events, which no relay reads", "partition=public.outbox_event_1", "this role may not look",
				"only the owner of public.outbox_event")
		})
	}
}
