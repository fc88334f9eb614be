// Command outbox publishes the events of PostgreSQL transactions to Kafka: always, in order, soon.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/outbox-relay/outbox/internal/cli"
)

func main() {
	// A reader of stdout that goes away, as tee does at Ctrl-C, makes writes fail instead of ending a relay that drains.
	signal.Ignore(syscall.SIGPIPE)
	// The first signal asks for a clean end, the second one ends the process as usual.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
