package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures what the arguments name. The report goes to stdout also when a later part fails, the progress to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set, err := parse(args, stderr)
	if err != nil {
		return err
	}
	began := time.Now()
	s, err := openStand(ctx, set.postgres)
	if err != nil {
		return err
	}
	defer s.Close()
	b := &bench{settings: set, stand: s, progress: stderr}
	report := Report{Began: began.UTC(), Settings: set.describe()}
	if report.Machine, err = s.machine(ctx); err != nil {
		return err
	}
	report.Measures, err = b.measure(ctx)
	report.Took = time.Since(began).Round(time.Second).String()
	report.print(stdout)
	if set.json != "" {
		err = errors.Join(err, report.save(set.json))
	}
	if set.smoke {
		err = errors.Join(err, tooSlow(report.Measures))
	}
	return err
}

// bench is one run of the program.
type bench struct {
	settings
	stand    *stand
	progress io.Writer
}

// part is something that the program can measure.
type part struct {
	name string
	run  func(*bench, context.Context) ([]Measure, error)
	// processes tells that it needs the kernel's view of processes, which only Linux gives.
	processes bool
	// named tells that a smoke test leaves it out unless it is named: for the time that it takes.
	named bool
}

// parts are what can be measured, in the order of the report.
func parts() []part {
	return []part{
		{name: "drain", run: (*bench).drain},
		{name: "live", run: (*bench).live},
		{name: "memory", run: (*bench).memory, processes: true},
		{name: "onekey", run: (*bench).oneKey},
		{name: "held", run: (*bench).held},
		{name: "watermill", run: (*bench).watermill},
		{name: "inbox", run: (*bench).inbox},
		{name: "relays", run: (*bench).relays, processes: true, named: true},
		{name: "takeover", run: (*bench).takeover, processes: true, named: true},
		{name: "idle", run: (*bench).idle, processes: true, named: true},
		{name: "large", run: (*bench).large, named: true},
	}
}

// measure runs the parts that were asked for.
func (b *bench) measure(ctx context.Context) ([]Measure, error) {
	var all []Measure
	for _, p := range parts() {
		if !b.wants(p) {
			continue
		}
		found, err := p.run(b, ctx)
		all = append(all, found...)
		if err != nil {
			return all, fmt.Errorf("measure %s: %w", p.name, err)
		}
	}
	return all, nil
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

// tooSlow finds the measures in which the relay lost against the reference: the only thing about speed that a smoke test may judge.
func tooSlow(measures []Measure) error {
	var slow []string
	for _, m := range measures {
		if m.Judged && m.Ratio.Median < 1 {
			slow = append(slow, fmt.Sprintf("%s (%.2f)", m.Name, m.Ratio.Median))
		}
	}
	if len(slow) == 0 {
		return nil
	}
	return fmt.Errorf("the relay was behind the reference in: %s", strings.Join(slow, ", "))
}
