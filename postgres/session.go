package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

// errNotOpen is the answer before Open has succeeded, and after a connection has broken.
var errNotOpen = errors.New("it is not open: call Open first")

// session is one of the source's own connections: the application's pool may be drained, the relay goes on.
type session struct {
	// name says in errors what the connection is for.
	name string
	// limit bounds each call.
	limit time.Duration
	// grace is how long a call goes on when its caller has no more use for it. The driver ends a connection to end a call, and the lease's is needed once more, to
	// hand the lanes back.
	grace time.Duration
	// turn holds one token; its holder alone touches conn. A channel and not a mutex, so that waiting for it obeys the context.
	turn chan struct{}
	// conn is nil before the first open and after close.
	conn *pgx.Conn
	// idle is how long the session may be silent; alarm goes off then. Both belong to the holder of the turn.
	idle  time.Duration
	alarm *time.Timer
}

func newSession(name string) *session {
	return &session{name: name, limit: pg.CallTimeout, turn: make(chan struct{}, 1), idle: idleLimit}
}

// leaveGrace is more than a statement about leases takes, and less than the second in which a clean restart hands over.
const leaveGrace = 500 * time.Millisecond

func (s *session) withGrace(d time.Duration) *session {
	s.grace = d
	return s
}

// Run lends the connection to fn. It never connects: a term works with the connections that Open gave it.
func (s *session) Run(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	if s.conn == nil || s.conn.IsClosed() {
		return fmt.Errorf("use the %s connection: %w", s.name, errNotOpen)
	}
	ctx, end := s.lenient(ctx)
	defer end()
	return fn(ctx, s.conn)
}

// lenient returns a context that ends with ctx, but for the grace when ctx is cancelled.
func (s *session) lenient(ctx context.Context) (context.Context, func()) {
	if s.grace == 0 {
		return ctx, func() {}
	}
	deadline, _ := ctx.Deadline() // there is the session's limit
	longer, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-longer.Done():
		case <-time.After(s.grace):
			cancel()
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// repair makes the connection anew with connect, unless it is there and answers.
func (s *session) repair(ctx context.Context, connect func(context.Context) (*pgx.Conn, error)) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	if err := ctx.Err(); err != nil {
		// That nothing answers in no time says nothing of the connection, which may be needed once more.
		return fmt.Errorf("look after the %s connection: %w", s.name, err)
	}
	if s.answers(ctx) {
		return nil
	}
	s.drop()
	conn, err := connect(ctx)
	if err != nil {
		return fmt.Errorf("connect for the %s: %w", s.name, err)
	}
	s.conn = conn
	return nil
}

func (s *session) answers(ctx context.Context) bool {
	if s.conn == nil || s.conn.IsClosed() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, min(pg.PingTimeout, s.limit/3))
	defer cancel()
	return s.conn.Ping(ctx) == nil
}

// close ends the connection; a call that is under way ends first.
func (s *session) close() {
	s.turn <- struct{}{}
	defer s.give()
	s.drop()
}

func (s *session) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the %s connection: %w", s.name, ctx.Err())
	}
}

// give hands the turn on. A connection that is inside a transaction is closed first: its next user would work in somebody else's.
func (s *session) give() {
	if s.conn != nil && !s.conn.IsClosed() && s.conn.PgConn().TxStatus() != 'I' {
		s.drop()
	}
	s.stayAlive()
	<-s.turn
}

// drop closes the connection politely, but not for long.
func (s *session) drop() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// The server ends the session when the socket goes, so an error on the way out changes nothing.
	_ = s.conn.Close(ctx)
	s.conn = nil
}

// pid is the server's process id as the startup told it; 0 when there is no connection.
func (s *session) pid() int32 {
	s.turn <- struct{}{}
	defer s.give()
	if s.conn == nil {
		return 0
	}
	return int32(s.conn.PgConn().PID())
}
