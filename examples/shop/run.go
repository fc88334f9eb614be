package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// settleTimeout is how long the shop waits for orders that are on their way when all are placed.
const settleTimeout = 2 * time.Minute

// run opens the shop, has orders placed, waits until something has become of each, and reads the tables.
func run(ctx context.Context, o options, out, log io.Writer) (report, error) {
	p, err := findPlace(ctx, o, out)
	if err != nil {
		return report{}, err
	}
	defer p.Close()
	if err := p.build(ctx); err != nil {
		return report{}, err
	}
	floor := newFloor(p, o, log)
	defer floor.close()
	if err := floor.open(); err != nil {
		return report{}, err
	}
	fmt.Fprintf(out, "the shop is open: %d processes, %d orders\n", len(floor.parts), o.Orders)
	killing, stopKilling := context.WithCancel(ctx)
	defer stopKilling()
	killer := make(chan error, 1)
	go func() { killer <- floor.torment(killing) }()
	err = floor.awaitOrders(ctx, out, stopKilling)
	stopKilling()
	if err := errors.Join(err, <-killer); err != nil {
		return report{}, err
	}
	r, err := p.judge(ctx)
	r.Kills = floor.kills
	return r, err
}

// awaitOrders returns when all orders are placed and something has become of each, or too much time has passed for that. placed is called when all are placed.
func (f *floor) awaitOrders(ctx context.Context, out io.Writer, placed func()) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var deadline <-chan time.Time
	for said := time.Now(); ; {
		open, orders, err := f.place.openOrders(ctx)
		if ctx.Err() != nil {
			return errors.New("stopped before something had become of every order")
		}
		if err != nil {
			return err
		}
		if orders >= f.options.Orders && deadline == nil {
			placed()
			deadline = time.After(settleTimeout)
		}
		if orders >= f.options.Orders && open == 0 {
			return nil
		}
		if time.Since(said) > time.Second {
			said = time.Now()
			fmt.Fprintf(out, "  orders %d, open %d\n", orders, open)
		}
		select {
		case <-ctx.Done():
		case err := <-f.fallen:
			return err
		case <-deadline:
			return nil
		case <-tick.C:
		}
	}
}

// floor has the shop's processes.
type floor struct {
	place   *place
	options options
	log     io.Writer
	names   []string
	parts   map[string]*process
	// kills counts, by name.
	kills map[string]int
	// fallen gets the first process that ended by itself, which none should.
	fallen chan error
	// patience is how long processes may take to end when the shop closes.
	patience time.Duration
}

// process is one of them.
type process struct {
	cmd   *exec.Cmd
	input io.Closer
	// leaving is closed before it is made to end; ended when it has.
	leaving, ended chan struct{}
}

func newFloor(p *place, o options, log io.Writer) *floor {
	return &floor{place: p, options: o, log: &shared{out: log}, names: processNames(), parts: map[string]*process{}, kills: map[string]int{}, fallen: make(chan error, 1), patience: 10 * time.Second}
}

// processNames are the services and their relays.
func processNames() (names []string) {
	for _, service := range services {
		names = append(names, service, service+"-relay")
	}
	return names
}

func (f *floor) open() error {
	for _, name := range f.names {
		if err := f.start(name); err != nil {
			return err
		}
	}
	return nil
}

func (f *floor) start(name string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	service := strings.TrimSuffix(name, "-relay")
	cmd := exec.Command(program) //nolint:noctx // its life is ended by its input, or by killing it
	cmd.Env = append(os.Environ(), partVariable+"="+name, "SHOP_NAME="+string(f.place.shop), "DATABASE_URL="+f.place.database(service),
		"KAFKA_BROKERS="+strings.Join(f.place.brokers, ","), fmt.Sprintf("SHOP_ORDERS=%d", f.options.Orders),
		fmt.Sprintf("SHOP_EVERY=%s", time.Duration(float64(time.Second)/f.options.Rate)))
	cmd.Stdout, cmd.Stderr = f.log, f.log
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{cmd, input, make(chan struct{}), make(chan struct{})}
	go f.watch(name, p)
	f.parts[name] = p
	return nil
}

// watch waits for the end of a process.
func (f *floor) watch(name string, p *process) {
	defer close(p.ended)
	err := p.cmd.Wait()
	select {
	case <-p.leaving:
		return
	default:
	}
	select {
	case f.fallen <- fmt.Errorf("the process %s has ended by itself, and says above why: %w", name, err):
	default:
	}
}

// torment kills processes, as kill -9 does, and starts them again, until ctx ends: each once in every round.
func (f *floor) torment(ctx context.Context) error {
	if f.options.Kill == 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(f.options.Seed, 0))
	var round []int
	for {
		if len(round) == 0 {
			round = random.Perm(len(f.names))
		}
		name := f.names[round[0]]
		round = round[1:]
		pause := f.options.Kill/2 + time.Duration(random.Int64N(int64(f.options.Kill)))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		p := f.parts[name]
		delete(f.parts, name)
		close(p.leaving)
		_ = p.cmd.Process.Kill() // it may have ended by itself
		<-p.ended
		f.kills[name]++
		if err := f.start(name); err != nil {
			return err
		}
	}
}

// close ends the processes: in order, and those that do not end by killing them.
func (f *floor) close() {
	for _, p := range f.parts {
		close(p.leaving)
		p.input.Close()
	}
	late := time.AfterFunc(f.patience, func() {
		for _, p := range f.parts {
			_ = p.cmd.Process.Kill() // it may have ended
		}
	})
	defer late.Stop()
	for _, p := range f.parts {
		<-p.ended
	}
}

// shared lets several processes write to one place.
type shared struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements [io.Writer].
func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}
