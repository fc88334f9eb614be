//go:build unix

package devkafka

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox/internal/devcert"
)

// Security adds two listeners with TLS to the one without, which stays for the test itself, and rules (ACLs) that bind everybody else.
//
//   - SASL listens with TLS and the mechanisms PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. The last takes tokens that are not signed.
//   - MTLS wants a client certificate of the authority.
//
// Whoever comes by the plain listener is User:ANONYMOUS, who may do anything.
type Security struct {
	// Authority has signed the brokers' certificates, and signs those of clients.
	Authority *devcert.Authority
	// Users are the passwords by names, the same for PLAIN and SCRAM.
	Users map[string]string
}

const (
	saslListener = "SASL"
	mtlsListener = "MTLS"
)

// SASL returns the addresses of the listeners with SASL, in the order of the nodes.
func (c *Cluster) SASL() []string { return c.addresses(func(n *Node) int { return n.saslPort }) }

// MTLS returns the addresses of the listeners that want a client certificate, in the order of the nodes.
func (c *Cluster) MTLS() []string { return c.addresses(func(n *Node) int { return n.mtlsPort }) }

func (c *Cluster) addresses(port func(*Node) int) []string {
	var list []string
	for _, n := range c.nodes {
		list = append(list, fmt.Sprintf("127.0.0.1:%d", port(n)))
	}
	return list
}

// Trust has the node use and trust another authority when it is started the next time.
func (n *Node) Trust(a *devcert.Authority) error { return n.writeCertificates(a) }

// writeCertificates gives the node a certificate of the authority, with its key in one file.
func (n *Node) writeCertificates(a *devcert.Authority) error {
	pair, err := a.Issue(devcert.Request{Name: "broker", Hosts: []string{"127.0.0.1", "broker"}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(n.file("broker.pem"), append(pair.Key, pair.Cert...), 0o600); err != nil {
		return err
	}
	return os.WriteFile(n.file("ca.pem"), a.PEM, 0o600)
}

// secured are a node's settings for the listeners with TLS.
func (n *Node) secured(s *Security, plain map[string]string) map[string]string {
	sasl, mtls := fmt.Sprintf(",%s://127.0.0.1:%d", saslListener, n.saslPort), fmt.Sprintf(",%s://127.0.0.1:%d", mtlsListener, n.mtlsPort)
	all := maps.Clone(plain)
	all["listeners"] += sasl + mtls
	all["advertised.listeners"] += sasl + mtls
	all["listener.security.protocol.map"] += "," + saslListener + ":SASL_SSL," + mtlsListener + ":SSL"
	all["ssl.keystore.type"], all["ssl.truststore.type"] = "PEM", "PEM"
	// An absolute folder: the process runs elsewhere.
	dir, _ := filepath.Abs(n.dir)
	all["ssl.keystore.location"], all["ssl.truststore.location"] = filepath.Join(dir, "broker.pem"), filepath.Join(dir, "ca.pem")
	all["listener.name.mtls.ssl.client.auth"] = "required"
	all["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
	all["super.users"] = "User:ANONYMOUS"

	const name = "listener.name.sasl."
	const security = "org.apache.kafka.common.security."
	all[name+"sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
	all[name+"plain.sasl.jaas.config"] = security + "plain.PlainLoginModule required" + s.plainUsers() + ";"
	for _, scram := range []string{"scram-sha-256", "scram-sha-512"} {
		all[name+scram+".sasl.jaas.config"] = security + "scram.ScramLoginModule required;"
	}
	all[name+"oauthbearer.sasl.jaas.config"] = security + `oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`
	return all
}

func (s *Security) plainUsers() string {
	var b strings.Builder
	for _, user := range slices.Sorted(maps.Keys(s.Users)) {
		fmt.Fprintf(&b, " user_%s=%q", user, s.Users[user])
	}
	return b.String()
}

// scramUsers are the options of the format command that store the passwords.
func (s *Security) scramUsers() (options []string) {
	for _, user := range slices.Sorted(maps.Keys(s.Users)) {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			options = append(options, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, user, s.Users[user]))
		}
	}
	return options
}
