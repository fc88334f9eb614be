package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/outbox-relay/outbox/internal/devkafka"
)

// Machine says what the figures were measured on.
type Machine struct {
	Cores             int    `json:"cores"`
	CPU               string `json:"cpu,omitempty"`
	OS                string `json:"os"`
	Go                string `json:"go"`
	PostgreSQL        string `json:"postgresql"`
	FSync             string `json:"fsync"`
	SynchronousCommit string `json:"synchronous_commit"`
	SharedBuffers     string `json:"shared_buffers"`
	Kafka             string `json:"kafka"`
}

func (s *stand) machine(ctx context.Context) (Machine, error) {
	m := Machine{
		Cores:      runtime.NumCPU(),
		CPU:        cpuName(),
		OS:         runtime.GOOS + "/" + runtime.GOARCH,
		Go:         runtime.Version(),
		PostgreSQL: s.server.Version(),
		Kafka:      fmt.Sprintf("%s, %d broker, %d partitions, acks=all", devkafka.Version, len(s.cluster.Nodes()), partitions),
	}
	const sql = `SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('shared_buffers')`
	if err := s.pool.QueryRow(ctx, sql).Scan(&m.FSync, &m.SynchronousCommit, &m.SharedBuffers); err != nil {
		return m, fmt.Errorf("read settings of PostgreSQL: %w", err)
	}
	return m, nil
}

func (m Machine) String() string {
	cores := fmt.Sprintf("%d cores", m.Cores)
	if m.CPU != "" {
		cores += " (" + m.CPU + ")"
	}
	return fmt.Sprintf("%s, %s, %s; PostgreSQL %s, fsync=%s, synchronous_commit=%s, shared_buffers=%s; Kafka %s; everything on this machine",
		cores, m.OS, m.Go, m.PostgreSQL, m.FSync, m.SynchronousCommit, m.SharedBuffers, m.Kafka)
}

// cpuName is what Linux calls the processor; "" elsewhere.
func cpuName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
