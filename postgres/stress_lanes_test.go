package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/relay"
)

// exchange is two readers that share the lanes and hand them over at random, as two relays do: whoever gives a lane up has settled all of it.
type exchange struct {
	*bench
	rand   *rand.Rand
	ledger *ledger
	settle string
	sides  [2]*side
	// given is who has handed an event out, faults are those that came from both.
	given  map[relay.Ref]*side
	faults []string
	moved  int
}

// side is one of the readers.
type side struct {
	reader *reader
	lanes  []int32
	// unsettled were handed out and are published, but not settled yet.
	unsettled []relay.Ref
}

// auditSQL keeps what was committed, for a table from which rows are deleted.
const auditSQL = `CREATE TABLE audit AS TABLE outbox_event WITH NO DATA;
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit SELECT (NEW).*; RETURN NEW; END $$;
CREATE TRIGGER audit AFTER INSERT ON outbox_event FOR EACH ROW EXECUTE FUNCTION audit()`

func newExchange(b *bench, seed uint64, mode SettleMode) *exchange {
	x := &exchange{bench: b, rand: rand.New(rand.NewPCG(seed, 1<<33)), ledger: newLedger(), given: map[relay.Ref]*side{}}
	x.settle = "UPDATE outbox_event SET published_at = now() WHERE id = ANY ($1)"
	if mode == Delete {
		x.settle = "DELETE FROM outbox_event WHERE id = ANY ($1)"
	}
	own := []int32{int32(b.plain.PgConn().PID())}
	var read, locks [2]*session
	for i := range x.sides {
		read[i], locks[i] = openSession(b.T, b.db), openSession(b.T, b.db)
		own = append(own, read[i].pid(), locks[i].pid())
	}
	for i := range x.sides {
		x.sides[i] = &side{reader: newReader(read[i], locks[i], b.row, own), lanes: slices.Clone(allLanes[4*i : 4*i+4])}
	}
	return x
}

func (x *exchange) start(s *side) {
	x.Helper()
	if err := s.reader.Start(x.Context(), holding{}, s.lanes); err != nil {
		x.Fatal(err)
	}
}

// step lets one reader read once, and tells whether there was anything to do.
func (x *exchange) step(s *side) (busy bool) {
	x.Helper()
	batch, err := s.reader.Read(x.Context(), 50+x.rand.IntN(300))
	if err != nil {
		x.Fatal(err)
	}
	for _, e := range batch.Events {
		if !slices.Contains(s.lanes, relay.Lane(e.PartitionKey, 8)) {
			x.faults = append(x.faults, fmt.Sprintf("not of the reader's lanes: id %d", e.ID))
		}
		if first := x.given[e.Ref()]; first != nil && first != s {
			x.faults = append(x.faults, fmt.Sprintf("from both readers: id %d", e.ID))
		}
		x.given[e.Ref()] = s
	}
	s.unsettled = append(s.unsettled, x.ledger.take(batch.Events)...)
	if x.rand.IntN(3) > 0 {
		x.drain(s)
	}
	return len(batch.Events) > 0 || batch.More || batch.Walking || len(s.reader.holes.groups) > 0
}

// drain settles all that the side has handed out.
func (x *exchange) drain(s *side) {
	x.Helper()
	if len(s.unsettled) == 0 {
		return
	}
	ids := make([]int64, len(s.unsettled))
	for i, ref := range s.unsettled {
		ids[i] = ref.ID
	}
	x.exec(x.settle, ids)
	s.unsettled = nil
}

// move hands some lanes from one side to the other.
func (x *exchange) move(from, to *side) {
	x.Helper()
	var lanes []int32
	for range x.rand.IntN(3) + 1 {
		if len(from.lanes) > 0 {
			i := x.rand.IntN(len(from.lanes))
			lanes = append(lanes, from.lanes[i])
			from.lanes = slices.Delete(from.lanes, i, i+1)
		}
	}
	from.reader.Forget(lanes)
	x.drain(from)
	to.lanes = append(to.lanes, lanes...)
	to.reader.Reread(nil, nil, lanes)
	x.moved += len(lanes)
}

// disturb does one of the things that happen to readers.
func (x *exchange) disturb() {
	x.Helper()
	i := x.rand.IntN(2)
	s := x.sides[i]
	switch x.rand.IntN(40) {
	case 0, 1, 2, 3, 4, 5:
		x.move(s, x.sides[1-i])
	case 6:
		s.reader.Reread([]relay.Key{key(fmt.Sprint("key ", x.rand.IntN(50)))}, nil, nil)
	case 7:
		x.start(s)
	case 8:
		s.reader.rewalk()
	}
}

// run reads until the writers have finished and nothing comes any more.
func (x *exchange) run(finished func() bool) {
	x.Helper()
	for _, s := range x.sides {
		x.start(s)
	}
	deadline := time.Now().Add(*stressFor + await.Limit)
	for idle := 0; idle < 6; {
		over := finished()
		busy := false
		for range 2 {
			busy = x.step(x.sides[x.rand.IntN(2)]) || busy
		}
		if !over {
			x.disturb()
		}
		idle++
		if busy || !over {
			idle = 0
		}
		if time.Now().After(deadline) {
			x.Fatal("the readers do not come to an end")
		}
	}
}

// Writers of all kinds against two readers that exchange lanes while they read: no key is turned, nothing is lost, and nothing comes from both.
func TestStressOfTwoReadersThatExchangeLanes(t *testing.T) {
	t.Parallel()
	for _, mode := range []SettleMode{Mark, Delete} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			seed := stressSeedOf(t)
			b := newBench(t)
			b.db.Exec(t, fmt.Sprintf(stressSQL, 0.5)+";"+auditSQL)
			x := newExchange(b, seed, mode)
			finished := writeAll(t, b.db, 16, seed, *stressFor)
			x.run(finished)
			b.exec("DROP TRIGGER audit ON outbox_event")
			b.exec("TRUNCATE outbox_event")
			b.exec("INSERT INTO outbox_event OVERRIDING SYSTEM VALUE SELECT * FROM audit")
			all := committed(t, b.plain)
			for _, fault := range append(x.ledger.faults(all), x.faults...) {
				t.Error(fault)
			}
			if len(all) > 0 && x.moved == 0 {
				t.Error("no lane was handed over")
			}
			t.Logf("%d events, %d lanes handed over, %+v, %+v", len(all), x.moved, x.sides[0].reader.count, x.sides[1].reader.count)
		})
	}
}

// stressSeedOf returns the seed of a run, and logs how to repeat it.
func stressSeedOf(t *testing.T) uint64 {
	t.Helper()
	seed := *stressSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -stress %s -stress-seed %d", *stressFor, seed)
	return seed
}
