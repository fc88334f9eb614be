package main

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// published is a record of the event, appended some milliseconds after the beginning of the test, by the client with this producer id.
func published(n byte, key string, after int, producer int64) *kgo.Record {
	r := record(key, n)
	r.Timestamp, r.ProducerID = clock(after), producer
	return r
}

func clock(after int) time.Time {
	return time.UnixMilli(1_000_000).Add(time.Duration(after) * time.Millisecond)
}

// heard is a listener that has seen the records, in this order.
func heard(records ...*kgo.Record) *listener {
	l := &listener{seen: map[uuid.UUID]arrival{}}
	for _, r := range records {
		l.note(kgo.Fetches{{Topics: []kgo.FetchTopic{{Partitions: []kgo.FetchPartition{{Records: []*kgo.Record{r}}}}}}}, r.Timestamp)
	}
	return l
}

// Of two lanes, the keys b and c are in lane 0, and a is in lane 1.
func lane0() victim { return victim{lanes: map[int]bool{0: true}, of: 2} }

func TestTheVictimIsKnownByTheNewestRecordOfItsLanes(t *testing.T) {
	t.Parallel()
	l := heard(published(1, "b", 1, 7), published(2, "b", 2, 8), published(3, "a", 3, 9))
	if got, want := l.producers(lane0()), map[int64]bool{8: true}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	both := victim{lanes: map[int]bool{0: true, 1: true}, of: 2}
	if got := heard(published(1, "b", 1, 7)).producers(both); got != nil {
		t.Errorf("while a lane has no record yet: got %v, want none", got)
	}
}

func TestTheGapEndsWithTheFirstRecordOfAnotherRelay(t *testing.T) {
	t.Parallel()
	l := heard(
		published(1, "b", 50, 7),
		published(2, "b", 110, 7),  // the victim goes on for a moment
		published(3, "a", 120, 9),  // the other relay, in a lane of its own, long after the commit
		published(4, "b", 400, 9),  // the first by the next
		published(5, "c", 900, 9),  // the same lane
		published(6, "b", 1000, 9), // waited less
	)
	v := lane0()
	v.producers = map[int64]bool{7: true}
	done := commits{event(1): clock(49), event(2): clock(100), event(3): clock(-5000), event(4): clock(130), event(5): clock(200), event(6): clock(990)}
	got, err := l.gap(done, clock(100), v)
	want := gap{first: 300 * time.Millisecond, every: 300 * time.Millisecond, wait: 700 * time.Millisecond}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestEveryLaneCounts(t *testing.T) {
	t.Parallel()
	v := victim{lanes: map[int]bool{0: true, 1: true}, of: 2, producers: map[int64]bool{7: true}}
	l := heard(published(1, "b", 150, 9), published(2, "a", 380, 9))
	got, err := l.gap(commits{}, clock(100), v)
	if want := (gap{first: 50 * time.Millisecond, every: 280 * time.Millisecond}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestWithoutANextRelayThereIsNoGapToTell(t *testing.T) {
	t.Parallel()
	v := lane0()
	v.producers = map[int64]bool{7: true}
	// The other producer's record is older than the signal: the lane was handed over before.
	if got, err := heard(published(1, "b", 50, 9), published(2, "b", 110, 7)).gap(commits{}, clock(100), v); err == nil {
		t.Errorf("got %+v, want an error", got)
	}
}

func TestTargetsOfTakeOvers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ending int
		took   time.Duration
		want   string
	}{
		{0, 999 * time.Millisecond, "below 1 s: met"},
		{0, time.Second, "below 1 s: missed"},
		{1, 15 * time.Second, "within one lease (15s): met"},
		{2, 15*time.Second + time.Millisecond, "within one lease (15s): missed"},
	} {
		e := endings()[c.ending]
		if got := e.measures([]gap{{first: c.took}}, 15*time.Second)[0].target(); got != c.want {
			t.Errorf("%s after %s: got %q, want %q", e.name, c.took, got, c.want)
		}
	}
}
