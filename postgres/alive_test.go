package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// impatient makes the session speak up soon, from its next use on.
func (s *session) impatient(t *testing.T) {
	t.Helper()
	s.turn <- struct{}{}
	s.idle = 10 * time.Millisecond
	s.give()
}

const spokenSQL = `SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND query = '-- ping' AND query_start > $2`

// Poolers and load balancers end connections over which nothing is said.
func TestASilentSessionSpeaksUp(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	for _, session := range s.term() {
		session.impatient(t)
		pid := session.pid()
		for range 3 {
			now := queryOne[time.Time](t, db, "SELECT clock_timestamp()")
			eventually(t, "the "+session.name+" says something", func() bool { return queryOne[int](t, db, spokenSQL, pid, now) == 1 })
		}
	}
	callAll(t, s, claim(t, s, owner("a")), insert(t, db, orders, 1)[0], "after a silence")
}

// A session that was ended stays so: a term works with the connections that it was opened with.
func TestASilentSessionThatWasEndedIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	s.settle.impatient(t)
	if !queryOne[bool](t, db, "SELECT pg_terminate_backend($1)", s.settle.pid()) {
		t.Fatal("there is no such session")
	}
	eventually(t, "the session notices", func() bool {
		s.settle.turn <- struct{}{}
		defer s.settle.give()
		return s.settle.conn.IsClosed()
	})
	if _, err := s.Settle(t.Context(), insert(t, db, orders, 1)); !errors.Is(err, errNotOpen) {
		t.Errorf("Settle over an ended session = %v, want errNotOpen", err)
	}
}

func TestAClosedSessionIsQuiet(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	for _, session := range s.term() {
		session.impatient(t)
	}
	s.Close()
	for _, session := range s.term() {
		session.turn <- struct{}{}
		if session.conn != (*pgx.Conn)(nil) || session.alarm.Stop() {
			t.Errorf("the %s has a connection or would still speak up", session.name)
		}
		session.give()
	}
}
