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
	now     func() time.Time

	mu    sync.Mutex
	total int
	shown bool
	// first and began are how many there were when it first moved, and when that was: what comes before, such as reaching the brokers, is not counted in the rate.
	first int
	began time.Time
}

func newProgress(out io.Writer, noun string) *progress {
	return &progress{out: out, visible: isTerminal(out), noun: noun, now: time.Now}
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
	if p.began.IsZero() && n > 0 {
		p.first, p.began = n, p.now()
	}
	if p.total == 0 || !p.visible {
		return
	}
	var took time.Duration
	if !p.began.IsZero() {
		took = p.now().Sub(p.began)
	}
	fmt.Fprint(p.out, clearLine, line(n, p.total, p.noun, n-p.first, took))
	p.shown = true
}

// line is the bar with the rate at which the last did of n came within took, and with the time left as soon as that can be estimated.
func line(n, total int, noun string, did int, took time.Duration) string {
	const width = 30
	filled := n * width / total
	text := fmt.Sprintf("%s%s %d/%d %s", strings.Repeat("█", filled), strings.Repeat("░", width-filled), n, total, noun)
	if did <= 0 || took <= 0 {
		return text
	}
	rate := float64(did) / took.Seconds()
	text += fmt.Sprintf("  %.0f/s", rate)
	if took < time.Second || n == total {
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
