package relay

import (
	"errors"
	"slices"
	"testing"
	"time"
)

var (
	keyA = Key{"orders", "a"}
	keyB = Key{"orders", "b"}
	keyC = Key{"payments", "c"}
)

func testGate() *gate { return newGate(100, 1<<20, time.Now, 1, []int32{0}) }

func failure(c Class) error {
	return &PublishError{Class: c, Code: "TEST", Err: errors.New("scripted")}
}

func outcomes(err error, events ...*Event) (os []outcome) {
	for _, e := range events {
		os = append(os, outcome{e, err})
	}
	return os
}

// fromTo makes events of a key with consecutive ids.
func fromTo(first, last int64, key Key) (events []*Event) {
	for id := first; id <= last; id++ {
		events = append(events, testEvent(id, key))
	}
	return events
}

func refsOf(events []*Event) []Ref {
	refs := make([]Ref, len(events))
	for i, e := range events {
		refs[i] = e.Ref()
	}
	return refs
}

func wantIDs(t *testing.T, what string, events []*Event, want ...int64) {
	t.Helper()
	if got := ids(events); !slices.Equal(got, want) {
		t.Errorf("%s: got ids %v, want %v", what, got, want)
	}
}

func wantEmpty(t *testing.T, g *gate) {
	t.Helper()
	if g.events != 0 || g.bytes != 0 || g.outstanding != 0 || len(g.inFlight) != 0 || len(g.graves) != 0 {
		t.Errorf("gate: %d events, %d bytes, %d outstanding, %d in flight, %d graves; want none", g.events, g.bytes, g.outstanding, len(g.inFlight), len(g.graves))
	}
}

func TestGateSendsEventsOfAnIdleKeyTogether(t *testing.T) {
	t.Parallel()
	g := testGate()
	wantIDs(t, "ready", g.admit(fromTo(1, 3, keyA)), 1, 2, 3)
}

func TestGateHoldsLaterEventsOfABusyKeyUntilEverythingOfItIsAcked(t *testing.T) {
	t.Parallel()
	g := testGate()
	first, later := fromTo(1, 2, keyA), fromTo(3, 5, keyA)
	g.admit(first)
	wantIDs(t, "ready while busy", g.admit(later))
	wantIDs(t, "ready after one of two acks", g.resolve(outcomes(nil, first[0])).ready)
	wantIDs(t, "ready after the last ack", g.resolve(outcomes(nil, first[1])).ready, 3, 4, 5)
	g.resolve(outcomes(nil, later...))
	g.settled(refsOf(slices.Concat(first, later)))
	wantEmpty(t, g)
	if len(g.keys) != 0 {
		t.Errorf("keys %v are kept although nothing of them is in flight", g.keys)
	}
}

func TestGateLetsDifferentKeysPass(t *testing.T) {
	t.Parallel()
	g := testGate()
	g.admit(fromTo(1, 1, keyA))
	wantIDs(t, "ready", g.admit(slices.Concat(fromTo(2, 2, keyA), fromTo(3, 3, keyB))), 3)
}

func TestGateDropsWhatItHasAlready(t *testing.T) {
	t.Parallel()
	g := testGate()
	events := fromTo(1, 2, keyA)
	g.admit(events[:1])
	g.admit(events)
	wantIDs(t, "ready while outstanding and waiting", g.admit(events))
	wantIDs(t, "ready after the ack", g.resolve(outcomes(nil, events[0])).ready, 2)
	wantIDs(t, "ready while not settled", g.admit(events))
}

func TestGateTakesAnIDThatWasIssuedAgainForANewEvent(t *testing.T) {
	t.Parallel()
	g := testGate()
	g.admit(fromTo(1, 1, keyA))
	wantIDs(t, "ready", g.admit(fromTo(1, 1, keyB)), 1)
}

func TestGateKeepsTheRefOfAnEventThatWasSettledDuringARead(t *testing.T) {
	t.Parallel()
	g := testGate()
	events := fromTo(1, 1, keyA)
	g.admit(events)
	g.resolve(outcomes(nil, events...))
	g.beginRead() // its snapshot shows the row as unpublished
	g.settled(refsOf(events))
	wantIDs(t, "ready from the read that began before the settle", g.admit(events))
	g.endRead()
	wantEmpty(t, g)
}

func TestGateKeepsARefOnlyUntilTheReadThatItWasSettledIn(t *testing.T) {
	t.Parallel()
	g := testGate()
	events := fromTo(1, 2, keyA)
	g.admit(events)
	g.resolve(outcomes(nil, events...))
	g.beginRead()
	g.settled(refsOf(events[:1]))
	g.endRead()
	g.beginRead()
	g.settled(refsOf(events[1:]))
	if g.known(events[0].Ref()) || !g.known(events[1].Ref()) {
		t.Errorf("known: %v, %v; want false, true", g.known(events[0].Ref()), g.known(events[1].Ref()))
	}
	g.endRead()
	wantEmpty(t, g)
}

func TestGateParksAKeyAndDropsItsFollowers(t *testing.T) {
	t.Parallel()
	g := testGate()
	sent, waiting := fromTo(1, 2, keyA), fromTo(3, 3, keyA)
	g.admit(sent)
	g.admit(waiting)
	v := g.resolve([]outcome{{sent[0], failure(ClassEvent)}, {sent[1], failure(ClassHeld)}})
	if len(v.failed) != 1 || v.failed[0].event != sent[0] {
		t.Errorf("to be parked: %v, want only event 1", v.failed)
	}
	wantIDs(t, "ready", v.ready)
	wantIDs(t, "admitted of a parked key", g.admit(fromTo(4, 4, keyA)))
	g.takeReleased()
	wantIDs(t, "admitted of a parked key, later", g.admit(fromTo(4, 4, keyA)))
	if !g.HeldKey(keyA) || g.parkedKeys() != 1 {
		t.Errorf("held %v, parked %d; want true, 1", g.HeldKey(keyA), g.parkedKeys())
	}
	wantEmpty(t, g)
}

func TestGateHoldsAnUnparkedKeyUntilItIsReadAgain(t *testing.T) {
	t.Parallel()
	g := testGate()
	old := fromTo(1, 1, keyA)
	g.admit(old)
	g.resolve(outcomes(failure(ClassEvent), old...))
	g.takeReleased()
	g.unpark(keyA)
	wantIDs(t, "newer event between unpark and the reader's turn", g.admit(fromTo(2, 2, keyA)))
	if keys := g.takeReleased().keys; !slices.Equal(keys, []Key{keyA}) {
		t.Fatalf("to be read again: %v, want %v", keys, keyA)
	}
	wantIDs(t, "read again", g.admit(fromTo(1, 2, keyA)), 1, 2)
}

func TestGateReleasesAKeyOnce(t *testing.T) {
	t.Parallel()
	g := testGate()
	g.park(keyA)
	g.unpark(keyA)
	g.unpark(keyA)
	if keys := g.takeReleased().keys; len(keys) != 1 {
		t.Errorf("to be read again: %v, want one", keys)
	}
}

// holdIdle holds a key if nothing of it is in flight.
func holdIdle(g *gate, key Key) bool {
	held := g.hold([]Key{key})
	idle, _, _ := g.idle(held)
	if len(idle) == 0 {
		g.unhold(held)
	}
	return len(idle) > 0
}

func TestGateHoldsAKeyWhileARequestIsCarriedOut(t *testing.T) {
	t.Parallel()
	g := testGate()
	if !holdIdle(g, keyA) {
		t.Fatal("an idle key is not ready")
	}
	wantIDs(t, "admitted during the request", g.admit(fromTo(1, 1, keyA)))
	g.takeReleased()
	wantIDs(t, "admitted during the request, after the reader's turn", g.admit(fromTo(1, 1, keyA)))
	g.unhold([]Key{keyA})
	wantIDs(t, "admitted before the key is read again", g.admit(fromTo(2, 2, keyA)))
	if keys := g.takeReleased().keys; len(keys) != 1 {
		t.Fatalf("to be read again: %v, want one", keys)
	}
	wantIDs(t, "read again", g.admit(fromTo(1, 2, keyA)), 1, 2)
}

func TestGateRefusesARequestForAKeyWithAnythingInFlight(t *testing.T) {
	t.Parallel()
	g := testGate()
	events := fromTo(1, 1, keyA)
	g.admit(events)
	if holdIdle(g, keyA) {
		t.Error("ready while outstanding")
	}
	g.resolve(outcomes(nil, events...))
	if holdIdle(g, keyA) {
		t.Error("ready while acked and not settled")
	}
	g.settled(refsOf(events))
	if !holdIdle(g, keyA) {
		t.Error("not ready after the settle")
	}
}

func TestGateKeepsAParkedKeyParkedAfterARefusedRequest(t *testing.T) {
	t.Parallel()
	g := testGate()
	g.park(keyA)
	g.unhold(g.hold([]Key{keyA}))
	if keys := g.takeReleased().keys; len(keys) != 0 || !g.HeldKey(keyA) {
		t.Errorf("to be read again: %v, held %v; want none, true", keys, g.HeldKey(keyA))
	}
}

func TestGateHoldsATopicUntilItIsInOrderAndNothingOfItIsOutstanding(t *testing.T) {
	t.Parallel()
	g := testGate()
	a, b, c := fromTo(1, 1, keyA), fromTo(2, 2, keyB), fromTo(3, 3, keyC)
	g.admit(slices.Concat(a, b, c))
	v := g.resolve(outcomes(failure(ClassTopic), a...))
	if v.heldTopics["orders"] == nil {
		t.Fatalf("held topics %v, want orders", v.heldTopics)
	}
	wantIDs(t, "admitted: only the other topic", g.admit(slices.Concat(fromTo(4, 4, keyA), fromTo(5, 5, keyB), fromTo(6, 6, Key{"payments", "d"}))), 6)
	if !g.topicReady("orders") || g.topicReady("orders") {
		t.Error("topicReady must be true once")
	}
	if topics := g.takeReleased().topics; len(topics) != 0 {
		t.Fatalf("released %v while event 2 is outstanding", topics)
	}
	g.resolve(outcomes(nil, b...))
	wantIDs(t, "admitted before the topic is read again", g.admit(fromTo(5, 5, keyB)))
	again := g.takeReleased()
	keys, topics := again.keys, again.topics
	if len(keys) != 0 || !slices.Equal(topics, []string{"orders"}) {
		t.Fatalf("to be read again: %v %v, want only topic orders", keys, topics)
	}
	wantIDs(t, "read again", g.admit(slices.Concat(a, fromTo(4, 4, keyA), fromTo(5, 5, keyB))), 1, 4, 5)
}

func TestGateSendsWhatWaitedWhenItsTopicWasHeldMeanwhile(t *testing.T) {
	t.Parallel()
	g := testGate()
	a, b := fromTo(1, 1, keyA), fromTo(2, 2, keyB)
	g.admit(slices.Concat(a, b))
	g.admit(fromTo(3, 3, keyB))
	g.resolve(outcomes(failure(ClassTopic), a...))
	g.admit(fromTo(4, 4, keyB))
	wantIDs(t, "ready", g.resolve(outcomes(nil, b...)).ready, 3)
}

func TestGateMakesAKeyOfAHeldTopicWaitForItsTopic(t *testing.T) {
	t.Parallel()
	g := testGate()
	g.park(keyA)
	b := fromTo(1, 1, keyB)
	g.admit(b)
	g.resolve(outcomes(failure(ClassTopic), b...))
	g.unpark(keyA)
	again := g.takeReleased()
	if keys, topics := again.keys, again.topics; len(keys)+len(topics) != 0 {
		t.Errorf("to be read again: %v %v; want nothing, the topic is held", keys, topics)
	}
}

func TestGateSpillsTheWaitingEventsOfStuckKeysOnly(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	g := newGate(100, 1<<20, func() time.Time { return now }, 1, []int32{0})
	stuck, moving := fromTo(1, 1, keyA), fromTo(2, 2, keyB)
	g.admit(slices.Concat(stuck, moving))
	g.admit(slices.Concat(fromTo(3, 4, keyA), fromTo(5, 6, keyB)))
	now = now.Add(time.Second)
	g.resolve(outcomes(nil, moving...))
	g.admit(fromTo(7, 7, keyB))
	if n := g.spillStuck(now); n != 2 {
		t.Fatalf("spilled %d events, want the 2 of the stuck key", n)
	}
	wantIDs(t, "admitted of a spilled key", g.admit(fromTo(8, 8, keyA)))
	wantIDs(t, "ready after the ack of a spilled key", g.resolve(outcomes(nil, stuck...)).ready)
	if keys := g.takeReleased().keys; !slices.Equal(keys, []Key{keyA}) {
		t.Fatalf("to be read again: %v, want %v", keys, keyA)
	}
	wantIDs(t, "read again", g.admit(slices.Concat(stuck, fromTo(3, 4, keyA), fromTo(8, 8, keyA))), 3, 4, 8)
}

func TestGateThatIsClosedLetsNothingNewOut(t *testing.T) {
	t.Parallel()
	g := testGate()
	sent := fromTo(1, 1, keyA)
	g.admit(sent)
	g.admit(fromTo(2, 2, keyA))
	g.close()
	wantIDs(t, "admitted", g.admit(fromTo(3, 3, keyB)))
	v := g.resolve(outcomes(nil, sent...))
	wantIDs(t, "ready", v.ready)
	if !slices.Equal(v.acked, refsOf(sent)) {
		t.Errorf("acked %v, want %v", v.acked, refsOf(sent))
	}
	select {
	case <-g.quiet:
	default:
		t.Error("not quiet although nothing is outstanding")
	}
	g.settled(refsOf(sent))
	wantEmpty(t, g)
}

func TestGateForgetsWhatWaitsBehindAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, class := range []Class{ClassUnknown, ClassOutage} {
		g := testGate()
		sent := fromTo(1, 1, keyA)
		g.admit(sent)
		g.admit(fromTo(2, 2, keyA))
		v := g.resolve(outcomes(failure(class), sent...))
		if v.unknown == nil || v.unknowns != 1 || len(v.ready) != 0 {
			t.Errorf("%s: verdict %+v, want one unknown and nothing ready", class, v)
		}
		wantEmpty(t, g)
	}
}

func TestGateCountsTheSilenceFromTheLastAnswer(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	g := newGate(100, 1<<20, func() time.Time { return now }, 1, []int32{0})
	events := fromTo(1, 2, keyA)
	silent := func(want time.Duration) {
		t.Helper()
		if got := g.silentFor(); got != want {
			t.Errorf("silent for %s, want %s", got, want)
		}
	}
	now = now.Add(time.Hour)
	silent(0)
	g.admit(events)
	now = now.Add(time.Minute)
	silent(time.Minute)
	g.resolve(outcomes(nil, events[0]))
	now = now.Add(time.Second)
	silent(time.Second)
	g.resolve(outcomes(nil, events[1]))
	now = now.Add(time.Second)
	silent(0)
}
