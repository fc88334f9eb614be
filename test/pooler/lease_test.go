//go:build integration

package pooler_test

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/relay"
)

const ttl = 5 * time.Second

const ownersSQL = `SELECT string_agg(DISTINCT coalesce(r.name, 'nobody'), ' and ' ORDER BY coalesce(r.name, 'nobody'))
FROM outbox.lane l LEFT JOIN outbox.relay r ON r.source = l.source AND r.owner = l.owner AND l.expires_at > clock_timestamp()`

// owners names those who hold the lanes, "nobody" for lanes whose lease has run out.
func (f *fixture) owners(t *testing.T) string {
	t.Helper()
	return queryOne[string](t, f.db.URL, ownersSQL)
}

// epochs are those of all lanes: another sum is another owner.
func (f *fixture) epochs(t *testing.T) int {
	t.Helper()
	return queryOne[int](t, f.db.URL, "SELECT sum(epoch) FROM outbox.lane")
}

func TestTheLeaseIsRenewedThroughABusyPool(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{PoolSize: 1})
	const ttl = 15 * time.Second
	e := f.start(t, f.url(), relay.Config{Name: "behind", LeaseTTL: ttl})
	await.Until(t, "the relay has the lanes", func() bool { return f.owners(t) == "behind" })
	before := f.epochs(t)
	_, stop := writing(t, newPool(t, f.db.URL))
	until := queryOne[time.Time](t, f.db.URL, "SELECT clock_timestamp()").Add(2 * ttl)
	await.Until(t, "the lease outlasts its length", func() bool {
		return queryOne[bool](t, f.db.URL, "SELECT min(expires_at) > $1 FROM outbox.lane", until)
	})
	stop()
	f.awaitAllPublished(t)
	f.checkOrder(t)
	if after := f.epochs(t); after != before {
		t.Errorf("the epochs went from %d to %d: the lease was lost (last error: %v)", before, after, e.Stats().LastError)
	}
}

// Somebody else's transaction holds the only connection for longer than the lease lasts.
func TestAFullPoolCostsTheLeaseAndNothingElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{PoolSize: 1})
	e := f.start(t, f.url(), relay.Config{Name: "behind", LeaseTTL: ttl})
	f.insert(t, topic, "order-1")
	f.awaitAllPublished(t)
	tx, err := f.pool(t, "exec").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.insert(t, topic, "order-1")
	await.Until(t, "the relay is silent", func() bool { return !e.Stats().Leading && f.owners(t) == "nobody" })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.insert(t, topic, "order-1")
	f.awaitAllPublished(t)
	f.checkOrder(t)
}

// A paused pooler is a cut network: the relay behind it is silent before its lease ends, and another one goes on.
func TestAPausedPoolerCostsTheLeaseAndNothingElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{})
	behind := f.start(t, f.url(), relay.Config{Name: "behind", LeaseTTL: ttl})
	await.Until(t, "the relay behind the pooler has all lanes", func() bool { return f.owners(t) == "behind" })
	direct := f.start(t, f.db.URL, relay.Config{Name: "direct", LeaseTTL: ttl})
	f.insert(t, topic, "order-1")
	f.awaitAllPublished(t)

	f.command(t, "PAUSE")
	f.insert(t, topic, "order-1")
	await.Until(t, "the other relay has all lanes", func() bool { return f.owners(t) == "direct" })
	f.awaitAllPublished(t)
	if behind.Stats().Leading {
		t.Error("the relay behind the paused pooler says that it leads")
	}

	f.command(t, "RESUME")
	f.insert(t, topic, "order-1")
	f.awaitAllPublished(t)
	direct.stop()
	f.insert(t, topic, "order-1")
	f.awaitAllPublished(t)
	await.Until(t, "the relay behind the pooler has all lanes again", func() bool { return f.owners(t) == "behind" })
	f.checkOrder(t)
}
