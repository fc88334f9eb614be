// Command shop is a worked example: three services with a database each, an outbox and an inbox each, on one Kafka. It starts them, places orders, and shows in
// the end what became of the money. The folders order, payment and shipping are what a user would write; this one only runs them.
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
	"time"
)

// options are what the command line says.
type options struct {
	// Orders is how many are placed, Rate how many a second.
	Orders int
	Rate   float64
	// Kill is how long one of the processes lives on average until one of them is killed; 0: none is. Seed decides which ones, and when.
	Kill time.Duration
	Seed uint64
	// DatabaseURL and Brokers name a server and brokers; empty: they are started.
	DatabaseURL string
	Brokers     []string
}

func main() {
	if name := os.Getenv(partVariable); name != "" {
		if err := runPart(name, os.Stdin, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

func command(args []string, out, problems io.Writer) int {
	o := options{DatabaseURL: os.Getenv("DATABASE_URL")}
	if b := os.Getenv("KAFKA_BROKERS"); b != "" {
		o.Brokers = strings.Split(b, ",")
	}
	flags := flag.NewFlagSet("shop", flag.ContinueOnError)
	flags.SetOutput(problems)
	flags.IntVar(&o.Orders, "orders", 1000, "how many orders are placed")
	flags.Float64Var(&o.Rate, "rate", 100, "how many of them a second")
	flags.DurationVar(&o.Kill, "kill", 0, "kill one of the processes about this often, such as 500ms")
	flags.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()&0xffffff), "which ones, and when")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if o.Orders < 1 || o.Rate <= 0 || o.Rate > 1000 || o.Kill < 0 || flags.NArg() > 0 {
		fmt.Fprintln(problems, "shop: -orders must be positive, -rate above 0 and at most 1000, -kill not negative; there are no arguments")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := run(ctx, o, out, problems)
	if err != nil {
		fmt.Fprintln(problems, "shop:", err)
		return 1
	}
	r.print(out)
	if !r.sound() {
		return 1
	}
	return 0
}
