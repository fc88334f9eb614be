package history_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/test/chaos/history"
)

// stream is the one that most cases use.
var stream = history.Stream{Topic: "t", Key: "k"}

// at is n seconds after the beginning of the world.
func at(n float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(n * float64(time.Second)))
}

// id is the event id of a number.
func id(seq int) uuid.UUID { return uuid.UUID{byte(seq), byte(seq >> 8), 1} }

// world is a history of n committed events: number i is committed at second i, and settled half a second later. Its records are the given numbers, one each
// tenth of a second from second 100 on.
func world(n int, records ...int) *history.History {
	h := &history.History{Rows: map[uuid.UUID]history.Row{}}
	for i := 1; i <= n; i++ {
		h.Committed = append(h.Committed, history.Event{ID: id(i), Stream: stream, Seq: i})
		h.Rows[id(i)] = history.Row{CreatedAt: at(float64(i)), PublishedAt: at(float64(i) + 0.5)}
	}
	for i, seq := range records {
		h.Records = append(h.Records, history.Record{ID: id(seq), Stream: stream, Seq: seq, Offset: int64(i), At: at(100 + float64(i)/10)})
	}
	return h
}

// excused lets every repeat be laid to a fault.
func excused(h *history.History) *history.History {
	h.Faults = append(h.Faults, history.Fault{What: "kill", From: at(0), Until: at(1000), Repeats: true})
	return h
}

func TestCheck(t *testing.T) {
	t.Parallel()
	type counts = map[history.Kind]int
	for name, c := range map[string]struct {
		h    *history.History
		want counts
	}{
		"all in order":                           {world(3, 1, 2, 3), counts{history.Arrived: 3}},
		"a re-run":                               {excused(world(4, 1, 2, 3, 2, 3, 4)), counts{history.Arrived: 4, history.Repeated: 2}},
		"a re-run that was interrupted":          {excused(world(4, 1, 2, 3, 1, 2, 2, 3, 4)), counts{history.Arrived: 4, history.Repeated: 4}},
		"a repeat at once":                       {excused(world(2, 1, 1, 2)), counts{history.Arrived: 2, history.Repeated: 1}},
		"lost at the end":                        {unsettle(world(3, 1, 2), 3), counts{history.Arrived: 2, history.Lost: 1}},
		"settled and not in Kafka":               {world(3, 1, 2), counts{history.Arrived: 2, history.Unbacked: 1}},
		"lost in the middle":                     {unsettle(world(3, 1, 3), 2), counts{history.Arrived: 2, history.Lost: 1, history.Turned: 1}},
		"two turned":                             {world(3, 1, 3, 2), counts{history.Arrived: 3, history.Turned: 1}},
		"a straggler between":                    {excused(world(4, 1, 2, 3, 2, 4)), counts{history.Arrived: 4, history.Repeated: 1, history.Straggler: 1}},
		"a straggler at the end":                 {excused(world(3, 1, 2, 3, 2)), counts{history.Arrived: 3, history.Repeated: 1, history.Straggler: 1}},
		"a re-run that stops short":              {excused(world(5, 1, 2, 3, 4, 2, 3, 5)), counts{history.Arrived: 5, history.Repeated: 2, history.Straggler: 1}},
		"a repeat without a fault":               {world(2, 1, 1, 2), counts{history.Arrived: 2, history.Repeated: 1, history.Unexplained: 1}},
		"a repeat before its fault":              {fault(world(2, 1, 2, 2), history.Fault{From: at(2.6), Until: at(3), Repeats: true}), counts{history.Arrived: 2, history.Repeated: 1, history.Unexplained: 1}},
		"a repeat after its fault":               {fault(world(2, 1, 2, 2), history.Fault{From: at(1), Until: at(1.9), Repeats: true}), counts{history.Arrived: 2, history.Repeated: 1, history.Unexplained: 1}},
		"a repeat of what was unpublished":       {fault(world(2, 1, 2, 2), history.Fault{From: at(2.2), Until: at(2.3), Repeats: true}), counts{history.Arrived: 2, history.Repeated: 1}},
		"a fault that explains no repeats":       {fault(world(2, 1, 2, 2), history.Fault{From: at(2.2), Until: at(2.3)}), counts{history.Arrived: 2, history.Repeated: 1, history.Unexplained: 1}},
		"a repeat after an interruption":         {fault(world(2, 1, 2, 2), history.Fault{From: at(2.2), Until: at(2.3), Repeats: true, Own: true}), counts{history.Arrived: 2, history.Repeated: 1, history.OwnRepeat: 1}},
		"an interruption during a fault":         {fault(excused(world(2, 1, 2, 2)), history.Fault{From: at(2.2), Until: at(2.3), Repeats: true, Own: true}), counts{history.Arrived: 2, history.Repeated: 1}},
		"a straggler of a frozen process":        {fault(excused(world(3, 1, 2, 3, 2)), history.Fault{From: at(90), Until: at(100), Freezes: true}), counts{history.Arrived: 3, history.Repeated: 1, history.FrozenStraggler: 1}},
		"a straggler long after a freeze":        {fault(excused(world(3, 1, 2, 3, 2)), history.Fault{From: at(10), Until: at(20), Freezes: true}), counts{history.Arrived: 3, history.Repeated: 1, history.Straggler: 1}},
		"a freeze does not excuse what turned":   {fault(world(3, 1, 3, 2), history.Fault{From: at(90), Until: at(100), Freezes: true}), counts{history.Arrived: 3, history.Turned: 1}},
		"not settled":                            {unsettle(world(2, 1, 2), 2), counts{history.Arrived: 2, history.Unsettled: 1}},
		"deleted rows":                           {deleted(world(2, 1, 2, 2)), counts{history.Arrived: 2, history.Repeated: 1}},
		"a row that is gone":                     {forget(world(2, 1, 2), 2), counts{history.Arrived: 2, history.Ledger: 1}},
		"rolled back":                            {rolledBack(world(1, 1, 7), 7), counts{history.Arrived: 1, history.Uncommitted: 1}},
		"unknown":                                {world(1, 1, 7), counts{history.Arrived: 1, history.Uncommitted: 1}},
		"parked":                                 {park(world(1, 1)), counts{history.Arrived: 1, history.Parked: 1}},
		"another number than was written":        {garble(world(2, 1, 2)), counts{history.Arrived: 1, history.Unbacked: 1, history.Garbled: 1}},
		"another partition":                      {move(world(2, 1, 2)), counts{history.Arrived: 2, history.Moved: 1}},
		"a ledger with a gap is the lab's fault": {ledgerGap(world(2, 1, 2)), counts{history.Arrived: 2, history.Ledger: 1}},
		"a commit that the database denies":      {doubt(world(1, 1)), counts{history.Arrived: 1, history.Ledger: 1}},
	} {
		r := history.Check(c.h)
		if !maps.Equal(r.Counts, c.want) {
			t.Errorf("%s:\n got %v\nwant %v\n%s", name, r.Counts, c.want, r)
		}
		wrong := 0
		for kind, n := range c.want {
			if !slices.Contains([]history.Kind{history.Arrived, history.Repeated, history.OwnRepeat, history.FrozenStraggler}, kind) {
				wrong += n
			}
		}
		if len(r.Findings) != wrong || r.OK() != (wrong == 0) {
			t.Errorf("%s: %d findings and OK %v, want %d", name, len(r.Findings), r.OK(), wrong)
		}
	}
}

func TestAReportShowsTheHistoryOfTheKeyWithTheFaults(t *testing.T) {
	t.Parallel()
	h := fault(world(3, 1, 3, 2), history.Fault{What: "kill -9 of relay 2", From: at(100.05), Until: at(100.15)})
	got := history.Check(h).String()
	lines := []string{"number 3 came", "record    1", "FAULT begins: kill -9 of relay 2", "record    3", "fault is over", "record    2"}
	for _, want := range lines {
		_, rest, found := strings.Cut(got, want)
		if !found {
			t.Fatalf("the report does not say %q after what comes before:\n%s", want, history.Check(h))
		}
		got = rest
	}
}

func fault(h *history.History, f history.Fault) *history.History {
	h.Faults = append(h.Faults, f)
	return h
}

func unsettle(h *history.History, seq int) *history.History {
	h.Rows[id(seq)] = history.Row{CreatedAt: at(float64(seq))}
	return h
}

func deleted(h *history.History) *history.History {
	h.Rows = nil
	return h
}

func forget(h *history.History, seq int) *history.History {
	delete(h.Rows, id(seq))
	return h
}

func rolledBack(h *history.History, seq int) *history.History {
	h.RolledBack = append(h.RolledBack, history.Event{ID: id(seq), Stream: stream, Seq: seq})
	return h
}

func park(h *history.History) *history.History {
	h.Parked = map[history.Stream]string{stream: "too large"}
	return h
}

func garble(h *history.History) *history.History {
	h.Records[1].Seq = 1
	return h
}

func move(h *history.History) *history.History {
	h.Records[1].Partition = 1
	return h
}

func ledgerGap(h *history.History) *history.History {
	h.Committed[1].Seq = 3
	h.Records[1].Seq = 3
	return h
}

func doubt(h *history.History) *history.History {
	h.Doubts = append(h.Doubts, "transaction 1 was committed and is not there")
	return h
}
