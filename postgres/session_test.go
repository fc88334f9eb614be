package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/relay"
)

// Whoever got the connection next would work, and commit or lose his work, in somebody else's transaction (BL-099).
func TestAConnectionInsideATransactionIsNotHandedOn(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	err := s.state.Run(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "BEGIN")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ParkedKeys(t.Context(), allLanes); !errors.Is(err, errNotOpen) {
		t.Errorf("ParkedKeys = %v, want errNotOpen", err)
	}
	if _, err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "parked keys", parkedKeys(t, s), nil)
}

// A call that hangs must not make the next one of its session wait longer than its own context says.
func TestWaitingForTheTurnObeysTheContext(t *testing.T) {
	t.Parallel()
	s := newSession("test")
	s.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Run(ctx, func(context.Context, *pgx.Conn) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("run = %v, want context.Canceled", err)
	}
}

// A relay that stops hands its lanes back over the connection that was about to renew them.
func TestAStopInTheMiddleOfALookAtLeasesLeavesTheConnection(t *testing.T) {
	t.Parallel()
	s := openSource(t, newDatabase(t), Config{})
	ctx, cancel := context.WithCancel(t.Context())
	err := s.lease.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		cancel()
		_, err := conn.Exec(ctx, "SELECT pg_sleep(0.05)")
		return err
	})
	if err != nil {
		t.Errorf("the statement that was under way = %v", err)
	}
	if err := s.lease.Run(t.Context(), func(ctx context.Context, conn *pgx.Conn) error { return conn.Ping(ctx) }); err != nil {
		t.Errorf("the next one = %v", err)
	}
}

// What hangs is not waited for.
func TestTheGraceOfACancelledCallEnds(t *testing.T) {
	t.Parallel()
	s := openSource(t, newDatabase(t), Config{})
	s.lease.grace = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := s.lease.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		cancel()
		_, err := conn.Exec(ctx, "SELECT pg_sleep(600)")
		return err
	})
	if !errors.Is(cancelled, context.Canceled) {
		t.Errorf("a call that hangs = %v, want context.Canceled", cancelled)
	}
}

// The last attempt of a start may begin when its time is over.
func TestAnOpenWithoutTimeKeepsTheConnections(t *testing.T) {
	t.Parallel()
	s := openSource(t, newDatabase(t), Config{})
	before := s.pids()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if _, err := s.Open(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("Open = %v, want context.Canceled", err)
		}
	}
	same(t, "the backends", s.pids(), before)
}

// A relay that gives its start up while it looks after its connections withdraws all the same.
func TestARelayThatStandsByLeavesOverAnotherConnection(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	gone := owner("gone")
	if err := s.StandBy(t.Context(), gone, ttl, relay.Report{}); err != nil {
		t.Fatal(err)
	}
	same(t, "registered", queryOne[int](t, db, "SELECT count(*) FROM outbox.relay"), 1)
	s.lease.close()
	if err := s.Leave(t.Context(), relay.Claim{Owner: gone}); err != nil {
		t.Fatal(err)
	}
	same(t, "registered", queryOne[int](t, db, "SELECT count(*) FROM outbox.relay"), 0)
}
