package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// memory measures the peak resident memory of the relay as a process of its own, with a large backlog and with a hundredth of it.
func (b *bench) memory(ctx context.Context) (all []Measure, err error) {
	small := b.memoryRows / 100
	peak := func(p program, rows int) turn {
		return turn{"relay, backlog of " + number(float64(rows)), func(ctx context.Context) (float64, error) { return b.memoryOne(ctx, p, rows) }}
	}
	err = b.withProgram(ctx, func(p program) error {
		large, other := peak(p, b.memoryRows), peak(p, small)
		peaks, err := b.inTurns(ctx, "memory", "MB", large, other)
		if err != nil {
			return err
		}
		m := compare(Measure{
			Name: "memory: backlog of " + number(float64(b.memoryRows)), Unit: "MB", Against: other.name, Better: lower,
		}, peaks[large.name], peaks[other.name])
		m.aim("below 100 MB", m.Ours.Median < 100)
		all = append(all, m)
		return nil
	})
	return all, err
}

// memoryOne returns the peak in megabytes of 1,000,000 bytes.
func (b *bench) memoryOne(ctx context.Context, p program, rows int) (peak float64, err error) {
	table := b.stand.table
	err = b.stand.withTopic(ctx, func(topic string) error {
		if err := table.clear(ctx); err != nil {
			return err
		}
		l, err := table.fill(ctx, backlog{topic: topic, rows: rows})
		if err != nil {
			return err
		}
		if err := table.rest(ctx); err != nil {
			return err
		}
		if peak, err = watch(p.relay(ctx, "", "--once", "--create-topics")); err != nil {
			return err
		}
		return b.stand.verify(ctx, topic, table, l)
	})
	return peak, err
}

// watch runs the command to its end. The kernel keeps the peak itself, so only growth in the last moments can be missed. The rusage of the
// ended process is of no use: it begins with the peak of the process that started it.
func watch(cmd *exec.Cmd) (peak float64, err error) {
	p, err := start(cmd)
	if err != nil {
		return 0, err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			if p.err != nil {
				return 0, fmt.Errorf("the relay: %w\n%s", p.err, p.out)
			}
			if peak == 0 {
				return 0, errors.New("the relay ended before its memory could be read")
			}
			return peak, nil
		case <-tick.C:
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid())); err == nil {
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
