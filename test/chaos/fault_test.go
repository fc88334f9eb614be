//go:build integration && unix

package chaos_test

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/test/chaos/broken"
	"github.com/outbox-relay/outbox/test/chaos/history"
)

// kind is one way to break something.
type kind struct {
	name string
	// target is what it breaks: while it lasts, nothing else breaks the same.
	target target
	// weight is how often it is drawn.
	weight int
	// shortest and longest bound how long it lasts.
	shortest, longest time.Duration
	// nodes is how many brokers it needs at least.
	nodes int
	// builds are those that it needs, besides the healthy one.
	builds []string
	// repeats and freezes are as in history.Fault.
	repeats, freezes bool
	// begin breaks it, and returns what mends it; nil when that is done already.
	begin func(l *lab, s step) (mend func())
}

// target is what a fault breaks.
type target int

const (
	aRelay target = iota
	theDatabase
	aRelaysDatabase
	theBrokers
	aRelaysBrokers
)

const (
	ms = time.Millisecond
	// outlast is longer than a lease lasts.
	outlast = leaseTTL + 2*time.Second
	// longCut is longer than a relay waits for Kafka before it does something about it.
	longCut = 65 * time.Second
)

// kinds are all ways.
func kinds() []kind {
	return []kind{
		{name: "kill -9", target: aRelay, weight: 4, shortest: 100 * ms, longest: outlast, repeats: true, begin: killRelay},
		{name: "freeze", target: aRelay, weight: 3, shortest: 2 * time.Second, longest: leaseTTL + 5*time.Second, repeats: true, freezes: true, begin: freezeRelay},
		{name: "clean restart", target: aRelay, weight: 4, longest: 3 * time.Second, begin: restartRelay},
		{name: "goes and comes back", target: aRelay, weight: 1, shortest: 5 * time.Second, longest: 10 * time.Second, begin: restartRelay},
		// A clock that jumps ahead looks like a machine that was suspended: the relay gives its lease up.
		{name: "clock shifted", target: aRelay, weight: 2, shortest: 5 * time.Second, longest: 15 * time.Second, repeats: true, builds: []string{broken.Shifted}, begin: shiftClock},

		{name: "restart", target: theDatabase, weight: 1, longest: time.Second, repeats: true, begin: restartDatabase},
		{name: "crash", target: theDatabase, weight: 1, longest: time.Second, repeats: true, begin: crashDatabase},
		{name: "no more connections", target: theDatabase, weight: 1, shortest: time.Second, longest: 5 * time.Second, repeats: true, begin: fillDatabase},
		{name: "unpublished rows locked", target: theDatabase, weight: 1, shortest: time.Second, longest: 12 * time.Second, repeats: true, begin: lockRows},
		{name: "lanes locked", target: theDatabase, weight: 1, shortest: time.Second, longest: outlast, repeats: true, begin: lockLanes},
		{name: "table locked", target: theDatabase, weight: 1, shortest: time.Second, longest: 12 * time.Second, repeats: true, begin: lockTable},
		{name: "one connection of a relay terminated", target: aRelaysDatabase, weight: 4, repeats: true, begin: terminate},

		{name: "database cut off", target: aRelaysDatabase, weight: 2, shortest: time.Second, longest: outlast, repeats: true, begin: cutDatabase},
		{name: "database cut off for ever", target: aRelaysDatabase, weight: 1, shortest: time.Second, longest: outlast, repeats: true, begin: loseDatabase},
		{name: "database connections reset", target: aRelaysDatabase, weight: 2, repeats: true, begin: resetDatabase},
		{name: "database connections half closed", target: aRelaysDatabase, weight: 1, repeats: true, begin: halfCloseDatabase},
		{name: "database slow", target: aRelaysDatabase, weight: 2, shortest: time.Second, longest: 6 * time.Second, repeats: true, begin: slowDatabase},

		{name: "kill -9", target: theBrokers, weight: 1, longest: 3 * time.Second, begin: killBroker},
		{name: "freeze", target: theBrokers, weight: 1, shortest: time.Second, longest: leaseTTL + 3*time.Second, freezes: true, begin: freezeBroker},
		{name: "clean restart", target: theBrokers, weight: 1, longest: time.Second, begin: restartBroker},
		{name: "leaders move", target: theBrokers, weight: 3, nodes: 3, begin: moveLeaders},
		{name: "not enough replicas", target: theBrokers, weight: 1, nodes: 3, shortest: time.Second, longest: 5 * time.Second, begin: tooFewReplicas},

		{name: "brokers cut off", target: aRelaysBrokers, weight: 2, shortest: time.Second, longest: outlast, begin: cutBrokers},
		{name: "brokers cut off for ever", target: aRelaysBrokers, weight: 1, shortest: time.Second, longest: outlast, begin: loseBrokers},
		// For longer than a relay keeps lanes that it cannot serve: it may give them up with records in flight, which another one publishes again.
		{name: "brokers cut off for long", target: aRelaysBrokers, weight: 1, shortest: longCut, longest: longCut + 15*time.Second, repeats: true, begin: cutBrokers},
		{name: "broker connections reset", target: aRelaysBrokers, weight: 2, begin: resetBrokers},
		{name: "broker connections half closed", target: aRelaysBrokers, weight: 1, begin: halfCloseBrokers},
		{name: "brokers slow", target: aRelaysBrokers, weight: 1, shortest: time.Second, longest: 6 * time.Second, begin: slowBrokers},
	}
}

func killRelay(l *lab, s step) func() {
	l.relays[s.relay].kill()
	return l.relays[s.relay].start
}

func freezeRelay(l *lab, s step) func() {
	l.relays[s.relay].signal(syscall.SIGSTOP)
	return func() { l.relays[s.relay].signal(syscall.SIGCONT) }
}

// restartRelay costs no repeats, unless the relay itself says that it had to leave something behind.
func restartRelay(l *lab, s step) func() {
	r := l.relays[s.relay]
	begun := time.Now()
	if !r.stop() {
		l.begin(history.Fault{What: r.name() + " could not stop in order", From: begun, Repeats: true})()
	}
	return r.start
}

func restartDatabase(l *lab, _ step) func() {
	if err := l.server.Stop(context.Background()); err != nil {
		l.t.Error(err)
	}
	return l.startDatabase
}

func crashDatabase(l *lab, _ step) func() {
	if err := l.server.Kill(); err != nil {
		l.t.Error(err)
	}
	return l.startDatabase
}

func (l *lab) startDatabase() {
	if err := l.server.Start(context.Background()); err != nil {
		l.t.Error(err)
	}
}

// fillDatabase takes every connection that there is, then ends those of a relay, which has to connect anew.
func fillDatabase(l *lab, s step) func() {
	var taken []*pgx.Conn
	for range maxConnections {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		conn, err := pgx.Connect(ctx, l.server.URL(l.database))
		cancel()
		if err != nil {
			break
		}
		taken = append(taken, conn)
	}
	l.relays[s.relay].db.Reset()
	return func() {
		for _, conn := range taken {
			conn.Close(context.Background())
		}
	}
}

func lockRows(l *lab, _ step) func() {
	return l.lock("SELECT 1 FROM outbox_event WHERE published_at IS NULL FOR UPDATE")
}

func lockLanes(l *lab, _ step) func() { return l.lock("SELECT 1 FROM outbox.lane FOR UPDATE") }

// lockTable keeps everybody from the table, as a change of its columns does. The writers wait too.
func lockTable(l *lab, _ step) func() { return l.lock("LOCK TABLE outbox_event") }

// lock runs a statement and keeps its locks. While the database is away there is nothing to be locked.
func (l *lab) lock(sql string) func() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, l.server.URL(l.database))
	if err != nil {
		return nil
	}
	if _, err := conn.Exec(ctx, "BEGIN"); err == nil {
		_, _ = conn.Exec(ctx, sql) // who holds the rows longer than this has them locked as well
	}
	return func() { conn.Close(context.Background()) }
}

// terminate ends one of the relay's connections. Which kind it is, its last statement tells; the draw goes through all of them.
func terminate(l *lab, s step) func() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var pid int
	var query string
	err := l.pool.QueryRow(ctx, `
SELECT pid, query FROM pg_stat_activity WHERE client_port = ANY ($1::integer[]) AND datname = current_database()
ORDER BY backend_start OFFSET $2::integer % greatest(1, (SELECT count(*)::integer FROM pg_stat_activity
    WHERE client_port = ANY ($1::integer[]) AND datname = current_database())) LIMIT 1`, l.relays[s.relay].db.Ports(), s.dice).Scan(&pid, &query)
	if err != nil {
		return nil
	}
	_, _ = l.pool.Exec(ctx, "SELECT pg_terminate_backend($1)", pid) // one that is gone is what was wanted
	l.t.Logf("    terminated backend %d, whose last statement was %.60q", pid, query)
	return nil
}

// what says to people what a step does.
func (s step) what() string {
	switch s.kind.target {
	case aRelay, aRelaysDatabase, aRelaysBrokers:
		return fmt.Sprintf("relay %d: %s, %s", s.relay+1, s.kind.name, s.lasts.Round(ms))
	case theBrokers:
		return fmt.Sprintf("broker %d: %s, %s", s.node+1, s.kind.name, s.lasts.Round(ms))
	}
	return fmt.Sprintf("database: %s, %s", s.kind.name, s.lasts.Round(ms))
}
