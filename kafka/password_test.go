package kafka

import (
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/relay"
)

// rotate gives the user another password on the cluster, which forgets the old one.
func rotate(t *testing.T, c *kfake.Cluster, mechanism, password string) {
	t.Helper()
	admin := &SASL{Mechanism: mechanism, Username: "admin", Password: "admin"}
	cl := plainClient(t, c.ListenAddrs(), kgo.SASL(admin.mechanism(Config{}.withDefaults())))
	defer cl.Close()
	named := kadm.ScramSha256
	if mechanism == MechanismSCRAMSHA512 {
		named = kadm.ScramSha512
	}
	answer, err := kadm.NewClient(cl).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "relay", Mechanism: named, Iterations: 4096, Password: password}})
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// cutter is a network whose connections can be cut, all at once.
type cutter struct {
	mu       sync.Mutex
	accepted []net.Conn
}

// listen is for kfake.ListenFn.
func (c *cutter) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return &cutListener{l, c}, err
}

type cutListener struct {
	net.Listener
	cutter *cutter
}

func (l *cutListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.cutter.mu.Lock()
		l.cutter.accepted = append(l.cutter.accepted, conn)
		l.cutter.mu.Unlock()
	}
	return conn, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.accepted {
		_ = conn.Close()
	}
	c.accepted = nil
}

// A publisher that has worked loses its connections, and has to authenticate again: with the password of now.
func TestARotatedPasswordIsUsedForTheNextConnection(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{MechanismSCRAMSHA256, MechanismSCRAMSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			network := &cutter{}
			c := fake(t, kfake.ListenFn(network.listen), kfake.EnableSASL(), kfake.SeedTopics(1, "t"),
				kfake.Superuser(mechanism, "admin", "admin"), kfake.Superuser(mechanism, "relay", "old"))
			var password atomic.Value
			password.Store("old")
			p := opened(t, Config{Brokers: c.ListenAddrs(), SASL: &SASL{
				Mechanism: mechanism, Username: "relay", PasswordFunc: func() (string, error) { return password.Load().(string), nil },
			}})
			o := newOutcomes(t)
			p.Publish([]*relay.Event{event(1, "t", "a")}, o.done)
			o.want(map[int64]string{1: ""})

			rotate(t, c, mechanism, "new")
			password.Store("new")
			network.cut()
			o = newOutcomes(t)
			p.Publish([]*relay.Event{event(2, "t", "a")}, o.done)
			o.want(map[int64]string{2: ""})
			if old := newPublisher(t, Config{Brokers: c.ListenAddrs(), SASL: &SASL{Mechanism: mechanism, Username: "relay", Password: "old"}}); old.Open(testContext(t)) == nil {
				t.Error("the old password still works: nothing was shown")
			}
		})
	}
}

func TestAPasswordThatCannotBeHadFailsTheConnectionWithTheReason(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{MechanismPlain, MechanismSCRAMSHA256, MechanismSCRAMSHA512} {
		c := fake(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "relay", "right"))
		p := newPublisher(t, Config{Brokers: c.ListenAddrs(), SASL: &SASL{
			Mechanism: mechanism, Username: "relay", WithoutTLS: true, PasswordFunc: func() (string, error) { return "", errors.New("the vault is sealed") },
		}})
		if err := p.Open(testContext(t)); err == nil || !strings.Contains(err.Error(), "the vault is sealed") {
			t.Errorf("%s: got %v", mechanism, err)
		}
	}
}
