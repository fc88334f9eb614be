package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// listener is a consumer that notes when events come.
type listener struct {
	client *kgo.Client
	cancel context.CancelFunc
	ended  chan struct{}

	mu   sync.Mutex // guards what follows
	seen map[uuid.UUID]arrival
	err  error
}

// arrival is when an event was there.
type arrival struct {
	appended time.Time // by the broker, cut to milliseconds
	arrived  time.Time // by the listener
	key      string    // the partition key, from which its lane follows
	producer int64     // the id of the client that has published it
}

// listen begins to read the topic. The caller must Close the listener.
func (s *stand) listen(ctx context.Context, topic string) (*listener, error) {
	client, err := s.consumer(topic)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &listener{client: client, cancel: cancel, ended: make(chan struct{}), seen: map[uuid.UUID]arrival{}}
	go l.read(ctx)
	return l, nil
}

// Close stops reading.
func (l *listener) Close() {
	l.cancel()
	<-l.ended
	l.client.Close()
}

func (l *listener) read(ctx context.Context) {
	defer close(l.ended)
	for ctx.Err() == nil {
		fetches := l.client.PollFetches(ctx)
		l.note(fetches, time.Now())
	}
}

// note keeps the first arrival of an event; that it was the only one is verified afterwards.
func (l *listener) note(fetches kgo.Fetches, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := fetches.Err(); err != nil {
		l.err = err
	}
	fetches.EachRecord(func(r *kgo.Record) {
		event, err := eventID(r)
		if err != nil {
			l.err = err
			return
		}
		if _, known := l.seen[event]; !known {
			l.seen[event] = arrival{r.Timestamp, now, string(r.Key), r.ProducerID}
		}
	})
}

// await returns when n events have arrived.
func (l *listener) await(ctx context.Context, n int) error {
	limit := time.NewTimer(arrivalLimit)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := l.count()
		if err != nil || got >= n {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("after %s only %d of %d events have arrived", arrivalLimit, got, n)
		case <-tick.C:
		}
	}
}

func (l *listener) count() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, fmt.Errorf("listen: %w", l.err)
	}
	return len(l.seen), nil
}

// latencies returns how long after its commit each event was there.
func (l *listener) latencies(done commits) clocks {
	l.mu.Lock()
	defer l.mu.Unlock()
	var appended, arrived []time.Duration
	for event, committed := range done {
		a := l.seen[event]
		appended = append(appended, a.appended.Sub(committed))
		arrived = append(arrived, a.arrived.Sub(committed))
	}
	return clocks{appended: spreadOf(appended), arrived: spreadOf(arrived)}
}
