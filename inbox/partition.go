package inbox

import (
	"context"
	"time"
)

// partition is an assigned partition: which of its records are on their way, and up to where all are settled.
type partition struct {
	Partition
	// open tells that it is assigned. Nothing of a partition that is not is handled or committed any more.
	open bool
	// flight are the records that were taken, in the order of their offsets, from the first that is not settled.
	flight []*item
	// next is the offset to go on from, once something is settled; committed is what Kafka has of it.
	next, committed int64
	settled         bool
	// busy is how many records workers have.
	busy int
	// paused tells that Kafka is asked for no more of it.
	paused bool
	keys   map[string]*queue
	// ctx ends when the partition must be let go at once.
	ctx    context.Context //nolint:containedctx // the assignment is what the context is the life of
	cancel context.CancelFunc
	// gone is closed when it is let go, and no commit of it can come any more. lost tells that another member may have it already: then nothing is committed.
	gone chan struct{}
	lost bool
	// idle is closed when the partition is not open and no worker has anything of it.
	idle chan struct{}
}

func newPartition(p Partition) *partition {
	ctx, cancel := context.WithCancel(context.Background())
	return &partition{Partition: p, open: true, keys: map[string]*queue{}, ctx: ctx, cancel: cancel, idle: make(chan struct{}), gone: make(chan struct{})}
}

// item is a record on its way.
type item struct {
	*Record
	partition *partition
	queue     *queue
	settled   bool
	// next is the offset to go on from when it is settled: behind it, and behind what follows it that nobody handles.
	next int64
	// arrived is when it was taken, bytes what is held of it.
	arrived time.Time
	bytes   int
	// failed is how often it was tried in vain, as far as this process knows.
	failed int
	// lost is when it first lost against other transactions; zero if it never has.
	lost time.Time
}

// settle takes that the item needs nothing any more.
func (p *partition) settle(it *item) {
	it.settled = true
	for len(p.flight) > 0 && p.flight[0].settled {
		p.next, p.settled = p.flight[0].next, true
		p.flight[0] = nil
		p.flight = p.flight[1:]
	}
	if len(p.flight) > 0 && it.Offset > p.flight[0].Offset {
		// Behind a key that is stuck a place is kept, and no megabytes of values that nobody needs any more.
		it.Record = &Record{Topic: it.Topic, Partition: it.Record.Partition, Offset: it.Offset}
	}
}

// uncommitted returns what is to be committed.
func (p *partition) uncommitted() (next int64, any bool) {
	return p.next, p.open && p.settled && p.next != p.committed
}

// queue holds the records of a key, or one record without a key. Either a worker has its first ones, or it is ready, or it waits for a time.
type queue struct {
	partition *partition
	key       string
	keyed     bool
	items     []*item
	// waits is set while it waits for a time, that of the timer.
	waits bool
	timer *time.Timer
	// slow tells that its first record is being tried again, or for long; weight is how many of its records count as moving.
	slow   bool
	weight int
}

// queueOf returns the queue that the record belongs to, and whether it is new.
func (p *partition) queueOf(r *Record) (q *queue, isNew bool) {
	if r.Key == nil {
		return &queue{partition: p}, true
	}
	if q := p.keys[string(r.Key)]; q != nil {
		return q, false
	}
	q = &queue{partition: p, key: string(r.Key), keyed: true}
	p.keys[q.key] = q
	return q, true
}

// shift drops the settled ones from the front. Behind one that is not, none is: it holds up its key.
func (q *queue) shift() {
	for len(q.items) > 0 && q.items[0].settled {
		q.items[0] = nil
		q.items = q.items[1:]
	}
}

func (q *queue) drop() {
	if q.keyed {
		delete(q.partition.keys, q.key)
	}
}
