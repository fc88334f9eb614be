package demo

import (
	"fmt"
	"io"
	"time"
)

// display shows the live line: one that redraws on a terminal, one a second elsewhere.
type display struct {
	out      io.Writer
	terminal bool
	began    time.Time
}

func (d *display) interval() time.Duration {
	if d.terminal {
		return 200 * time.Millisecond
	}
	return time.Second
}

func (d *display) show(s Summary) {
	line := fmt.Sprintf("%5.0fs  written %d  published %d  consumed %d  backlog %d  latency p50 %.1f ms  p99 %.1f ms",
		time.Since(d.began).Seconds(), s.Written, s.Published, s.Consumed, max(0, s.Written-s.Published), s.LatencyP50MS, s.LatencyP99MS)
	if d.terminal {
		fmt.Fprintf(d.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(d.out, line)
}

// end leaves the live line where it is.
func (d *display) end() {
	if d.terminal {
		fmt.Fprintln(d.out)
	}
}

func (d *display) summary(s Summary) {
	verdict := "every committed event arrived, in the order of its key, and none of a rolled-back transaction"
	if !s.Sound() {
		verdict = "PROMISES BROKEN"
	}
	fmt.Fprintf(d.out, `
  written        %8d   committed with their orders
  rolled back    %8d   of which arrived: %d
  published      %8d   acknowledged by Kafka
  consumed       %8d   of which duplicates: %d
  lost           %8d
  out of order   %8d
  latency        p50 %.1f ms, p99 %.1f ms, from COMMIT to the consumer

%s
`, s.Written, s.RolledBack, s.Uncommitted, s.Published, s.Consumed, s.Duplicates, s.Lost, s.OutOfOrder, s.LatencyP50MS, s.LatencyP99MS, verdict)
}
