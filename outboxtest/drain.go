package outboxtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// DrainTimeout is how long [Drain] takes at most.
const DrainTimeout = time.Minute

// Drain publishes, by the relay that production has: when it returns, everything that was committed before the call is in Kafka. Topics that are missing are made.
// An event that cannot be published fails the test, with the reason.
func Drain(t testing.TB, pool *pgxpool.Pool, brokers []string) {
	t.Helper()
	Table{}.Drain(t, pool, brokers)
}

// Drain is the function of that name, for this table.
func (table Table) Drain(t testing.TB, pool *pgxpool.Pool, brokers []string) {
	t.Helper()
	if table.Schema == "" {
		table.Schema = "public"
	}
	ctx, cancel := context.WithTimeout(t.Context(), DrainTimeout)
	defer cancel()
	committed, err := table.unpublished(ctx, pool, nil)
	if err != nil {
		t.Fatalf("look for unpublished events in %s: %v; is the table migrated? `outbox migrate up` does it", table.sql(), err)
	}
	if len(committed) == 0 {
		return
	}
	stats, err := table.relayOnce(ctx, pool, brokers)
	if err != nil {
		t.Fatalf("drain %s: %v", table.sql(), err)
	}
	left, err := table.unpublished(context.WithoutCancel(ctx), pool, committed)
	if err != nil {
		t.Fatalf("look for unpublished events in %s: %v", table.sql(), err)
	}
	if len(left) > 0 {
		t.Fatal(leftText(left, stats, ctx.Err() != nil))
	}
}

func (table Table) relayOnce(ctx context.Context, pool *pgxpool.Pool, brokers []string) (relay.Stats, error) {
	source, err := postgres.New(pool, postgres.Config{Table: table.sql(), ApplicationName: "outboxtest"})
	if err != nil {
		return relay.Stats{}, err
	}
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: brokers, ClientID: "outboxtest", CreateTopics: &kafka.TopicSpec{}})
	if err != nil {
		return relay.Stats{}, err
	}
	engine, err := relay.New(source, publisher, relay.Config{Name: "outboxtest", Once: true})
	if err != nil {
		return relay.Stats{}, err
	}
	err = engine.Run(ctx)
	return engine.Stats(), err
}

// pending is an event that is not published.
type pending struct {
	id                       int64
	kind, topic, key, reason string
}

// unpublished returns the unpublished events, all or those among the given ones, with what stops their keys.
func (table Table) unpublished(ctx context.Context, pool *pgxpool.Pool, among []pending) ([]pending, error) {
	ids := make([]int64, len(among))
	for i, p := range among {
		ids[i] = p.id
	}
	rows, err := pool.Query(ctx, `SELECT e.id, e.event_type, e.topic, e.partition_key,
	coalesce((SELECT p.reason FROM outbox.parked_key p JOIN outbox.source s ON s.id = p.source
		WHERE (s.table_schema, s.table_name) = ($3, $4) AND p.topic = e.topic AND p.partition_key = e.partition_key), '')
FROM `+table.sql()+` e WHERE e.published_at IS NULL AND ($1 OR e.id = ANY ($2)) ORDER BY e.id`, among == nil, ids, table.Schema, table.name())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p pending, err error) {
		return p, row.Scan(&p.id, &p.kind, &p.topic, &p.key, &p.reason)
	})
}

// shown is how many events a failure lists.
const shown = 10

func leftText(left []pending, stats relay.Stats, late bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s not published", count(len(left)))
	if late {
		fmt.Fprintf(&b, " within %s", DrainTimeout)
		if stats.Waiting != "" {
			fmt.Fprintf(&b, ": relay %s has the table's lanes; end it, or drop Drain and wait for that one", stats.Waiting)
		}
	}
	for _, p := range left[:min(len(left), shown)] {
		fmt.Fprintf(&b, "\n  %s", describe(p.kind, p.topic, p.key))
		if p.reason != "" {
			fmt.Fprintf(&b, ": the key is parked: %s", p.reason)
		}
	}
	if len(left) > shown {
		fmt.Fprintf(&b, "\n  and %d more", len(left)-shown)
	}
	for _, topic := range slices.Sorted(maps.Keys(stats.HeldTopics)) {
		fmt.Fprintf(&b, "\n  topic %s: %v", topic, stats.HeldTopics[topic])
	}
	if stats.Paused || len(stats.PausedTopics) > 0 || stats.PausedKeys > 0 {
		b.WriteString("\n  publishing is paused: outbox pause list")
	}
	return b.String()
}
