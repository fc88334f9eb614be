//go:build unix

package devkafka

import (
	"context"
	"strings"
	"testing"
)

func TestOneNodeOrThree(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{-1, 2, 4} {
		_, err := Start(context.Background(), Options{Nodes: nodes})
		if err == nil || !strings.Contains(err.Error(), "give 1 or 3") {
			t.Errorf("%d nodes: got %v, want an error that says which numbers are possible", nodes, err)
		}
	}
}

func TestThreeNodesShareClusterAndVotersButNoPort(t *testing.T) {
	t.Parallel()
	nodes, err := layOut(t.TempDir(), Options{Nodes: 3}.withDefaults(), tools{})
	if err != nil {
		t.Fatal(err)
	}
	ports := map[int]bool{}
	for _, n := range nodes {
		ports[n.port], ports[n.controllerPort] = true, true
		if n.clusterID != nodes[0].clusterID || n.voters != nodes[0].voters {
			t.Errorf("node %d: cluster %s voters %s, want those of node 1: %s %s", n.id, n.clusterID, n.voters, nodes[0].clusterID, nodes[0].voters)
		}
		if !strings.Contains(n.voters, n.dirID) {
			t.Errorf("node %d: its folder id %s is not among the voters %s", n.id, n.dirID, n.voters)
		}
	}
	if len(ports) != 6 {
		t.Errorf("ports: got %v, want 6 different ones", ports)
	}
}

func TestGivenSettingsWin(t *testing.T) {
	t.Parallel()
	n := &Node{id: 1, dir: "d", port: 1, controllerPort: 2}
	got := settings(n, []*Node{n}, map[string]string{"node.id": "9", "new": `a\b`})
	if got["node.id"] != "9" || got["auto.create.topics.enable"] != "false" || got["offsets.topic.replication.factor"] != "1" {
		t.Errorf("settings: got %v", got)
	}
	if got, want := escape(got["new"]), `a\\b`; got != want {
		t.Errorf("escaped: got %s, want %s", got, want)
	}
}

func TestAnIDIsNeverReadAsAnOption(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if id := randomID(); len(id) != 22 || id[0] == '-' {
			t.Fatalf("id %q: want 22 characters, the first one not -", id)
		}
	}
}
