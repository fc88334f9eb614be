package postgres

import (
	"fmt"
	"slices"
	"testing"

	"github.com/outbox-relay/outbox/relay"
)

// forgetAll makes the test's gate drop its memory of some keys: they are handed on again.
func (b *bench) forgetAll(keys ...string) {
	b.Helper()
	rows, err := b.plain.Query(b.Context(), "SELECT id, event_id FROM outbox_event WHERE partition_key = ANY ($1)", keys)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var ref relay.Ref
		if err := rows.Scan(&ref.ID, &ref.EventID); err != nil {
			b.Fatal(err)
		}
		delete(b.handed, ref)
	}
	if rows.Err() != nil {
		b.Fatal(rows.Err())
	}
}

func TestReleasedKeyIsReadAgainFromItsOldestEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	for range 3 {
		b.insert("a")
		b.insert("b")
	}
	b.wantDrained(upTo(1, 6)...)
	b.forgetAll("a", "b")
	b.Reread([]relay.Key{key("a")}, nil, nil)
	b.insert("a")
	b.wantDrained(1, 3, 5, 7)
}

// A released key whose first event fails again holds what is behind it: nothing of it is to be read, however long the table is.
func TestAWalkEndsWhenAllItsKeysAreHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := holding{keys: map[relay.Key]bool{}}
	b.startHolding(h)
	b.insert("a")
	b.insert("b")
	b.fill(200)
	b.insert("a")
	b.insert("b")
	b.drain(1000)
	b.forgetAll("a", "b")
	b.Reread([]relay.Key{key("a"), key("b")}, nil, nil)
	if got := b.readLimit(2); !slices.Equal(got, []int64{1, 2}) {
		t.Fatalf("read %v, want the oldest of both keys", got)
	}
	h.keys[key("a")] = true
	b.readLimit(2)
	if b.walk == nil {
		t.Fatal("the walk has ended, and one of its keys goes on")
	}
	h.keys[key("b")] = true
	b.readLimit(2)
	if b.walk != nil {
		t.Errorf("the walk goes on for %v, which are held", b.walk.keys)
	}
	// They go on: each is read from its oldest event.
	clear(h.keys)
	b.forgetAll("a", "b")
	b.Reread([]relay.Key{key("a"), key("b")}, nil, nil)
	b.wantDrained(1, 2, 203, 204)
}

func TestReleasedTopicIsReadAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.fill(4)
	b.exec("UPDATE outbox_event SET topic = 'other.topic' WHERE id IN (2, 3)")
	b.wantDrained(upTo(1, 4)...)
	b.handed = map[relay.Ref]bool{}
	b.Reread(nil, []string{"other.topic"}, nil)
	b.wantDrained(2, 3)
}

// Events of a released key that appear while the walk is below them, in the head and in holes, are left to the walk.
func TestNothingOvertakesTheWalk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	for range 20 {
		b.insert("a")
	}
	late := b.begin()
	late.insert("a") // 21
	b.insert("c")    // 22
	b.wantDrained(append(upTo(1, 20), 22)...)
	b.forgetAll("a")
	b.Reread([]relay.Key{key("a")}, nil, nil)
	got := b.readLimit(5)
	late.commit()
	b.insert("a") // 23
	b.insert("d") // 24
	got = append(got, b.readLimit(5)...)
	if !slices.Equal(got, append(upTo(1, 10), 24)) {
		t.Fatalf("during the walk: %v", got)
	}
	b.wantDrained(append(upTo(11, 21), 23)...)
	b.wantNoHoles()
}

// A hole below the walk's position is filled: the find is handed on at once, in front of the head.
func TestFindBelowTheWalkIsHandedOnAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	late := b.begin()
	late.insert("a") // 1
	for range 20 {
		b.insert("b")
	}
	b.wantDrained(upTo(2, 21)...)
	b.Reread([]relay.Key{key("a"), key("b")}, nil, nil)
	b.forgetAll("b")
	got := b.readLimit(5)
	late.commit()
	b.insert("a") // 22
	got = append(got, b.readLimit(5)...)
	want := append(append(upTo(2, 6), 1), upTo(7, 11)...)
	if !slices.Equal(sorted(got), sorted(want)) || slices.Index(got, 1) < 5 {
		t.Fatalf("got %v, want %v", got, want)
	}
	b.wantDrained(upTo(12, 22)...)
	b.wantNoHoles()
}

func sorted(ids []int64) []int64 {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return ids
}

// Keys that are released while a walk is under way wait for the next one, and nothing of them gets ahead.
func TestKeysReleasedDuringAWalkWaitForTheNext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	for range 10 {
		b.insert("a")
		b.insert("b")
	}
	b.wantDrained(upTo(1, 20)...)
	b.forgetAll("a", "b")
	b.Reread([]relay.Key{key("a")}, nil, nil)
	got := b.readLimit(3)
	b.Reread([]relay.Key{key("b")}, nil, nil)
	b.Reread([]relay.Key{key("a")}, nil, nil)
	b.insert("a") // 21
	b.insert("b") // 22
	got = append(got, b.drain(3)...)
	want := map[string][]int64{}
	for id := range int64(22) {
		name := string("ab"[id%2])
		want[name] = append(want[name], id+1)
	}
	b.wantKeysInOrder(got, want)
}

// The key is stopped and released again while the walk for its first release is under way: it begins again from the oldest.
func TestKeyReleasedAgainDuringItsWalkBeginsAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	for range 10 {
		b.insert("a")
	}
	b.wantDrained(upTo(1, 10)...)
	b.forgetAll("a")
	b.Reread([]relay.Key{key("a")}, nil, nil)
	if got := b.readLimit(3); !slices.Equal(got, upTo(1, 3)) {
		t.Fatalf("the walk begins with %v", got)
	}
	b.forgetAll("a")
	b.Reread([]relay.Key{key("a")}, nil, nil)
	b.insert("a")
	if got := b.drain(3); !slices.Equal(got, upTo(1, 11)) {
		t.Fatalf("after the second release: %v", got)
	}
}

// wantKeysInOrder checks that each key's ids came completely, once, and in order.
func (b *bench) wantKeysInOrder(got []int64, want map[string][]int64) {
	b.Helper()
	n := 0
	for name, ids := range want {
		n += len(ids)
		mine := slices.DeleteFunc(slices.Clone(got), func(id int64) bool { return !slices.Contains(ids, id) })
		if !slices.Equal(mine, ids) {
			b.Errorf("key %s came as %v, want %v", name, mine, ids)
		}
	}
	if len(got) != n {
		b.Errorf("%d events came, want %d: %v", len(got), n, got)
	}
}

// A key is released while Start's walk is still below the cursor.
func TestWalkDuringStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := map[string][]int64{}
	for id := range int64(60) {
		name := fmt.Sprint("key ", id%3)
		want[name] = append(want[name], b.insert(name))
	}
	early := b.begin()
	want["key 1"] = append(want["key 1"], early.insert("key 1"))
	for id := range int64(30) {
		name := fmt.Sprint("key ", id%3*2)
		want[name] = append(want[name], b.insert(name))
	}
	b.start()
	got := b.readLimit(20)
	b.forgetAll("key 1")
	got = slices.DeleteFunc(got, func(id int64) bool { return slices.Contains(want["key 1"], id) })
	b.Reread([]relay.Key{key("key 1")}, nil, nil)
	got = append(got, b.readLimit(5)...)
	early.commit()
	want["key 1"] = append(want["key 1"], b.insert("key 1"))
	got = append(got, b.drain(5)...)
	b.wantKeysInOrder(got, want)
	b.wantNoHoles()
}

// A walk with few matches must not scan everything in one statement, nor stop at a page without any.
func TestWalkScansInPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.insert("a")
	b.fill(2*maxScan + 10)
	b.insert("a")
	b.drain(5000)
	b.forgetAll("a")
	b.Reread([]relay.Key{key("a")}, nil, nil)
	before := b.count.reads
	b.wantDrained(1, 2*maxScan+12)
	if reads := b.count.reads - before; reads < 3 || reads > 8 {
		t.Errorf("the walk took %d reads, want about 3", reads)
	}
}
