//go:build integration && unix

package kafka_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/relay"
)

// seeded returns a source of chance that the log tells how to repeat.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("OUTBOX_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("OUTBOX_TEST_SEED=%s: want a number", s)
		}
	}
	t.Logf("seed %d (repeat with OUTBOX_TEST_SEED=%d)", seed, seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// writingBad inserts events of 20 keys, one after the other, until stopped; one in ten is too large for a topic of 5,000 bytes.
func (f *fixture) writingBad(t *testing.T, r *rand.Rand, topic string) (stop func() int) {
	t.Helper()
	return f.writingThe(t, topic, func(n int) (key, payload string) {
		payload = fmt.Sprintf(`{"n":%d}`, n)
		if r.IntN(10) == 0 {
			payload = oversized(n)
		}
		return fmt.Sprint("k", r.IntN(20)), payload
	})
}

// wantLetters compares the letters with the dead events: each has one, or more where repeats are allowed, and no other event has any.
func (f *fixture) wantLetters(t *testing.T, topic string, mayRepeat bool) {
	t.Helper()
	letters := map[uuid.UUID]int{}
	for _, id := range kafkatest.EventIDs(f.records(t, deadTopic(topic))) {
		letters[id]++
	}
	var dead []uuid.UUID
	if err := f.pool.QueryRow(t.Context(), "SELECT array_agg(event_id ORDER BY id) FROM outbox.dead_event WHERE letter_topic = $1", deadTopic(topic)).Scan(&dead); err != nil {
		t.Fatal(err)
	}
	repeats := 0
	for _, id := range dead {
		if letters[id] == 0 {
			t.Errorf("event %s is dead and has no letter", id)
		}
		repeats += max(letters[id]-1, 0)
	}
	if len(letters) != len(dead) {
		t.Errorf("%d events have letters and %d are dead", len(letters), len(dead))
	}
	if repeats > 0 && !mayRepeat {
		t.Errorf("%d letters came twice", repeats)
	}
	t.Logf("%d letters of %d events, %d came twice", len(letters), len(dead), repeats)
}

// wantDeadOrPublished wants every event that was written in the topic, in the order of its key, or among the dead ones; and never in both.
func (f *fixture) wantDeadOrPublished(t *testing.T, topic string, written int) (repeats int) {
	t.Helper()
	repeats = f.compareOrder(t, topic)
	rows := f.count(t, "SELECT count(*) FROM outbox_event WHERE published_at IS NOT NULL")
	dead := f.count(t, "SELECT count(*) FROM outbox.dead_event")
	if rows+dead != written || dead == 0 {
		t.Errorf("%d events are published and %d dead, want %d together and some dead", rows, dead, written)
	}
	if n := f.count(t, "SELECT count(*) FROM outbox.dead_event WHERE length(event->'payload'->>'x') IS NULL"); n != 0 {
		t.Errorf("%d events are dead that were not too large", n)
	}
	if n := f.count(t, "SELECT count(*) FROM outbox_event WHERE payload ? 'x'"); n != 0 {
		t.Errorf("%d events that are too large are in the table", n)
	}
	return repeats
}

// Relays are killed and started anew while events fail and letters are sent: no event is lost or blamed wrongly, and each that is given up is dead once.
func TestKilledRelaysGiveUpWhatFailsAndNothingElse(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	f := newFixture(t)
	topic := f.topic(t, name("killed"), 4, "max.message.bytes", "5000")
	f.topic(t, deadTopic(topic), 4)
	args := append(slices.Clone(relayArgs), "--on-failure", "*=dead-letter topic=dead-{topic}")
	stop := f.writingBad(t, rand.New(rand.NewPCG(r.Uint64(), 1)), topic)
	relays := []*process{f.startProcess(t, args...), f.startProcess(t, args...)}
	published := func() int { return f.count(t, "SELECT count(*) FROM outbox_event WHERE published_at IS NOT NULL") }
	for range 3 {
		enough := published() + 100 + r.IntN(200)
		await.Until(t, "events flow", func() bool { return published() >= enough })
		i := r.IntN(len(relays))
		relays[i].end(syscall.SIGKILL)
		relays[i] = f.startProcess(t, args...)
	}
	written := stop()
	f.awaitPublished(t)
	repeats := f.wantDeadOrPublished(t, topic, written)
	f.wantLetters(t, topic, true)
	t.Logf("%d events, %d came twice", written, repeats)
}

// Lanes move in peace while events fail and letters are sent: nothing comes twice, and no letter either.
func TestLettersAreSentOnceWhileLanesMove(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	f := newFixture(t)
	topic := f.topic(t, name("moving"), 4, "max.message.bytes", "5000")
	f.topic(t, deadTopic(topic), 4)
	stop := f.writingBad(t, r, topic)
	cfg := relay.Config{Policies: letters}
	first := f.start(t, cfg)
	shares(t, first)
	for range 3 {
		second := f.start(t, cfg)
		shares(t, first, second)
		before := second.Stats().Dead
		await.Until(t, "it gives something up", func() bool { return second.Stats().Dead > before+3 })
		if err := first.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		first = second
	}
	written := stop()
	f.awaitPublished(t)
	if repeats := f.wantDeadOrPublished(t, topic, written); repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
	f.wantLetters(t, topic, false)
}

// The broker dies while letters are on their way. That is an outage: it costs no event an attempt, and no letter is lost.
func TestABrokerThatDiesUnderLettersLosesNone(t *testing.T) {
	f := newFixture(t)
	node := f.ownBroker(t)
	topic := f.topic(t, name("dying"), 3, "max.message.bytes", "5000")
	f.topic(t, deadTopic(topic), 3)
	e := f.start(t, relay.Config{Policies: letters})
	stop := f.writingBad(t, seeded(t), topic)
	for range 2 {
		before := e.Stats().Dead
		await.Until(t, "events are given up", func() bool { return e.Stats().Dead > before+10 })
		if err := node.Kill(); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "a backlog grows", func() bool { return f.pending(t) > 100 })
		f.noTransactionIsOpen(t)
		if err := node.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	written := stop()
	f.awaitPublished(t)
	if repeats := f.wantDeadOrPublished(t, topic, written); repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
	f.wantLetters(t, topic, false)
	if n := f.count(t, "SELECT count(*) FROM outbox.dead_event WHERE attempts <> 1"); n != 0 {
		t.Errorf("%d events have more than the one attempt that failed", n)
	}
}

// A command that is killed in the middle of its job leaves requests behind; the next one finishes what is left, and nothing is done twice.
func TestACommandThatIsKilledIsFinishedByTheNextOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("command"), 4, "max.message.bytes", "5000")
	const keys = 3000
	f.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', 'k' || i, 'order.changed.v1', jsonb_build_object('n', n, 'x', CASE n WHEN 1 THEN repeat('x', 6000) ELSE '' END), $1, 'k' || i
FROM generate_series(1, 2) n, generate_series(1, $2::int) i`, topic, keys)
	f.start(t, relay.Config{})
	f.awaitParked(t, keys)
	verbs := [][]string{
		{"events", "dead", "--topic", topic, "--reason", "a test"},
		{"events", "restore", "--topic", topic},
	}
	dead := func() int { return f.count(t, "SELECT count(*) FROM outbox.dead_event") }
	for i, verb := range verbs {
		if i == 1 {
			f.setLimit(t, topic, "100000")
		}
		command := f.startProcess(t, append(verb, "--yes")...)
		await.Until(t, "some of it is done", func() bool { n := dead(); return 0 < n && n < keys || n == keys*(1-i) })
		command.end(syscall.SIGKILL)
		_, errs, code := f.outbox(t, append(verb, "--yes")...)
		if want := keys * (1 - i); code != 0 || dead() != want {
			t.Errorf("%s again: exit code %d, and %d are dead, want %d: %s", strings.Join(verb, " "), code, dead(), want, errs)
		}
	}
	f.awaitPublished(t)
	got, repeats := kafkatest.ByKey(f.records(t, topic))
	want := kafkatest.InTable(t, f.pool, topic)
	for _, ids := range want {
		slices.Reverse(ids)
	}
	kafkatest.Compare(t, topic, got, want)
	if repeats != 0 {
		t.Errorf("%d records came twice", repeats)
	}
}

// Events of megabytes go out where the topic takes them. One above 32 MiB stops its key, wherever it is to go, and is given up whole.
func TestEventsOfMegabytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	usual, wide := f.topic(t, name("usual"), 2), f.topic(t, name("wide"), 2, "max.message.bytes", "50000000")
	const most = 40_000_000
	for _, c := range []struct {
		topic string
		sizes []int
	}{{usual, []int{900_000, 1_100_000}}, {wide, []int{900_000, 1_100_000, 20_000_000, most}}} {
		for _, size := range c.sizes {
			f.insert(t, c.topic, fmt.Sprint(size), fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("x", size)))
			f.insert(t, c.topic, fmt.Sprint(size), `{"follower":true}`)
		}
	}
	e := f.start(t, relay.Config{})
	await.Until(t, "two keys are parked and the others published", func() bool {
		return f.pending(t) == 4 && f.count(t, "SELECT count(*) FROM outbox.parked_key") == 2
	})
	for topic, key := range map[string]int{usual: 1_100_000, wide: most} {
		if out, errs, code := f.outbox(t, "keys", "skip", "--topic", topic, "--key", fmt.Sprint(key), "--reason", "too large"); code != 0 {
			t.Errorf("skip: %d\n%s%s", code, out, errs)
		}
	}
	f.awaitPublished(t)
	for _, topic := range []string{usual, wide} {
		if repeats := f.compareOrder(t, topic); repeats != 0 {
			t.Errorf("%d records of %s came twice", repeats, topic)
		}
	}
	if n := f.count(t, "SELECT max(length(event->'payload'->>'x')) FROM outbox.dead_event"); n != most {
		t.Errorf("the largest dead event holds a text of %d bytes, want %d", n, most)
	}
	if errs := e.Stats().Errors; errs[relay.ClassOutage]+errs[relay.ClassTopic]+errs[relay.ClassUnknown] != 0 {
		t.Errorf("errors of other classes: %v", errs)
	}
}
