package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// idleOption makes the relay's own sessions, and no others, log each statement when it is executed.
	idleOption = "&options=-c%20log_statement%3Dall"
	// calm is how long a relay has been without work before it counts as idle.
	calm = 3 * time.Second
	// ticks is how many parts of a second Linux counts the time of a process in.
	ticks = 100
)

// idleness is what a relay without work costs.
type idleness struct {
	statements float64 // a second
	cpu        float64 // per cent of a core
}

// idle measures what a relay with its defaults costs while nothing is written.
func (b *bench) idle(ctx context.Context) ([]Measure, error) {
	var statements, cpu []float64
	err := b.withProgram(ctx, func(p program) error {
		for pair := range b.pairs {
			i, err := b.idleOnce(ctx, p)
			if err != nil {
				return err
			}
			statements, cpu = append(statements, i.statements), append(cpu, i.cpu)
			b.say("idle %d/%d  %.1f statements/s, %.2f %% of a core", pair+1, b.pairs, i.statements, i.cpu)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	asks := alone(Measure{Name: "idle: statements in all", Unit: "a second", Better: lower}, statements)
	asks.aim("at most 15 a second", asks.Ours.Median <= 15)
	burns := alone(Measure{Name: "idle: processor time of the relay", Unit: "% of a core", Better: lower}, cpu)
	burns.aim("at most 1 %", burns.Ours.Median <= 1)
	return []Measure{asks, burns}, nil
}

// idleOnce lets a relay publish a little, so that it is in the middle of its life, and then looks at it while it has nothing to do.
func (b *bench) idleOnce(ctx context.Context, p program) (i idleness, err error) {
	s := b.stand
	err = s.withTopic(ctx, func(topic string) error {
		if err := s.table.clear(ctx); err != nil {
			return err
		}
		l, err := s.table.fill(ctx, backlog{topic: topic, rows: 100})
		if err != nil {
			return err
		}
		if err := s.table.rest(ctx); err != nil {
			return err
		}
		one, err := start(p.relay(ctx, idleOption))
		if err != nil {
			return err
		}
		defer one.kill()
		if _, err := s.settledAt(ctx, team{one}, topic, len(l)); err != nil {
			return err
		}
		if i, err = s.watchIdle(ctx, one, b.idleFor); err != nil {
			return err
		}
		if err := one.stop(ctx); err != nil {
			return err
		}
		return s.verify(ctx, topic, s.table, l)
	})
	return i, err
}

// watchIdle waits until the relay is calm and compares what it has done at the beginning and at the end of the time.
func (s *stand) watchIdle(ctx context.Context, p *process, d time.Duration) (i idleness, err error) {
	if err := pause(ctx, calm); err != nil {
		return i, err
	}
	before, err := s.done(p)
	if err != nil {
		return i, err
	}
	began := time.Now()
	if err := pause(ctx, d); err != nil {
		return i, err
	}
	after, err := s.done(p)
	took := time.Since(began)
	if err := errors.Join(err, p.alive()); err != nil {
		return i, err
	}
	if after.statements == before.statements {
		return i, errors.New("the server has logged no statement of the relay, which must at least renew its lease")
	}
	return idleness{
		statements: float64(after.statements-before.statements) / took.Seconds(),
		cpu:        100 * (after.cpu - before.cpu).Seconds() / took.Seconds(),
	}, nil
}

// work is what a relay has done so far.
type work struct {
	statements int
	cpu        time.Duration
}

// done reads it from the server's log and from the kernel.
func (s *stand) done(p *process) (w work, err error) {
	log, err := os.ReadFile(s.server.LogFile())
	if err != nil {
		return w, fmt.Errorf("read the log of PostgreSQL: %w", err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid()))
	if err != nil {
		return w, fmt.Errorf("read the times of the relay: %w", err)
	}
	w.statements = statementsIn(log)
	w.cpu, err = cpuOf(string(stat))
	return w, err
}

// logged is how a statement stands in the server's log: of the simple protocol, or at its execution of the extended one.
var logged = regexp.MustCompile(`^\S+ \S+ \S+ \[\d+\] LOG:  (statement|execute [^:]+): `)

func statementsIn(log []byte) (n int) {
	for line := range bytes.Lines(log) {
		if logged.Match(line) {
			n++
		}
	}
	return n
}

// cpuOf reads how much processor time the process has used, in the kernel too, from the text of /proc/PID/stat.
func cpuOf(stat string) (time.Duration, error) {
	// The name of the program, in parentheses, may hold blanks and parentheses.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("the times of the process are not in %q", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return 0, fmt.Errorf("read the times of the process: %w", err)
	}
	return time.Duration(user+system) * time.Second / ticks, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
