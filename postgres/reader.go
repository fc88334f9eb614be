package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// reader implements [relay.Reader]; the package comment tells how it works. All its methods are called from one goroutine.
type reader struct {
	// db runs the reads, one statement each; locks asks who writes, over another connection.
	db    pg.Runner
	locks *lockAsker
	row   pg.Source
	now   func() time.Time
	// names are the topics and types seen, shared by the events.
	names map[string]string

	// server and sequence are those that Start spoke to.
	server   server
	sequence string
	// cursor: every id up to it has a row that was seen, or is a hole, or lies above pos.
	// pos: every visible event up to it was handed on, or left to a walk. Below cursor while everything is walked through.
	cursor, pos int64
	holes       holes
	// walk reads released keys and gained lanes from the beginning; next collects what is asked for meanwhile. Both may be nil.
	walk, next *walk
	// beyondDue tells that the rows above the sequence are to be read; beyond is how far they were.
	beyondDue bool
	beyond    int64
	// lanes are those that are handed out; the rows of others are visible and no more.
	lanes laneSet
	// density is that of the head's rows of the lanes.
	density density
	sieve   sieve
	// held is what Start was given; may be nil.
	held relay.Held
	// heldTopics and parked say what Start's walk leaves out: topics, and whether there are parked keys.
	heldTopics []string
	parked     bool
	// swept is how far the sweep has come.
	swept int64
	// aside are rows whose text PostgreSQL cannot make; they are read without it. bare is set while these are looked for.
	aside map[int64]struct{}
	bare  bool

	// fault makes the reader wrong on purpose: tests prove by it that they would notice.
	fault fault
	// betweenLooks is called where faultEarlierLook has its two snapshots.
	betweenLooks func()
	count        counts
}

// counts are what the reader has done since it was made.
type counts struct {
	// reads are statements that read; redone are those done again because a transaction had finished in their snapshot.
	reads, redone int
	// looked are the ids and wide spans of holes that reads looked up, finds the rows found there.
	looked, finds int
	// whole are the rows that came with their payload.
	whole int
}

// newReader returns a reader for the source. own are the process ids of the source's connections, empty behind a pooler.
func newReader(read, locks pg.Runner, row pg.Source, own []int32) *reader {
	asker := &lockAsker{db: locks, table: row.Table.SQL(), own: own, now: time.Now, every: minAskEvery}
	return &reader{db: read, locks: asker, row: row, now: time.Now, names: map[string]string{}}
}

// walking tells that there is older work below the cursor that nobody has seen yet.
func (r *reader) walking() bool { return r.pos < r.cursor }

// Start implements [relay.Reader].
func (r *reader) Start(ctx context.Context, held relay.Held, lanes []int32) error {
	r.held = held
	_, r.heldTopics = heldBy(held)
	r.lanes = newLaneSet(r.row.Lanes, lanes)
	r.density = r.lanes.density()
	r.server, r.swept = server{}, beginning
	return r.begin(ctx)
}

// begin forgets what was read and stands before the oldest unpublished row. The cursor is where the sequence stands and never the highest
// id: ids above the sequence are no promise that those below it were given. The server may be another one only after a call of Start.
func (r *reader) begin(ctx context.Context) error {
	a, err := r.fetch(ctx, &question{noHead: true})
	if err != nil {
		return err
	}
	switch {
	case a.server.recovery:
		return fmt.Errorf("start reading %s: %w: it is in recovery", r.row.Table, relay.ErrServerChanged)
	case r.server != server{} && !a.server.same(r.server):
		return r.changed(a.server)
	}
	if err := r.lookForParked(ctx); err != nil {
		return err
	}
	r.server, r.sequence = a.server, a.sequence
	r.cursor = a.top
	r.holes = holes{}
	r.rewalk()
	// The writers that are open now may hold ids below the cursor. The question comes before the first page: whoever is not in the
	// answer has committed by then, and the pages see it.
	now, err := r.ask(ctx)
	if err != nil {
		return err
	}
	if len(now) > 0 {
		r.holes.groups = []*group{{below: r.cursor, since: oldest(now, a.snapshot), asked: true, waits: now}}
	}
	return nil
}

// oldest returns the oldest xid that the holders can have, now or later.
func oldest(now holders, s snapshot) uint32 {
	first := s.xmax
	for _, xid := range now {
		if xid == 0 {
			return uint32(s.xmin)
		}
		first = min(first, s.widen(xid))
	}
	return uint32(first)
}

// rewalk makes the reader go through everything unpublished again, page by page, so nothing is left for other walks. What it hands out
// twice, the gate drops; the holes stay open.
func (r *reader) rewalk() {
	r.walk, r.next = nil, nil
	r.pos = beginning
	r.beyondDue, r.beyond = true, beginning
}

func (r *reader) lookForParked(ctx context.Context) error {
	err := r.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM outbox.parked_key WHERE source = $1)", r.row.ID).Scan(&r.parked)
	})
	if err != nil {
		return fmt.Errorf("look for parked keys of %s: %w", r.row.Table, err)
	}
	return nil
}

// ask asks pg_locks who writes now.
func (r *reader) ask(ctx context.Context) (holders, error) {
	now, start, err := r.locks.ask(ctx)
	if err != nil {
		return nil, err
	}
	if !start.Equal(r.server.started) {
		return nil, r.changed(server{started: start, timeline: r.server.timeline})
	}
	return now, nil
}

func (r *reader) changed(now server) error {
	return fmt.Errorf("read %s: %w: it was %s, it is %s", r.row.Table, relay.ErrServerChanged, r.server, now)
}

// Read implements [relay.Reader].
func (r *reader) Read(ctx context.Context, limit int) (relay.Batch, error) {
	if r.holes.needAnswer() && r.locks.due() {
		now, err := r.ask(ctx)
		if err != nil {
			return relay.Batch{}, err
		}
		r.holes.answer(now)
		r.applyFault()
	}
	for {
		batch, done, err := r.read(ctx, max(limit, 1))
		if done || err != nil {
			return batch, err
		}
	}
}

// read puts one question to the database and takes in the answer. It is not done when the answer has shown that the question must be
// another one; nothing was handed on then.
func (r *reader) read(ctx context.Context, limit int) (batch relay.Batch, done bool, err error) {
	r.leaveHeld()
	wasWalking := r.walking()
	q := &question{limit: limit, head: r.density.rows(limit), walk: r.walk, beyond: r.beyondDue && !wasWalking}
	if r.walk != nil {
		q.page = r.walk.density.rows(limit)
	}
	q.look, q.skipped = r.holes.toLook()
	a, err := r.put(ctx, q)
	if err != nil {
		return batch, false, err
	}
	switch {
	case !a.server.same(r.server):
		return batch, false, r.changed(a.server)
	case a.headers != r.row.Headers:
		// The column was added: the rows of this answer may have headers that it lacks.
		r.row.Headers = a.headers
		return batch, false, nil
	case a.top < r.cursor || a.sequence != r.sequence:
		// RESTART or setval: ids are given a second time.
		return batch, false, r.begin(ctx)
	case len(a.finds) > maxFinds:
		r.rewalk()
		return batch, false, nil
	case r.finishedIn(a.snapshot, q.skipped):
		r.count.redone++
		return batch, false, nil
	}
	batch = r.takeIn(q, a)
	// A walk that ends with nothing has told nothing yet: the head may have something.
	ended := wasWalking && !r.walking()
	return batch, !ended || len(batch.Events) > 0, nil
}

// finishedIn strikes off the holders of skipped groups that are not running in s. If there were any, what they have committed is visible
// to this read but was not looked at, while the head may hold what came after it.
func (r *reader) finishedIn(s snapshot, skipped []*group) bool {
	finished := false
	for _, g := range skipped {
		if g.strikeFinished(s) {
			g.looked = r.fault == faultNoLookAfterChange
			finished = true
		}
	}
	return finished
}
