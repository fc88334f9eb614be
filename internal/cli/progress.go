package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct {
	out   io.Writer
	total int
	noun  string
	began time.Time
	shown bool
}

func newProgress(out io.Writer, total int, noun string) *progress {
	if !isTerminal(out) {
		out = io.Discard
	}
	return &progress{out: out, total: total, noun: noun, began: time.Now()}
}

func (p *progress) set(n int) {
	const width = 30
	p.total = max(p.total, n)
	if p.total == 0 {
		return
	}
	filled := n * width / p.total
	rate := float64(n) / max(time.Since(p.began).Seconds(), 0.001)
	fmt.Fprintf(p.out, "\r\x1b[K%s%s %d/%d %s  %.0f/s", strings.Repeat("█", filled), strings.Repeat("░", width-filled), n, p.total, p.noun, rate)
	p.shown = true
}

func (p *progress) end() {
	if p.shown {
		fmt.Fprintln(p.out)
	}
}
