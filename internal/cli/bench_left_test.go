package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/benchmark"
)

// Where the database has gone away, the reason hides nothing of what is left there.
func TestWhatBenchHasLeftIsSaidBesideTheReason(t *testing.T) {
	t.Parallel()
	_, away := pgconn.Connect(t.Context(), "postgres://somebody@127.0.0.1:1/db?sslmode=disable")
	if !errors.As(away, new(*pgconn.ConnectError)) {
		t.Fatal(away)
	}
	left := benchmark.Left{What: "schema outbox_bench_x", Err: away, Advice: benchmark.Removal("outbox_bench_x")}
	for _, cause := range []error{nil, away} {
		got := explain(&benchmark.RemovalError{Cause: cause, Left: []benchmark.Left{left}}).Error()
		for _, want := range []string{"schema outbox_bench_x is not removed: PostgreSQL at 127.0.0.1:1: nothing listens there; ", "DROP SCHEMA IF EXISTS outbox_bench_x"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in %s", want, got)
			}
		}
		if cause != nil && !strings.HasPrefix(got, "PostgreSQL at 127.0.0.1:1: nothing listens there\n") {
			t.Errorf("the cause is not said first: %s", got)
		}
	}
}
