package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// settings are what the command line says.
type settings struct {
	what       string
	pairs      int
	rows       int
	rate       int
	writers    int
	liveFor    time.Duration
	memoryRows int
	smoke      bool
	json       string
	cpuProfile string
	postgres   string
}

// keys is how many partition keys the events are spread over.
const keys = 5000

// parse reads the command line; what to measure may stand before or after the flags.
func parse(args []string, out io.Writer) (settings, error) {
	s := settings{what: "all"}
	named := len(args) > 0 && !strings.HasPrefix(args[0], "-")
	if named {
		s.what, args = args[0], args[1:]
	}
	f := s.flags(out)
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 && !named {
		s.what = f.Arg(0)
	}
	if s.smoke {
		s.shrink(f)
	}
	return s, s.validate()
}

func (s *settings) flags(out io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprintln(out, "usage: go run . [drain|live|memory|all] [flags]")
		f.PrintDefaults()
	}
	f.IntVar(&s.pairs, "pairs", 5, "how often each comparison is repeated; the medians of these are reported")
	f.IntVar(&s.rows, "rows", 200_000, "drain: events in the backlog")
	f.IntVar(&s.rate, "rate", 1000, "live: events a second, all writers together")
	f.IntVar(&s.writers, "writers", 8, "live: how many writers, each with a connection")
	f.DurationVar(&s.liveFor, "live-for", 10*time.Second, "live: how long the writers write")
	f.IntVar(&s.memoryRows, "memory-rows", 1_000_000, "memory: events in the large backlog; the small one holds a hundredth")
	f.BoolVar(&s.smoke, "smoke", false, "tiny sizes; fail only if something is wrong: lost, repeated, out of order, or slower than the reference")
	f.StringVar(&s.json, "json", "", "also write all figures to this `file`")
	f.StringVar(&s.cpuProfile, "cpuprofile", "", "drain: write a CPU profile of the relay's first run to this `file`")
	f.StringVar(&s.postgres, "postgres", "", "major `version` of PostgreSQL; default: the first that the machine has, or the newest, fetched")
	return f
}

// shrink makes the sizes tiny, except those that were given.
func (s *settings) shrink(f *flag.FlagSet) {
	given := map[string]bool{}
	f.Visit(func(x *flag.Flag) { given[x.Name] = true })
	tiny := func(name string, set func()) {
		if !given[name] {
			set()
		}
	}
	tiny("pairs", func() { s.pairs = 2 })
	tiny("rows", func() { s.rows = 20_000 })
	tiny("live-for", func() { s.liveFor = 2 * time.Second })
	tiny("memory-rows", func() { s.memoryRows = 50_000 })
}

// validate returns all that is wrong.
func (s *settings) validate() error {
	var errs []error
	if !slices.Contains([]string{"drain", "live", "memory", "all"}, s.what) {
		errs = append(errs, fmt.Errorf("%q is nothing to measure: use drain, live, memory or all", s.what))
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"pairs", s.pairs}, {"rows", s.rows}, {"rate", s.rate}, {"writers", s.writers}, {"memory-rows", s.memoryRows / 100}, {"live-for", int(s.liveFor)}} {
		if n.value < 1 {
			errs = append(errs, fmt.Errorf("--%s is too small", n.name))
		}
	}
	if runtime.GOOS != "linux" && (s.what == "memory" || s.what == "all") {
		errs = append(errs, errors.New("memory is read from /proc, which only Linux has: name drain or live"))
	}
	return errors.Join(errs...)
}

func (s *settings) describe() string {
	return fmt.Sprintf("%d pairs; drain %d events, %d keys; live %d events/s, %d writers, %s; memory %d events",
		s.pairs, s.rows, keys, s.rate, s.writers, s.liveFor, s.memoryRows)
}
