package postgres

import (
	"fmt"
	"slices"
	"testing"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// inLane returns a partition key of the lane, another one for each n.
func inLane(lane int32, n int) string {
	for i := 0; ; i++ {
		k := fmt.Sprint("lane ", lane, ", ", i)
		if relay.Lane(k, 8) != lane {
			continue
		}
		if n == 0 {
			return k
		}
		n--
	}
}

// Keys of the tests: of lanes 1 and 2, of which the reader has 1 at first, and gains 2.
var (
	own, gained   = inLane(1, 0), inLane(2, 0)
	laneOfGained  = []int32{2}
	otherOfGained = inLane(2, 1)
)

// gain makes the reader have the lane of gained too.
func (b *bench) gain() { b.Reread(nil, nil, laneOfGained) }

func TestOnlyTheReadersLanesAreHandedOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(own)    // 1
	b.insert(gained) // 2
	b.startLanes(holding{}, 1)
	b.wantDrained(1)
	late := b.begin()
	late.insert(own)    // 3
	late.insert(gained) // 4
	b.insert(own)       // 5
	b.insert(gained)    // 6
	b.wantRead(5)
	b.wantRead()
	late.commit()
	b.wantRead(3)
	b.wantNoHoles()
}

func TestAReaderWithoutLanesHandsOutNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(20)
	b.startLanes(holding{})
	b.insert(own)
	b.wantNoHoles()
	b.wantSweep(0)
}

// Rows of other lanes that are there close their holes like any row: they must not be looked up again and again.
func TestRowsOfOtherLanesAreNoHoles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.startLanes(holding{}, 1)
	b.wantRead()
	late, long := b.begin(), b.begin()
	late.insert(gained)
	long.insert(own)
	b.insert(gained)
	b.wantRead()
	b.wantRead()
	late.commit()
	b.wantRead()
	b.wantRead()
	if len(b.holes.groups) != 1 || !slices.Equal(b.holes.groups[0].spans, []span{{2, 2}}) {
		t.Fatalf("want the one hole of the open writer: %s", b)
	}
	long.commit()
	b.wantRead(2)
	b.wantNoHoles()
}

func TestGainedLaneIsReadFromItsOldestEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(gained) // 1
	b.insert(own)    // 2
	b.startLanes(holding{}, 1)
	b.wantDrained(2)
	b.insert(gained) // 3
	b.insert(own)    // 4
	b.wantDrained(4)
	b.exec("UPDATE outbox_event SET published_at = now() WHERE id = 1")
	b.gain()
	b.insert(gained) // 5
	b.insert(own)    // 6
	b.wantDrained(3, 5, 6)
	b.insert(gained) // 7
	b.wantRead(7)
	b.wantNoHoles()
}

// Events of a gained lane that appear while the walk is below them, in the head and in holes, are left to the walk; those of other lanes are not.
func TestNothingOvertakesTheWalkOfAGainedLane(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.startLanes(holding{}, 1)
	b.wantRead()
	for range 20 {
		b.insert(gained)
	}
	late := b.begin()
	late.insert(gained) // 21
	b.insert(own)       // 22
	b.wantDrained(22)
	b.gain()
	got := b.readLimit(5)
	late.commit()
	b.insert(gained) // 23
	b.insert(own)    // 24
	got = append(got, b.readLimit(5)...)
	if !slices.Equal(got, append(upTo(1, 10), 24)) {
		t.Fatalf("during the walk: %v", got)
	}
	b.wantDrained(append(upTo(11, 21), 23)...)
	b.wantNoHoles()
}

// The event of a writer who was open when the lane changed hands is found as a hole, at whatever moment it commits, and before what its key gets later.
func TestHoleOfAGainedLaneIsFoundWheneverItIsFilled(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before the gain", "before the walk", "in the walk", "after the walk"} {
		for _, since := range []string{"after start", "before start"} {
			t.Run(when+", open since "+since, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				early := b.begin()
				if since == "before start" {
					early.insert(gained)
				}
				b.startLanes(holding{}, 1)
				b.wantDrained()
				if since == "after start" {
					early.insert(gained)
				}
				want := []int64{1}
				for range 8 {
					want = append(want, b.insert(otherOfGained))
				}
				b.wantDrained()
				commit := func(now string) {
					if now == when {
						early.commit()
						want = append(want, b.insert(gained))
					}
				}
				commit("before the gain")
				b.gain()
				commit("before the walk")
				got := b.readLimit(3)
				commit("in the walk")
				got = append(got, b.drain(3)...)
				commit("after the walk")
				got = append(got, b.drain(3)...)
				keys := map[string][]int64{"late": {1, want[9]}, "other": want[1:9]}
				b.wantKeysInOrder(got, keys)
				b.wantNoHoles()
			})
		}
	}
}

func TestLaneGainedDuringStartsWalk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := map[string][]int64{}
	add := func(k string, id int64) { want[k] = append(want[k], id) }
	for range 20 {
		add(own, b.insert(own))
		add(gained, b.insert(gained))
	}
	early := b.begin()
	add(gained, early.insert(gained))
	for range 20 {
		add(own, b.insert(own))
		add(otherOfGained, b.insert(otherOfGained))
	}
	b.startLanes(holding{}, 1)
	got := b.readLimit(7)
	b.gain()
	got = append(got, b.readLimit(3)...)
	early.commit()
	add(gained, b.insert(gained))
	add(own, b.insert(own))
	got = append(got, b.drain(3)...)
	b.wantKeysInOrder(got, want)
	b.wantNoHoles()
}

// A lane is lost while it is being walked through: nothing of it comes any more, and all of it comes when it is had again.
func TestLaneForgottenAndGainedAgain(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"the walk", "no walk"} {
		t.Run("in "+during, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.startLanes(holding{}, 1)
			b.wantRead()
			for range 10 {
				b.insert(gained)
			}
			b.wantDrained()
			b.gain()
			if got := b.readLimit(3); !slices.Equal(got, upTo(1, 3)) {
				t.Fatalf("the walk begins with %v", got)
			}
			if during == "no walk" {
				b.wantDrained(upTo(4, 10)...)
			}
			b.Forget(laneOfGained)
			b.insert(gained)
			b.insert(own)
			b.wantDrained(12)
			b.exec("UPDATE outbox_event SET published_at = now() WHERE id <= 5")
			clear(b.handed)
			b.exec("UPDATE outbox_event SET published_at = now() WHERE id = 12")
			b.gain()
			b.insert(gained)
			b.wantDrained(append(upTo(6, 11), 13)...)
		})
	}
}

// It is forgotten and gained again while the walk that was begun for it is going on for a key: that one must not be taken for the new one.
func TestLaneGainedAgainDuringItsFirstWalkIsWalkedAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.startLanes(holding{}, 1)
	b.wantRead()
	want := map[string][]int64{}
	for range 10 {
		want[gained] = append(want[gained], b.insert(gained))
		want[own] = append(want[own], b.insert(own))
	}
	b.drain(1000)
	clear(b.handed)
	b.Reread([]relay.Key{key(own)}, nil, laneOfGained)
	b.readLimit(5)
	b.Forget(laneOfGained)
	b.readLimit(5)
	clear(b.handed)
	b.exec("UPDATE outbox_event SET published_at = now() WHERE partition_key = $1", own)
	b.gain()
	want[gained] = append(want[gained], b.insert(gained))
	delete(want, own)
	b.wantKeysInOrder(b.drain(3), want)
}

func TestLaneGainedDuringAWalkWaitsForTheNext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.startLanes(holding{}, 1)
	b.wantRead()
	third := inLane(3, 0)
	want := map[string][]int64{}
	add := func(k string) { want[k] = append(want[k], b.insert(k)) }
	for range 10 {
		add(own)
		add(gained)
		add(third)
	}
	b.drain(1000)
	b.forgetAll(own)
	b.gain()
	got := b.readLimit(4)
	b.Reread([]relay.Key{key(own)}, nil, []int32{3})
	add(gained)
	add(third)
	add(own)
	got = append(got, b.readLimit(4)...)
	for _, id := range got {
		if !slices.Contains(want[gained], id) {
			t.Errorf("event %d came before the walk that it waits for", id)
		}
	}
	got = append(got, b.drain(4)...)
	b.wantKeysInOrder(got, want)
}

func TestSequenceRestartedInTheWalkOfAGainedLane(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.startLanes(holding{}, 1)
	b.wantRead()
	for range 10 {
		b.insert(gained)
	}
	b.wantDrained()
	b.gain()
	b.readLimit(3)
	b.exec("TRUNCATE outbox_event RESTART IDENTITY")
	clear(b.handed)
	b.insert(own)
	b.insert(gained)
	b.insert(inLane(3, 0))
	b.wantDrained(1, 2)
	b.insert(gained)
	b.wantRead(4)
}

func TestRowsAboveTheSequenceOfAGainedLane(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const huge = `INSERT INTO outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
OVERRIDING SYSTEM VALUE VALUES ($1, gen_random_uuid(), 'Order', 'a', 't', '{}', 'order-service.order', $2)`
	b.insert(gained)
	b.exec(huge, 9_000_000_000, own)
	b.exec(huge, 9_000_000_001, gained)
	b.startLanes(holding{}, 1)
	b.wantDrained(9_000_000_000)
	b.gain()
	b.wantDrained(1, 9_000_000_001)
}

// What is released belongs to the reader; a topic has rows of all lanes.
func TestReleasedTopicIsReadInTheReadersLanesAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.startLanes(holding{}, 1)
	b.insert(own)
	b.insert(gained)
	b.wantDrained(1)
	clear(b.handed)
	b.Reread([]relay.Key{key(gained)}, []string{"order-service.order"}, nil)
	b.wantDrained(1)
	clear(b.handed)
	b.Reread(nil, []string{"order-service.order"}, laneOfGained)
	b.wantDrained(1, 2)
}

func TestParkedKeysOfAGainedLaneAreNotCarriedOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.startLanes(holding{topics: []string{"held.topic"}}, 1)
	b.insert(gained)        // 1
	b.insert(otherOfGained) // 2
	b.insert(inLane(2, 2))  // 3
	b.exec("UPDATE outbox_event SET topic = 'held.topic' WHERE id = 3")
	b.exec(`INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
SELECT $1, topic, `+pg.KeyHashSQL("topic", "partition_key")+`, partition_key, 2, id, event_id, event_type, 'X', 'x' FROM outbox_event WHERE id = 1`, b.db.Source)
	b.wantDrained()
	before := b.count.whole
	b.gain()
	b.wantDrained(2)
	same(t, "rows that came whole", b.count.whole-before, 1)
	b.exec("DELETE FROM outbox.parked_key")
	b.Reread([]relay.Key{key(gained)}, []string{"held.topic"}, nil)
	b.wantDrained(1, 3)
}

func TestSweepLooksAtTheReadersLanesAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.startLanes(holding{}, 1)
	b.insert(own)
	b.insert(gained)
	b.wantDrained(1)
	clear(b.handed)
	b.wantSweep(1)
	b.wantDrained(1)
	b.Forget([]int32{1})
	b.wantSweep(0)
	b.gain()
	b.wantDrained(2)
	clear(b.handed)
	b.wantSweep(1)
	b.wantDrained(2)
}

// The rows of others cost an id each, whether they are a backlog, new, in holes or walked through for a gained lane.
func TestTwoReadersCarryOverOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	db := newBench(t)
	readers := []*bench{benchOn(t, db.db), benchOn(t, db.db)}
	lanes := [][]int32{{0, 1, 2, 3}, {4, 5, 6, 7}}
	db.fill(3000)
	for i, b := range readers {
		b.startLanes(holding{}, lanes[i]...)
		b.drain(500)
	}
	wide, narrow := db.begin(), db.begin()
	wide.exec(`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', i::text, 't', '{}', 'order-service.order', 'wide ' || i FROM generate_series(1, 1000) i`)
	for i := range 100 {
		narrow.insert(fmt.Sprint("narrow ", i))
		db.insert(fmt.Sprint("new ", i))
	}
	for _, b := range readers {
		b.drain(500)
	}
	wide.commit()
	narrow.commit()
	whole := 0
	for i, b := range readers {
		b.drain(500)
		whole += b.count.whole
		for ref, k := range committed(t, b.plain) {
			if mine := slices.Contains(lanes[i], relay.Lane(k.PartitionKey, 8)); mine != b.handed[ref] {
				t.Fatalf("reader %d, event %d of lane %d: handed out is %t", i, ref.ID, relay.Lane(k.PartitionKey, 8), b.handed[ref])
			}
		}
	}
	if whole < 4200 || whole > 4400 {
		t.Errorf("%d rows came with their payload for 4200 events", whole)
	}
}
