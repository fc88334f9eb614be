package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progress is a bar on a terminal, and nothing elsewhere. What is written to it comes out above the bar, which is drawn again when it next moves.
type progress struct {
	out     io.Writer
	visible bool
	noun    string
	began   time.Time

	mu    sync.Mutex
	total int
	shown bool
}

func newProgress(out io.Writer, noun string) *progress {
	return &progress{out: out, visible: isTerminal(out), noun: noun, began: time.Now()}
}

const clearLine = "\r\x1b[K"

// Write is of io.Writer: a whole line of the log.
func (p *progress) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		if _, err := io.WriteString(p.out, clearLine); err != nil {
			return 0, err
		}
		p.shown = false
	}
	return p.out.Write(line)
}

// expect tells how many there are. There may turn out to be more.
func (p *progress) expect(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = max(p.total, total)
}

func (p *progress) set(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = max(p.total, n)
	if p.total == 0 || !p.visible {
		return
	}
	fmt.Fprint(p.out, clearLine, line(n, p.total, p.noun, time.Since(p.began)))
	p.shown = true
}

// line is the bar with the rate, and with the time left as soon as that can be estimated.
func line(n, total int, noun string, took time.Duration) string {
	const width = 30
	filled := n * width / total
	rate := float64(n) / max(took.Seconds(), 0.001)
	text := fmt.Sprintf("%s%s %d/%d %s  %.0f/s", strings.Repeat("█", filled), strings.Repeat("░", width-filled), n, total, noun, rate)
	if took < time.Second || n == 0 || n == total {
		return text
	}
	left := time.Duration(float64(total-n) / rate * float64(time.Second))
	return fmt.Sprintf("%s  %s left", text, max(left.Round(time.Second), time.Second))
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprintln(p.out)
		p.shown = false
	}
}
