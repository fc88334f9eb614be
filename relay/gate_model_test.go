package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// gateModel drives a gate through a random history and checks each step against what must hold: the events of a key go out in the order of their ids,
// never while others of the key are outstanding, and nothing that is in Kafka goes out again.
type gateModel struct {
	t      *testing.T
	seed   uint64
	rand   *rand.Rand
	now    time.Time
	gate   *gate
	table  *fakeTable
	source *fakeSource

	outstanding map[Key][]*Event
	acked       map[Ref]bool
	unsettled   []Ref
	toPark      []outcome

	// mine are the lanes that the gate has, leaving included; the others are another relay's, which publishes at once.
	mine, leaving []int32
	// paused is what an operator keeps back.
	paused []Pause
	// calm lets everything succeed.
	calm bool
}

func newGateModel(t *testing.T, seed uint64) *gateModel {
	m := &gateModel{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1000, 0), table: newFakeTable(),
		outstanding: map[Key][]*Event{}, acked: map[Ref]bool{},
	}
	m.table.lanes = make([]fakeLane, 4)
	m.mine = []int32{0, 1, 2}
	m.gate = newGate(200, 1<<20, func() time.Time { return m.now }, 4, m.mine)
	m.source = &fakeSource{table: m.table}
	if err := m.source.Start(context.Background(), m.gate, m.mine); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *gateModel) fatal(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("seed %d: %s", m.seed, fmt.Sprintf(format, args...))
}

func (m *gateModel) key() Key {
	return Key{fmt.Sprintf("topic-%d", m.rand.IntN(2)), fmt.Sprintf("key-%d", m.rand.IntN(4))}
}

func (m *gateModel) step() {
	m.now = m.now.Add(time.Duration(m.rand.IntN(100)) * time.Millisecond)
	switch m.rand.IntN(13) {
	case 0, 1, 2:
		m.table.insert(m.key())
	case 3, 4:
		m.read()
	case 5, 6:
		m.answer()
	case 7:
		m.settle()
	case 8:
		m.release()
	case 9:
		m.gate.spillStuck(m.now.Add(-300 * time.Millisecond))
	case 10:
		m.rival()
	case 11:
		m.exchange()
	case 12:
		m.pause()
	}
}

// pause pauses or resumes the source, a topic or a key.
func (m *gateModel) pause() {
	key := m.key()
	p := []Pause{{Scope: PauseSource}, {Scope: PauseTopic, Topic: key.Topic}, {Scope: PauseKey, Topic: key.Topic, PartitionKey: key.PartitionKey}}[m.rand.IntN(3)]
	if at := slices.Index(m.paused, p); at >= 0 {
		m.paused = slices.Delete(m.paused, at, at+1)
	} else if !m.calm {
		m.paused = append(m.paused, p)
	}
	m.gate.setPauses(m.paused)
}

// isPaused tells whether anything keeps the key back.
func (m *gateModel) isPaused(key Key) bool {
	return slices.ContainsFunc(m.paused, func(p Pause) bool {
		return p.Scope == PauseSource || p.Topic == key.Topic && (p.Scope == PauseTopic || p.PartitionKey == key.PartitionKey)
	})
}

// rival is the other relay: it publishes and settles everything of the lanes that are not the gate's.
func (m *gateModel) rival() {
	for _, row := range m.table.rows {
		if !slices.Contains(m.mine, m.table.lane(row.event.Key())) {
			row.published = true
		}
	}
}

// exchange begins to leave a lane, gives away what has drained, changes its mind, or takes lanes of the other relay.
func (m *gateModel) exchange() {
	switch {
	case m.calm:
	case len(m.leaving) > 0 && m.rand.IntN(4) == 0:
		m.gate.gain(m.leaving)
		m.leaving = nil
	case len(m.leaving) > 0:
		if len(m.gate.busy(m.leaving)) == 0 {
			m.gate.forget(m.leaving)
			m.mine = slices.DeleteFunc(m.mine, func(l int32) bool { return slices.Contains(m.leaving, l) })
			m.leaving = nil
			m.rival()
		}
	case m.rand.IntN(2) == 0 && len(m.mine) > 0:
		m.leaving = []int32{m.mine[m.rand.IntN(len(m.mine))]}
		m.gate.leave(m.leaving)
	case len(m.mine) < 4:
		for lane := range int32(4) {
			if !slices.Contains(m.mine, lane) {
				m.mine = append(m.mine, lane)
				m.gate.gain([]int32{lane})
				return
			}
		}
	}
}

// read has answers and settles come between the snapshot and the admission.
func (m *gateModel) read() {
	again := m.gate.takeReleased()
	m.source.Forget(again.forget)
	if len(again.keys)+len(again.topics)+len(again.lanes) > 0 {
		m.source.Reread(again.keys, again.topics, again.lanes)
	}
	free, _ := m.gate.free()
	if free == 0 {
		return
	}
	m.gate.beginRead()
	defer m.gate.endRead()
	batch, err := m.source.Read(context.Background(), min(free, 1+m.rand.IntN(8)))
	if err != nil {
		m.fatal("read: %v", err)
	}
	for range m.rand.IntN(6) {
		m.answer()
		m.settle()
		m.exchange()
		if m.rand.IntN(3) == 0 {
			m.pause()
		}
	}
	m.ready(m.gate.admit(batch.Events))
}

// ready takes what goes out.
func (m *gateModel) ready(events []*Event) {
	calls := map[Key][]*Event{}
	for _, e := range events {
		calls[e.Key()] = append(calls[e.Key()], e)
	}
	for key, call := range calls {
		if !slices.Contains(m.mine, m.table.lane(key)) {
			m.fatal("%v of %v goes out, and its lane is the other relay's", ids(call), key)
		}
		if m.isPaused(key) {
			m.fatal("%v of %v goes out, and it is paused", ids(call), key)
		}
		if n := len(m.outstanding[key]); n > 0 {
			m.fatal("%v goes out while %d of %v are outstanding", ids(call), n, key)
		}
		var want []int64
		for _, row := range m.table.rows {
			if row.event.Key() == key && !row.published && !m.acked[row.event.Ref()] {
				want = append(want, row.event.ID)
			}
		}
		if got := ids(call); len(want) < len(got) || !slices.Equal(got, want[:len(got)]) {
			m.fatal("%v of %v goes out, but the oldest not in Kafka are %v", got, key, want)
		}
		m.outstanding[key] = call
	}
}

// answer gives outcomes for all that is outstanding of a key, in one or several batches.
func (m *gateModel) answer() {
	for key, call := range m.outstanding {
		if len(call) == 0 {
			continue
		}
		if m.rand.IntN(2) == 0 {
			continue
		}
		n := 1 + m.rand.IntN(len(call))
		m.outstanding[key] = call[n:]
		m.resolve(m.outcomesOf(key, call[:n]))
		return
	}
}

func (m *gateModel) outcomesOf(key Key, call []*Event) (os []outcome) {
	for i, e := range call {
		if m.calm || m.rand.IntN(6) > 0 {
			m.acked[e.Ref()] = true
			os = append(os, outcome{e, nil})
			continue
		}
		class := []Class{ClassEvent, ClassTopic, ClassHeld}[m.rand.IntN(3)]
		os = append(os, outcome{e, failure(class)})
		follow := class
		if class == ClassEvent {
			follow = ClassHeld
		}
		os = append(os, outcomes(failure(follow), call[i+1:]...)...)
		os = append(os, outcomes(failure(follow), m.outstanding[key]...)...)
		m.outstanding[key] = nil
		return os
	}
	return os
}

func (m *gateModel) resolve(os []outcome) {
	v := m.gate.resolve(os)
	m.unsettled = append(m.unsettled, v.acked...)
	m.toPark = append(m.toPark, v.failed...)
	m.ready(v.ready)
}

func (m *gateModel) settle() {
	for _, o := range m.toPark {
		m.gate.decided(o.event.Key())
	}
	m.toPark = nil
	if len(m.unsettled) == 0 {
		return
	}
	n := 1 + m.rand.IntN(len(m.unsettled))
	refs := m.unsettled[:n]
	m.unsettled = m.unsettled[n:]
	if settled, err := m.source.Settle(context.Background(), refs); err != nil || settled != n {
		m.fatal("settled %d of %d: %v", settled, n, err)
	}
	m.gate.settled(refs)
}

func (m *gateModel) release() {
	for _, name := range m.gate.HeldTopics() {
		m.gate.topicReady(name)
	}
	for key := range m.gate.parked {
		held := m.gate.hold([]Key{key})
		if idle, _, _ := m.gate.idle(held); len(idle) > 0 {
			m.gate.unpark(key)
		}
		m.gate.unhold(held)
	}
}

// finish lets everything succeed and checks that nothing was forgotten.
func (m *gateModel) finish() {
	m.calm = true
	m.paused = nil
	m.gate.setPauses(nil)
	if len(m.leaving) > 0 {
		m.gate.gain(m.leaving)
		m.leaving = nil
	}
	m.rival()
	for range 10_000 {
		m.release()
		m.read()
		m.answer()
		m.settle()
		if m.table.open() == 0 {
			break
		}
	}
	if n := m.table.open(); n > 0 {
		m.fatal("%d events never went out", n)
	}
	m.read()
	wantEmpty(m.t, m.gate)
	if len(m.gate.keys) > 0 || len(m.gate.parked) > 0 || len(m.gate.requested) > 0 {
		m.fatal("left in the gate: keys %v, parked %v, requested %v", m.gate.keys, m.gate.parked, m.gate.requested)
	}
}

func TestGateKeepsOrderAndForgetsNothingInAnyHistory(t *testing.T) {
	t.Parallel()
	first := rand.Uint64()
	for seed := first; seed < first+300; seed++ {
		m := newGateModel(t, seed)
		for range 400 {
			m.step()
		}
		m.finish()
	}
}
