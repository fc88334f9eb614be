package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/relay"
)

// closedAddress is where nothing listens, nor will before the test ends.
const closedAddress = "127.0.0.1:1"

func refusedOpen(t *testing.T, p *Publisher, code string, words ...string) {
	t.Helper()
	err := p.Open(testContext(t))
	if short(err) != "outage "+code {
		t.Fatalf("open: %v, want an outage with code %s", err, code)
	}
	for _, word := range append(words, p.cfg.Brokers[0]) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("open: %v, which does not say %q", err, word)
		}
	}
}

func TestOpenSaysThatThePasswordIsWrong(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{MechanismPlain, MechanismSCRAMSHA256, MechanismSCRAMSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			c := fake(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "relay", "right"), kfake.SeedTopics(1, "t"))
			// The fake hangs up on a wrong password; this is how Kafka answers.
			wrong := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, TopLevel: true, Err: kerr.SaslAuthenticationFailed, Count: -1})
			p := newPublisher(t, Config{Brokers: c.ListenAddrs(), SASL: &SASL{Mechanism: mechanism, Username: "relay", Password: "wrong-secret", WithoutTLS: true}})
			refusedOpen(t, p, "SASL_AUTHENTICATION_FAILED")
			err := p.Open(testContext(t))
			if strings.Contains(err.Error(), "wrong-secret") {
				t.Errorf("the password is in %v", err)
			}
			if !errors.Is(err, relay.ErrConfiguration) {
				t.Errorf("%v is not relay.ErrConfiguration: a relay would try again for ever", err)
			}
			wrong.Remove()
			right := opened(t, Config{Brokers: c.ListenAddrs(), SASL: &SASL{Mechanism: mechanism, Username: "relay", Password: "right", WithoutTLS: true}})
			o := newOutcomes(t)
			right.Publish([]*relay.Event{event(1, "t", "a")}, o.done)
			o.want(map[int64]string{1: ""})
		})
	}
}

// TLS on one side only, or SASL on one side only: the broker hangs up.
func TestOpenSaysWhatToLookAtWhenTheBrokerHangsUp(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.EnableSASL(), kfake.Superuser(MechanismPlain, "relay", "right"))
	p := newPublisher(t, Config{Brokers: c.ListenAddrs(), SASL: &SASL{Mechanism: MechanismPlain, Username: "relay", Password: "wrong", WithoutTLS: true}})
	refusedOpen(t, p, codeUnreachable, "TLS", "SASL")
}

func TestOpenSaysThatNoBrokerAnswers(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, Config{Brokers: []string{closedAddress}})
	refusedOpen(t, p, codeUnreachable, "connection refused")
	if err := p.Open(testContext(t)); errors.Is(err, relay.ErrConfiguration) {
		t.Errorf("%v is relay.ErrConfiguration: a relay would end in an outage", err)
	}
}

// It accepts connections and never answers.
func TestOpenGivesUpOnASilentBroker(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := newPublisher(t, Config{Brokers: []string{l.Addr().String()}, LeaseTTL: 5 * time.Second})
	refusedOpen(t, p, codeUnreachable)
}

func TestDestroyEndsAnOpenThatWaits(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := newPublisher(t, Config{Brokers: []string{l.Addr().String()}, LeaseTTL: time.Hour})
	result := make(chan error, 1)
	go func() { result <- p.Open(context.Background()) }()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = accepted.Close() }()
	p.Destroy()
	select {
	case err := <-result:
		if relay.ClassOf(err) != relay.ClassOutage {
			t.Errorf("open: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Open still waits after Destroy")
	}
}

func TestOpenNamesTheMissingPermissionAndWorksOnceItIsGranted(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "t"))
	denied := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.ClusterAuthorizationFailed, Count: -1})
	p := newPublisher(t, Config{Brokers: c.ListenAddrs()})
	refusedOpen(t, p, "CLUSTER_AUTHORIZATION_FAILED", "IDEMPOTENT_WRITE", "WRITE")
	denied.Remove()
	if err := p.Open(testContext(t)); err != nil {
		t.Fatalf("after the grant: %v", err)
	}
}

func TestConfigNamesEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	_, err := NewPublisher(Config{
		Brokers: []string{"nohost", "host:9092", ":1"}, Compression: "brotli", LeaseTTL: time.Second, MaxMessageBytes: 1,
		SASL: &SASL{Mechanism: "KERBEROS", Password: "secret"}, CreateTopics: &TopicSpec{Partitions: -1, Replication: 2000},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range []string{`"nohost"`, `":1"`, "brotli", "lease TTL 1s", "max message bytes 1", "KERBEROS", "username", "partitions of new topics -1", "replication of new topics 2000"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v: does not say %q", err, word)
		}
	}
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "host:9092") {
		t.Errorf("%v: says the password, or what is right", err)
	}
	if _, err := NewPublisher(Config{}); err == nil || !strings.Contains(err.Error(), "name at least one") {
		t.Errorf("without brokers: %v", err)
	}
}

func TestThePasswordIsNeverPrinted(t *testing.T) {
	t.Parallel()
	s := SASL{Mechanism: MechanismPlain, Username: "relay", Password: "secret"}
	c := Config{SASL: &s}
	var log syncBuffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "sasl", s, "pointer", &s)
	printed := log.String() + fmt.Sprintf("%v %+v %#v %s %v %+v %v", s, s, s, s, &s, c, c.SASL)
	if strings.Contains(printed, "secret") || !strings.Contains(printed, "relay") {
		t.Errorf("printed: %s", printed)
	}
}

func TestWhatWouldSendASecretInTheClearIsRefusedUnlessItIsAllowed(t *testing.T) {
	t.Parallel()
	oauth := &OAuth{TokenURL: "https://h/token", ClientID: "relay", ClientSecret: "secret"}
	for _, s := range []SASL{{Mechanism: MechanismPlain, Username: "relay", Password: "secret"}, {Mechanism: MechanismOAuth, OAuth: oauth}} {
		for _, c := range []struct{ tls, allowed, refused bool }{{refused: true}, {tls: true}, {allowed: true}} {
			s.WithoutTLS = c.allowed
			_, err := NewPublisher(Config{Brokers: []string{"h:1"}, TLS: c.tls, SASL: &s})
			if (err != nil) != c.refused || err != nil && (!strings.Contains(err.Error(), "without TLS sends") || strings.Contains(err.Error(), "secret")) {
				t.Errorf("%s, %+v: %v", s.Mechanism, c, err)
			}
		}
	}
}

func TestMaxDelayFollowsTheLease(t *testing.T) {
	t.Parallel()
	if got := newPublisher(t, Config{Brokers: []string{"h:1"}}).MaxDelay(); got != 5*time.Second {
		t.Errorf("default: %s, want 5s", got)
	}
	if got := newPublisher(t, Config{Brokers: []string{"h:1"}, LeaseTTL: 30 * time.Second}).MaxDelay(); got != 10*time.Second {
		t.Errorf("30s: %s, want 10s", got)
	}
}

func TestTheClientRepeatsItselfToTheLogOnlyNowAndThen(t *testing.T) {
	t.Parallel()
	clock := newClock()
	var log syncBuffer
	l := newClientLogger(slog.New(slog.NewTextHandler(&log, nil)), clock.now, &secrets{})
	for range 100 {
		l.Log(l.Level(), "unable to dial", "addr", "h:1")
		l.Log(l.Level(), "another thing")
		clock.advance(time.Second)
	}
	if got := strings.Count(log.String(), "unable to dial"); got != 4 {
		t.Errorf("%d lines in 100 s, want 4", got)
	}
}
