//go:build unix

package devkafka

import (
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox/internal/devport"
)

//go:embed log4j2.properties
var log4j []byte

// layOut chooses the ports and writes the configuration of all nodes below root.
func layOut(root string, opts Options, tools tools) ([]*Node, error) {
	ports, err := devport.Free(4 * opts.Nodes)
	if err != nil {
		return nil, err
	}
	cluster := randomID()
	nodes := make([]*Node, opts.Nodes)
	for i := range nodes {
		nodes[i] = &Node{
			id: i + 1, dir: filepath.Join(root, fmt.Sprintf("node-%d", i+1)), tools: tools, log: opts.Log,
			port: ports[4*i], controllerPort: ports[4*i+1], saslPort: ports[4*i+2], mtlsPort: ports[4*i+3], security: opts.Security,
			clusterID: cluster, dirID: randomID(),
		}
	}
	if len(nodes) > 1 {
		joinControllers(nodes)
	}
	for _, n := range nodes {
		if err := n.writeFiles(settings(n, nodes, opts.Config)); err != nil {
			return nil, fmt.Errorf("write configuration of node %d: %w", n.id, err)
		}
	}
	return nodes, nil
}

// joinControllers gives every node the same first quorum.
func joinControllers(nodes []*Node) {
	voters := make([]string, len(nodes))
	for i, n := range nodes {
		voters[i] = fmt.Sprintf("%d@%s:%s", n.id, n.controllerAddr(), n.dirID)
	}
	for _, n := range nodes {
		n.voters = strings.Join(voters, ",")
	}
}

// settings is a node's server.properties. It is made for short tests: a killed broker's registration expires soon, so that it can
// come back at once, and the internal topics are small.
func settings(n *Node, all []*Node, extra map[string]string) map[string]string {
	replicas, inSync := strconv.Itoa(len(all)), "1"
	if len(all) > 1 {
		inSync = "2"
	}
	controllers := make([]string, len(all))
	for i, c := range all {
		controllers[i] = c.controllerAddr()
	}
	s := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(n.id),
		"listeners":                      "PLAINTEXT://" + n.Addr() + ",CONTROLLER://" + n.controllerAddr(),
		"advertised.listeners":           "PLAINTEXT://" + n.Addr() + ",CONTROLLER://" + n.controllerAddr(),
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "PLAINTEXT",

		"controller.quorum.bootstrap.servers": strings.Join(controllers, ","),
		"log.dirs":                            filepath.Join(n.dir, "data"),
		"auto.create.topics.enable":           "false",
		"default.replication.factor":          replicas,
		"min.insync.replicas":                 inSync,

		"broker.session.timeout.ms":        "1500",
		"broker.heartbeat.interval.ms":     "200",
		"group.initial.rebalance.delay.ms": "0",
		"num.network.threads":              "2",
		"num.io.threads":                   "4",
		"log.cleaner.dedupe.buffer.size":   "4194304",
	}
	for _, internal := range []string{"offsets.topic.", "transaction.state.log.", "share.coordinator.state.topic."} {
		s[internal+"replication.factor"] = replicas
		s[internal+"num.partitions"] = "1"
	}
	if n.security != nil {
		s = n.secured(n.security, s)
	}
	s["transaction.state.log.min.isr"] = inSync
	s["share.coordinator.state.topic.min.isr"] = inSync
	maps.Copy(s, extra)
	return s
}

func (n *Node) writeFiles(settings map[string]string) error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	if n.security != nil {
		if err := n.writeCertificates(n.security.Authority); err != nil {
			return err
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", name, escape(settings[name]))
	}
	if err := os.WriteFile(n.file("server.properties"), []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(n.file("log4j2.properties"), log4j, 0o644)
}

// escape writes a value as Java's properties format reads it.
func escape(value string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(value)
}

// randomID is a random Kafka id: 16 bytes in URL-safe base64. One that begins with - would be read as an option.
func randomID() string {
	for {
		id := make([]byte, 16)
		rand.Read(id)
		if text := base64.RawURLEncoding.EncodeToString(id); text[0] != '-' {
			return text
		}
	}
}
