package postgres

import (
	"context"
	"time"
)

// idleLimit is how long a session may be silent. What stands between may end a connection over which nothing is said for a while, without
// regard to the kernel's keepalive: a pooler (client_idle_timeout), a load balancer. The first event after a quiet hour would then end the term.
const idleLimit = 10 * time.Second

// stayAlive has the session say something when it has been silent for its idle limit. The caller holds the turn.
func (s *session) stayAlive() {
	switch {
	case s.conn == nil || s.conn.IsClosed():
		s.beQuiet()
	case s.alarm == nil:
		s.alarm = time.AfterFunc(s.idle, s.saySomething)
	default:
		s.alarm.Reset(s.idle)
	}
}

// beQuiet ends what stayAlive began. The caller holds the turn.
func (s *session) beQuiet() {
	if s.alarm != nil {
		s.alarm.Stop()
	}
}

// saySomething asks nothing of the server but an answer. Whoever has the turn is speaking already. When no answer comes the connection is
// closed, and its next user learns that.
func (s *session) saySomething() {
	select {
	case s.turn <- struct{}{}:
	default:
		return
	}
	defer s.give()
	if s.conn == nil || s.conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.limit/3)
	defer cancel()
	_ = s.conn.Ping(ctx)
}
