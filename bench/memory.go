package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// memory measures the peak resident memory of the relay as a process of its own, with a large backlog and with a hundredth of it.
func (b *bench) memory(ctx context.Context) ([]Measure, error) {
	dir, err := os.MkdirTemp("", "outbox-bench-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(dir)
	program, err := build(ctx, dir)
	if err != nil {
		return nil, err
	}
	small := b.memoryRows / 100
	var peaks, smallPeaks []float64
	pairs := b.pairs
	if b.smoke {
		pairs = 1
	}
	for pair := range pairs {
		for _, run := range []struct {
			rows  int
			peaks *[]float64
		}{{b.memoryRows, &peaks}, {small, &smallPeaks}} {
			peak, err := b.memoryOne(ctx, program, run.rows)
			if err != nil {
				return nil, fmt.Errorf("backlog of %d: %w", run.rows, err)
			}
			*run.peaks = append(*run.peaks, peak)
			b.say("memory %d/%d  backlog of %-9d %6.1f MB", pair+1, pairs, run.rows, peak)
		}
	}
	m := compare(Measure{
		Name: "memory: backlog of " + number(float64(b.memoryRows)), Unit: "MB",
		Against: "relay, backlog of " + number(float64(small)), Better: lower,
	}, peaks, smallPeaks)
	m.aim("below 100 MB", m.Ours.Median < 100)
	return []Measure{m}, nil
}

// build makes the program from the repository around the bench.
func build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "outbox")
	out, err := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", program, "./cmd/outbox").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build cmd/outbox (run the bench in its own folder): %w\n%s", err, out)
	}
	return program, nil
}

// memoryOne returns the peak in megabytes of 1,000,000 bytes.
func (b *bench) memoryOne(ctx context.Context, program string, rows int) (peak float64, err error) {
	err = b.stand.withTopic(ctx, func(topic string) error {
		l, err := b.stand.backlog(ctx, rows, topic)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, program, "relay", "--once", "--create-topics")
		// Nothing of this process's environment but what the relay is to be measured with: a GOGC or GOMEMLIMIT would change the result.
		cmd.Env = []string{
			"DATABASE_URL=" + b.stand.server.URL("postgres"),
			"KAFKA_BROKERS=" + strings.Join(b.stand.cluster.Brokers(), ","),
		}
		if peak, err = watch(cmd); err != nil {
			return err
		}
		return b.stand.verify(ctx, topic, l)
	})
	return peak, err
}

// watch runs the command to its end. The kernel keeps the peak itself, so only growth in the last moments can be missed. The rusage of the
// ended process is of no use: it begins with the peak of the process that started it.
func watch(cmd *exec.Cmd) (peak float64, err error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the relay: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return 0, fmt.Errorf("the relay: %w\n%s", err, out.String())
			}
			if peak == 0 {
				return 0, errors.New("the relay ended before its memory could be read")
			}
			return peak, nil
		case <-tick.C:
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)); err == nil {
				peak = max(peak, peakOf(string(text)))
			}
		}
	}
}

// peakOf reads VmHWM from the text of /proc/PID/status, in megabytes; 0 when there is none, as of a process that has just ended.
func peakOf(status string) float64 {
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "VmHWM:" {
			kibibytes, _ := strconv.ParseFloat(fields[1], 64)
			return kibibytes * 1024 / 1e6
		}
	}
	return 0
}
