//go:build integration

package kafka_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/relay"
)

// The brokers get certificates of another authority, and trust clients of that alone. The relay runs on: its files are replaced beneath it.
func TestCertificatesAreReplacedWhileTheRelayRuns(t *testing.T) {
	t.Parallel()
	cluster, authority := startSecure(t)
	t.Cleanup(func() { _ = cluster.Close() })
	f := newSecureFixtureOn(t, cluster, authority)
	f.certificate(t, authority, "relay", time.Hour)
	f.access = kafka.Config{
		Brokers: cluster.MTLS(), TLSCAFile: filepath.Join(f.dir, "ca.pem"), TLSCertFile: filepath.Join(f.dir, "relay.crt"), TLSKeyFile: filepath.Join(f.dir, "relay.key"),
	}
	topic := f.topic(t, name("rotated"), 3)
	f.allowed(t, "User:CN=relay", kafka.RelayACLs([]string{topic}, false)...)
	e := f.start(t, relay.Config{})
	stop := f.writing(t, topic)
	await.Until(t, "events flow", func() bool { return e.Stats().Published > 50 })

	next := newAuthority(t)
	node := cluster.Nodes()[0]
	if err := node.Trust(next); err != nil {
		t.Fatal(err)
	}
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the relay does not trust the broker any more", func() bool { return e.log.Says("signed by another authority than those of the CA file") })
	// A file that is half written is no reason to forget what was there.
	f.write(t, "ca.pem", []byte("-----BEGIN CERTIFICATE-----\n"))
	await.Until(t, "the relay says what is wrong with the file", func() bool { return e.log.Says("TLS files cannot be used") })
	f.certificate(t, next, "relay", time.Hour)
	f.write(t, "ca.pem", next.PEM)
	before := e.Stats().Published
	await.Until(t, "events flow again", func() bool { return e.Stats().Published > before+50 })
	stop()
	f.awaitPublished(t)
	f.compareOrder(t, topic)
}
