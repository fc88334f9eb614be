package cli

import (
	"testing"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/devcert"
	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/postgres"
)

// Both ends change to certificates of new authorities while a relay works: it waits as long as its files are the old ones, and comes back with the new ones.
func TestRotatedCertificatesAreUsedForTheNextConnection(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	client := devcert.Request{Name: "certified"}
	parameters := "&sslrootcert=" + s.file(t, "root.crt", s.servers.PEM) + s.pair(t, "client", issue(t, s.clients, client))
	source, err := config.Database(t.Context(), nil, config.Environment{"DATABASE_URL": s.address("certified", "127.0.0.1", parameters)}, "")
	if err != nil {
		t.Fatal(err)
	}
	source.Brokers = newCluster(t, "shop.order").ListenAddrs()
	fleet := fleetOf(t, *source)
	atWork(t, fleet)
	s.write(t)
	await.Until(t, "the first event is published", s.published(t))

	servers, clients := newAuthority(t), newAuthority(t)
	if err := s.SetTLS(devpg.TLS{Pair: issue(t, servers, onLoopback), ClientCA: clients.PEM}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the relay refuses the server", func() bool {
		run(t, s.admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'certified'")
		st := fleet.States()[0]
		if !st.Made {
			return false
		}
		trouble, found := postgres.FindTLSTrouble(st.Engine.Stats().LastError)
		return found && trouble.Lasting
	})
	s.write(t)
	// A file that is being written is no reason to do without any.
	s.file(t, "root.crt", []byte("-----BEGIN"))
	s.pair(t, "client", issue(t, clients, client))
	s.file(t, "root.crt", servers.PEM)
	await.Until(t, "the second event is published", s.published(t))
}

func (s *secured) write(t *testing.T) {
	t.Helper()
	run(t, s.admin, "INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key) VALUES (gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 'shop.order', 'k')")
}

func (s *secured) published(t *testing.T) func() bool {
	return func() bool {
		var left int
		err := s.admin.QueryRow(t.Context(), "SELECT count(*) FROM outbox_event WHERE published_at IS NULL").Scan(&left)
		return err == nil && left == 0
	}
}
