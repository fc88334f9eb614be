package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Check compares the witnesses.
func Check(h *History) *Report {
	c := &checker{History: h, report: &Report{Counts: map[Kind]int{}, history: h}}
	c.learn()
	c.records()
	for _, s := range c.order {
		c.firsts(s)
		c.stragglers(s)
	}
	c.rows()
	for _, doubt := range h.Doubts {
		c.report.add(Ledger, Stream{}, "%s", doubt)
	}
	for s, reason := range h.Parked {
		c.report.add(Parked, s, "%s", reason)
	}
	return c.report
}

type checker struct {
	*History
	report     *Report
	committed  map[uuid.UUID]Event
	rolledBack map[uuid.UUID]Event
	// streams are the records of each stream that are known and no rubbish, in the order of their partition; order lists the streams.
	streams map[Stream][]Record
	order   []Stream
	lengths map[Stream]int
	times   map[uuid.UUID]int
}

// learn looks at the ledger. Its sequence numbers come from a locked row, so they have no gaps and no repeats.
func (c *checker) learn() {
	c.committed, c.rolledBack = map[uuid.UUID]Event{}, map[uuid.UUID]Event{}
	c.streams, c.lengths, c.times = map[Stream][]Record{}, map[Stream]int{}, map[uuid.UUID]int{}
	for _, e := range c.RolledBack {
		c.rolledBack[e.ID] = e
	}
	for _, e := range slices.SortedFunc(slices.Values(c.Committed), func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) }) {
		c.committed[e.ID] = e
		if c.lengths[e.Stream] == 0 {
			c.order = append(c.order, e.Stream)
		}
		if c.lengths[e.Stream]++; c.lengths[e.Stream] != e.Seq {
			c.report.add(Ledger, e.Stream, "committed number %d is event %s with sequence number %d", c.lengths[e.Stream], e.ID, e.Seq)
		}
	}
}

func (c *checker) records() {
	partitions := map[Stream]int32{}
	for _, r := range c.Records {
		e, known := c.committed[r.ID]
		if !known {
			c.strange(r)
			continue
		}
		if p, seen := partitions[r.Stream]; seen && p != r.Partition {
			c.report.add(Moved, r.Stream, "event %s is in partition %d, earlier ones in %d", r.ID, r.Partition, p)
		}
		partitions[r.Stream] = r.Partition
		if e.Stream != r.Stream || e.Seq != r.Seq {
			c.report.add(Garbled, e.Stream, "event %s number %d came as number %d of topic %s key %s", e.ID, e.Seq, r.Seq, r.Topic, r.Key)
			continue
		}
		c.streams[r.Stream] = append(c.streams[r.Stream], r)
		if c.times[r.ID]++; c.times[r.ID] == 1 {
			c.report.count(Arrived)
		} else {
			c.repeat(r)
		}
	}
}

func (c *checker) strange(r Record) {
	if _, is := c.rolledBack[r.ID]; is {
		c.report.add(Uncommitted, r.Stream, "event %s of a transaction that was rolled back is at offset %d of partition %d", r.ID, r.Offset, r.Partition)
		return
	}
	c.report.add(Uncommitted, r.Stream, "event %s, which no writer knows, is at offset %d of partition %d", r.ID, r.Offset, r.Partition)
}

// repeat asks for the reason of a repeat: a fault while the event was unpublished.
func (c *checker) repeat(r Record) {
	c.report.count(Repeated)
	if c.Rows == nil {
		return
	}
	row := c.Rows[r.ID]
	explains := func(f Fault) bool {
		return f.Repeats && !row.CreatedAt.After(f.Until) && (row.PublishedAt.IsZero() || !row.PublishedAt.Before(f.From))
	}
	made := func(f Fault) bool { return !f.Own && explains(f) }
	switch {
	case slices.ContainsFunc(c.Faults, made):
	case slices.ContainsFunc(c.Faults, explains):
		c.report.count(OwnRepeat)
	default:
		c.report.add(Unexplained, r.Stream, "event %s number %d came again at %s; no fault falls between its commit at %s and its settle at %s",
			r.ID, r.Seq, clock(r.At), clock(row.CreatedAt), clock(row.PublishedAt))
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// firsts looks at a stream's first deliveries: 1, 2, 3 and so on, all of them.
func (c *checker) firsts(s Stream) {
	seen := make([]bool, c.lengths[s]+1)
	next := 1
	for _, r := range c.streams[s] {
		if r.Seq >= len(seen) || seen[r.Seq] {
			continue
		}
		seen[r.Seq] = true
		if r.Seq > next {
			c.report.add(Turned, s, "number %d came at %s, before number %d", r.Seq, clock(r.At), next)
		}
		for next < len(seen) && seen[next] {
			next++
		}
	}
}

// graceAfterFreeze is how long after a thaw a straggler is laid to the freeze.
const graceAfterFreeze = 30 * time.Second

// stragglers looks for repeats from which the stream does not climb again. The last record of a stream is its highest, or was left hanging.
func (c *checker) stragglers(s Stream) {
	records, seen := c.streams[s], map[int]bool{}
	highest := 0
	for i, r := range records {
		first := !seen[r.Seq]
		seen[r.Seq] = true
		highest = max(highest, r.Seq)
		next := highest + 1
		if i+1 < len(records) {
			next = records[i+1].Seq
		}
		if first || r.Seq == highest || next <= r.Seq+1 {
			continue
		}
		if c.frozen(r.At) {
			c.report.count(FrozenStraggler)
			continue
		}
		c.report.add(Straggler, s, "number %d came again at %s behind number %d, and then comes number %d or nothing", r.Seq, clock(r.At), highest, next)
	}
}

func (c *checker) frozen(at time.Time) bool {
	return slices.ContainsFunc(c.Faults, func(f Fault) bool {
		return f.Freezes && !at.Before(f.From) && !at.After(f.Until.Add(graceAfterFreeze))
	})
}

// rows looks at what the table says of the committed events.
func (c *checker) rows() {
	for _, e := range c.Committed {
		row, there := c.Rows[e.ID]
		settled := there && !row.PublishedAt.IsZero()
		arrived := c.times[e.ID] > 0
		switch {
		case !arrived && settled:
			c.report.add(Unbacked, e.Stream, "event %s number %d was settled at %s", e.ID, e.Seq, clock(row.PublishedAt))
		case !arrived:
			c.report.add(Lost, e.Stream, "event %s number %d", e.ID, e.Seq)
		case c.Rows == nil:
		case !there:
			c.report.add(Ledger, e.Stream, "event %s number %d has no row any more", e.ID, e.Seq)
		case !settled:
			c.report.add(Unsettled, e.Stream, "event %s number %d", e.ID, e.Seq)
		}
	}
}
