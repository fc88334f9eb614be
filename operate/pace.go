package operate

import (
	"context"
	"time"
)

// catchUp is how much of the time that a page has lost may be made up for.
const catchUp = time.Second

// pace keeps a rate, in things a second. The first call is the beginning: what the first page has cost, with which a client gets to know the topics, does not count.
type pace struct {
	rate int
	// due is when the next page may go out; zero before the first call.
	due time.Time
}

// rest waits as long as n things take by the rate, or less when ctx ends. What brokers that did not answer for a minute have cost is not made up for: the rate is there to spare the consumers.
func (p *pace) rest(ctx context.Context, n int64) {
	if p.due.IsZero() {
		p.due = time.Now()
	}
	if late := time.Now().Add(-catchUp); p.due.Before(late) {
		p.due = late
	}
	p.due = p.due.Add(time.Duration(n) * time.Second / time.Duration(p.rate))
	rest(ctx, time.Until(p.due))
}

// page is how many go at once: a tenth of a second's, so that what is cancelled stops soon and little is in memory.
func (p *pace) page(most int) int { return min(max(p.rate/10, 1), most) }
