package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// result is what a promise brought: nil when the broker has acknowledged the record.
type result struct {
	item *item
	err  error
}

// queue is where promises leave their results. A promise must do nothing more: the client runs one at a time, and one that
// produces waits for room that only later promises make.
type queue struct {
	mu      sync.Mutex
	results []result
	spare   []result
	// failed tells that one of results is a failure.
	failed bool
}

// put appends and tells whether the queue was empty.
func (q *queue) put(r result) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.results = append(q.results, r)
	q.failed = q.failed || r.err != nil
	return len(q.results) == 1
}

// take empties the queue. What it returns is valid until the next take.
func (q *queue) take() []result {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.spare)
	q.results, q.spare = q.spare[:0], q.results
	q.failed = false
	return q.spare
}

// failures returns the items of one send that have failed so far.
func (q *queue) failures(send uint64) map[*item]struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.failed {
		return nil
	}
	failed := map[*item]struct{}{}
	for _, r := range q.results {
		if r.err != nil && r.item.send == send {
			failed[r.item] = struct{}{}
		}
	}
	return failed
}

// promise is the client's callback for every record.
func (s *session) promise(r *kgo.Record, err error) {
	if s.queue.put(result{r.Context.(*item), err}) {
		poke(s.wake)
	}
}
