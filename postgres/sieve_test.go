package postgres

import (
	"fmt"
	"testing"

	"github.com/outbox-relay/outbox/internal/lanesql"
	"github.com/outbox-relay/outbox/internal/pg"
)

// parkWhere parks the keys of the events for which the condition holds.
func (b *bench) parkWhere(condition string) {
	b.Helper()
	b.exec(fmt.Sprintf(`INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
SELECT $1, topic, %s, partition_key, %s, id, event_id, event_type, 'MESSAGE_TOO_LARGE', 'too large' FROM outbox_event WHERE %s`,
		pg.KeyHashSQL("topic", "partition_key"), lanesql.Of("partition_key", "8"), condition), b.row.ID)
}

// drained drains with small pages, and returns how many events were read and how many pages left parked keys out.
func (b *bench) drained(limit int) (events, sieved int) {
	b.Helper()
	for b.walking() || b.walk != nil {
		v := b.sieve
		if b.walk != nil {
			v = b.walk.sieve
		}
		if v.on() {
			sieved++
		}
		events += len(b.batch(limit).Events)
	}
	return events, sieved
}

// Parked keys are looked for in each row only while they are worth it: not in a backlog in which they are few, and not carried over when they are many.
func TestParkedKeysAreLeftOutWhereTheyAreMany(t *testing.T) {
	t.Parallel()
	const rows, limit = 6400, 100
	for _, of := range []struct {
		name, parked            string
		leastEvents, mostEvents int
		leastSieved, mostSieved int
	}{
		{"few", "id % 50 = 0", rows - rows/50, rows, 4, 5},
		{"all", "true", 0, 0, 1, rows / limit},
		{"the newer half", "id > 3200", 3200, 3200 + openPages*limit, 3, rows / limit},
		{"the older half", "id <= 3200", 3200, 3200, 3, rows / limit},
	} {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			for _, gained := range []bool{false, true} {
				b := newBench(t)
				b.fill(rows)
				b.parkWhere(of.parked)
				if gained {
					b.startLanes(holding{})
					b.drained(limit)
					b.Reread(nil, nil, allLanes)
				} else {
					b.start()
				}
				events, sieved := b.drained(limit)
				if events < of.leastEvents || events > of.mostEvents || sieved < of.leastSieved || sieved > of.mostSieved {
					t.Errorf("gained %t: %d events were handed on and %d pages sieved; want %d to %d, and %d to %d",
						gained, events, sieved, of.leastEvents, of.mostEvents, of.leastSieved, of.mostSieved)
				}
			}
		})
	}
}

// Half of another relay's lanes are no reason to look for parked keys.
func TestRowsOfOtherLanesAreNotTakenForParkedKeys(t *testing.T) {
	t.Parallel()
	var v sieve
	v.learn(1000, 250, laneSet{set: map[int32]struct{}{1: {}, 2: {}}, total: 8}.density())
	same(t, "sieved", v.on(), false)
}
