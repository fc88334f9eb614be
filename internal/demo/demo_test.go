package demo

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/relay"
)

func TestBrokersThatCannotBeMeantAreAllNamed(t *testing.T) {
	t.Parallel()
	err := (&parts{brokers: []string{"localhost", "kafka:9092", ":9092"}}).checkBrokers(t.Context())
	if !errors.Is(err, relay.ErrConfiguration) || !strings.Contains(err.Error(), `"localhost"`) || !strings.Contains(err.Error(), `":9092"`) ||
		strings.Contains(err.Error(), `"kafka:9092"`) {
		t.Errorf("got %v", err)
	}
	if err := (&parts{}).checkBrokers(t.Context()); err != nil {
		t.Errorf("without brokers: %v", err)
	}
}

func TestARoleThatMayNotIsToldWhatToDo(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"must be owner of schema outbox_demo":   "drop schema outbox_demo as its owner",
		"permission denied for database shared": "GRANT CREATE ON DATABASE",
	} {
		if got := advice(fmt.Errorf("make: %w", &pgconn.PgError{Code: "42501", Message: message})); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", message, got, want)
		}
	}
	if got := advice(errors.New("no route")); got != "" {
		t.Errorf("advice for nothing: %q", got)
	}
}

func TestTheLedgerFindsWhatWentWrong(t *testing.T) {
	t.Parallel()
	l, now := newLedger(), time.Now()
	id := func(n byte) uuid.UUID { return uuid.UUID{n} }
	for n := range byte(4) {
		l.commit(id(n), now)
	}
	l.rollBack(id(9))
	l.arrive(id(0), "order-1", 1, now)
	l.arrive(id(2), "order-1", 3, now)
	l.arrive(id(1), "order-1", 2, now)
	l.arrive(id(1), "order-1", 2, now)
	l.arrive(id(9), "order-2", 1, now)
	want := Summary{Written: 4, RolledBack: 1, Published: 5, Consumed: 5, Lost: 1, Duplicates: 1, OutOfOrder: 1, Uncommitted: 1}
	if got := l.summary(5); got != want || got.Sound() {
		t.Errorf("got %+v, want %+v, which is not sound", got, want)
	}
}
