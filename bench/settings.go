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
	millRows   int
	inboxRows  int
	relayRows  int
	leaseTTL   time.Duration
	idleFor    time.Duration
	largeRows  int
	parked     int
	// parkedEvents is how many unpublished events each parked key has.
	parkedEvents int
	smoke        bool
	json         string
	cpuProfile   string
	postgres     string
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
	rest := f.Args()
	if len(rest) > 0 && !named {
		s.what, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 {
		return s, fmt.Errorf("one part at a time: %q is measured, %q is too many", s.what, rest)
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
		fmt.Fprintf(out, "usage: go run . [%s] [flags]\n", strings.Join(names(), "|"))
		f.PrintDefaults()
	}
	f.IntVar(&s.pairs, "pairs", 5, "how often each comparison is repeated; the medians of these are reported")
	f.IntVar(&s.rows, "rows", 200_000, "drain, onekey, held: events in the backlog")
	f.IntVar(&s.rate, "rate", 1000, "live, takeover: events a second, all writers together")
	f.IntVar(&s.writers, "writers", 8, "live, takeover: how many writers, each with a connection")
	f.DurationVar(&s.liveFor, "live-for", 10*time.Second, "live: how long the writers write")
	f.IntVar(&s.memoryRows, "memory-rows", 1_000_000, "memory: events in the large backlog; the small one holds a hundredth")
	f.IntVar(&s.millRows, "watermill-rows", 100_000, "watermill: events in the backlog")
	f.IntVar(&s.inboxRows, "inbox-rows", 100_000, "inbox: events to be handled, in batches; a fifth of them one by one")
	f.IntVar(&s.relayRows, "relay-rows", 800_000, "relays: events in the backlog")
	f.DurationVar(&s.leaseTTL, "lease-ttl", 15*time.Second, "takeover: how long a lease of the relays lasts, at least 5s")
	f.DurationVar(&s.idleFor, "idle-for", time.Minute, "idle: how long the relay is looked at")
	f.IntVar(&s.largeRows, "large-rows", 10_000_000, "large: rows of the table; a hundredth more is the backlog")
	f.IntVar(&s.parked, "parked", 1000, "large: how many keys are parked")
	f.IntVar(&s.parkedEvents, "parked-events", 10, "large: how many unpublished events each of these has, spread over the table")
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
	tiny("watermill-rows", func() { s.millRows = 5000 })
	tiny("inbox-rows", func() { s.inboxRows = 5000 })
	tiny("relay-rows", func() { s.relayRows = 20_000 })
	tiny("lease-ttl", func() { s.leaseTTL = 5 * time.Second })
	tiny("idle-for", func() { s.idleFor = 2 * time.Second })
	tiny("large-rows", func() { s.largeRows = 200_000 })
	tiny("parked", func() { s.parked = 100 })
}

// validate returns all that is wrong.
func (s *settings) validate() error {
	var errs []error
	if !slices.Contains(names(), s.what) {
		errs = append(errs, fmt.Errorf("%q is nothing to measure: use one of %s", s.what, strings.Join(names(), ", ")))
	}
	for _, n := range []struct {
		name         string
		value, least int
	}{
		{"pairs", s.pairs, 1}, {"rows", s.rows, 1}, {"rate", s.rate, 1}, {"writers", s.writers, 1}, {"memory-rows", s.memoryRows, 100},
		{"live-for", int(s.liveFor), 1}, {"watermill-rows", s.millRows, 1}, {"inbox-rows", s.inboxRows, 5}, {"relay-rows", s.relayRows, 1}, {"lease-ttl", int(s.leaseTTL), int(5 * time.Second)},
		{"idle-for", int(s.idleFor), int(time.Second)}, {"parked", s.parked, 1}, {"parked-events", s.parkedEvents, 1}, {"large-rows", s.largeRows, max(100, s.parked*s.parkedEvents)},
	} {
		if n.value < n.least {
			errs = append(errs, fmt.Errorf("--%s is too small", n.name))
		}
	}
	for _, p := range parts() {
		if runtime.GOOS != "linux" && p.processes && s.wants(p) {
			errs = append(errs, fmt.Errorf("%s looks at processes as only Linux shows them: name another part", p.name))
		}
	}
	return errors.Join(errs...)
}

// names are what can be named on the command line.
func names() (all []string) {
	for _, p := range parts() {
		all = append(all, p.name)
	}
	return append(all, "all")
}

// wants tells whether the part is to be measured.
func (s *settings) wants(p part) bool {
	return s.what == p.name || s.what == "all" && !(s.smoke && p.named)
}

func (s *settings) describe() string {
	return fmt.Sprintf("%d pairs; drain %d events, %d keys; live %d events/s, %d writers, %s; memory %d events; watermill %d; relays %d; takeover: lease %s; idle %s; large %d rows",
		s.pairs, s.rows, keys, s.rate, s.writers, s.liveFor, s.memoryRows, s.millRows, s.relayRows, s.leaseTTL, s.idleFor, s.largeRows)
}
