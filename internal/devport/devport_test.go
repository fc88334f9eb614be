package devport

import (
	"slices"
	"testing"
)

func TestPortsAreFreeDifferentAndNotThoseOfClients(t *testing.T) {
	t.Parallel()
	ports, err := Free(100)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Sort(ports); len(slices.Compact(ports)) != 100 || ports[0] < 1024 || ports[99] >= 32768 {
		t.Errorf("the ports are %v", ports)
	}
}
