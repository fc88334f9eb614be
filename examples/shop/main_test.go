package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

// TestMain is one of the shop's processes when the environment says so: the tests start this program again, to kill it.
func TestMain(m *testing.M) {
	if name := os.Getenv(partVariable); name != "" {
		if err := runPart(name, os.Stdin, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m)
}

// open runs a shop on the tests' PostgreSQL.
func open(t *testing.T, o options) report {
	t.Helper()
	o.DatabaseURL = pgtest.New(t, pgtest.Empty).URL
	r, err := run(t.Context(), o, t.Output(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	r.print(t.Output())
	return r
}
