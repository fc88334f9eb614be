package inbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// trips writes down what a connection sends at once.
type trips struct {
	mu   sync.Mutex
	sent []string
}

func (s *trips) add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, what)
}

func (s *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.add(strings.Fields(d.SQL)[0])
	return ctx
}

func (s *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	var all []string
	for _, q := range d.Batch.QueuedQueries {
		all = append(all, strings.Fields(q.SQL)[0])
	}
	s.add(strings.Join(all, "+"))
	return ctx
}

func (s *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (s *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// only is a pool with one connection: who does not give it back stops everything.
func only(t *testing.T, db *pgtest.DB, tracer pgx.QueryTracer) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns, cfg.ConnConfig.Tracer = 1, tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func billing(t *testing.T, pool *pgxpool.Pool, cfg inbox.Config) inbox.Handling {
	t.Helper()
	p, err := inbox.NewProcessor("billing", inbox.Pool(pool), pgxHandlers(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRememberingCostsNoRoundTripOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]inbox.Config{"remembering": {}, "not remembering": {
		EventID: func(*inbox.Record) (string, error) { return "", inbox.ErrNoID }, NoID: inbox.HandleNoID,
	}} {
		var s trips
		wantOutcomes(t, billing(t, only(t, account(t), &s), cfg).Handle(t.Context(), []*inbox.Record{record(0, "a", deposited, "k", `{"account": "1"}`)}), inbox.Handled)
		want := []string{"begin+INSERT", "UPDATE", "commit"}
		if cfg.EventID != nil {
			want[0] = "begin"
		}
		if !slices.Equal(s.sent, want) {
			t.Errorf("%s: sent %q, want %q", name, s.sent, want)
		}
	}
}

func TestAProcessorWithoutItsTableSaysWhatToDoAndGivesItsConnectionBack(t *testing.T) {
	t.Parallel()
	p := billing(t, only(t, pgtest.New(t, pgtest.Empty), nil), inbox.Config{})
	for range 3 {
		wantOutcomes(t, p.Handle(t.Context(), []*inbox.Record{record(0, "a", deposited, "k", `{"account": "1"}`)}), "run outbox migrate up")
	}
}

func TestAServerThatRefusesConnectionsIsNotThere(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(account(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Database = "no_such_database"
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	out := billing(t, pool, inbox.Config{}).Handle(t.Context(), []*inbox.Record{record(0, "a", deposited, "k", `{"account": "1"}`)})
	if !errors.Is(out[0].Err, inbox.ErrUnavailable) {
		t.Errorf("the outcome is %v", out[0].Err)
	}
}

// While another transaction handles the event its claim waits. That may take too long, or be given up; then the event is neither handled nor lost.
func TestAClaimThatWaitsTooLongIsMadeAgain(t *testing.T) {
	t.Parallel()
	db := account(t)
	other, err := db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), `INSERT INTO outbox.inbox (consumer, event_id) VALUES ('billing', 'a')`); err != nil {
		t.Fatal(err)
	}
	in := []*inbox.Record{record(0, "a", deposited, "k", `{"account": "1"}`)}
	impatient := billing(t, only(t, db, nil), inbox.Config{Timeout: time.Second})
	wantOutcomes(t, impatient.Handle(t.Context(), in), "another transaction had the event, or there was no connection, for 1s")

	p := billing(t, only(t, db, nil), inbox.Config{})
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan []inbox.Outcome)
	go func() { ended <- p.Handle(ctx, in) }()
	awaitBlocked(t, db.Pool(t))
	giveUp()
	if out := <-ended; out[0].Err == nil {
		t.Errorf("a claim that was given up is %v", out[0].Result)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, p.Handle(t.Context(), in), inbox.Handled)
	if n := balance(t, db); n != 1 {
		t.Errorf("the balance is %d, want 1", n)
	}
}
