package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

func TestATopicIsFreeOnlyWhenARelayIsThereToKnow(t *testing.T) {
	t.Parallel()
	for want, left := range map[string]time.Duration{"no": time.Second, "-": -time.Second} {
		var out bytes.Buffer
		printTopics(&out, postgres.Status{Topics: []postgres.TopicStatus{{Topic: "shop.order"}}, Relays: []postgres.RelayStatus{{Remaining: left}}})
		if got := strings.Fields(out.String()); got[len(got)-1] != want {
			t.Errorf("a relay that is alive for %s: HELD is %s, want %s", left, got[len(got)-1], want)
		}
	}
}

func TestStatusTellsWhoPublishesAndWhoWaits(t *testing.T) {
	t.Parallel()
	now := time.Now()
	one, two := uuid.New(), uuid.New()
	known := func(id uuid.UUID, name string, ago time.Duration) postgres.RelayStatus {
		return postgres.RelayStatus{Owner: relay.Owner{ID: id, Name: name}, SeenAt: now.Add(-ago), Remaining: 15*time.Second - ago}
	}
	held := func(id uuid.UUID, name string, left time.Duration) postgres.LaneStatus {
		return postgres.LaneStatus{Owner: id, OwnerName: name, Remaining: left}
	}
	for name, c := range map[string]struct {
		lanes  []postgres.LaneStatus
		relays []postgres.RelayStatus
		want   []string
	}{
		"nobody": {want: []string{"none has a lane: nothing is published"}},
		"one works, one waits, one is gone": {
			[]postgres.LaneStatus{held(two, "b:2", 12*time.Second), held(two, "b:2", 12*time.Second)},
			[]postgres.RelayStatus{known(one, "a:1", time.Second), known(two, "b:2", 5*time.Second), known(uuid.New(), "old:3", time.Hour)},
			[]string{"b:2: 2 lanes, lease ends in 12 s, seen 5 s ago", "a:1: waits, seen 1 s ago", "old:3: dead, last seen 1h0m ago"},
		},
		"three share the lanes, some are free": {
			[]postgres.LaneStatus{held(one, "a:1", 9*time.Second), held(two, "b:2", 12*time.Second), held(one, "a:1", 8*time.Second), held(two, "b:2", -time.Second), {}},
			[]postgres.RelayStatus{known(one, "a:1", time.Second), known(two, "b:2", 5*time.Second), known(uuid.New(), "c:3", 2*time.Second)},
			[]string{"a:1: 2 lanes, lease ends in 8 s, seen 1 s ago", "b:2: 1 lane, lease ends in 12 s, seen 5 s ago", "nobody: 2 lanes, whose events wait until a relay takes them", "c:3: waits, seen 2 s ago"},
		},
		"only one that was stopped": {
			[]postgres.LaneStatus{held(two, "b:2", -time.Second)},
			[]postgres.RelayStatus{known(one, "a:1", time.Second)},
			[]string{"none has a lane: nothing is published", "a:1: last seen 1 s ago"},
		},
		"one competes": {
			[]postgres.LaneStatus{{}},
			[]postgres.RelayStatus{{Owner: relay.Owner{Name: "c:1"}, Competing: true, SeenAt: now.Add(-time.Second), Remaining: time.Second}, known(one, "a:1", time.Second)},
			[]string{"c:1: competes for rows, seen 1 s ago", "a:1: waits, seen 1 s ago"},
		},
		"only dead ones": {
			nil,
			[]postgres.RelayStatus{known(one, "a:1", 49*time.Hour), known(two, "b:2", time.Minute), known(uuid.New(), "c:3", 90*time.Minute), known(uuid.New(), "d:4", 91*time.Minute),
				known(uuid.New(), "e:5", 92*time.Minute), known(uuid.New(), "f:6", 93*time.Minute)},
			[]string{"none has a lane: nothing is published", "b:2: dead, last seen 60 s ago", "c:3: dead, last seen 1h30m ago", "d:4: dead, last seen 1h31m ago",
				"e:5: dead, last seen 1h32m ago", "f:6: dead, last seen 1h33m ago", "and 1 more that are dead: --json lists them"},
		},
		"the owner went": {
			[]postgres.LaneStatus{held(one, "", 3*time.Second)}, nil,
			[]string{"a relay that is not seen any more: 1 lane, lease ends in 3 s"},
		},
		"the owner is silent": {
			[]postgres.LaneStatus{held(one, "a:1", 200*time.Second)}, []postgres.RelayStatus{known(one, "a:1", 90*time.Second)},
			[]string{"a:1: not seen for 1m30s, 1 lane, lease ends in 200 s"},
		},
	} {
		if got := relays(postgres.Status{At: now, Lanes: c.lanes, Relays: c.relays}); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestANumberThatIsCutOffLooksCutOff(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{stdout: &out}
	err := a.printTopicList(operate.TopicList{
		Topics: []operate.Topic{{Topic: "shop.order", Pending: 15_000, PendingCapped: true, ParkedKeys: 7}, {Topic: "shop.invoice", Dead: 9, PendingCapped: true, DeadCapped: true}},
		Looks:  []operate.Look{{What: "unpublished events", Events: 30_000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	pause := postgres.PauseStatus{Pause: relay.Pause{Scope: relay.PauseSource, By: "ann"}, Pending: 1_000_000, PendingCapped: true}
	s := postgres.Status{
		Backlog: postgres.Backlog{Pending: 1_000_000, PendingCapped: true, Paused: postgres.Paused{Source: true}}, Pauses: []postgres.PauseStatus{pause},
		Topics: []postgres.TopicStatus{{Topic: "shop.order", Pending: 400_000, PendingCapped: true}},
	}
	if err := a.printStatus(sourceStatus{status: s}); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"shop.order 15000+ 0s 7 0 ", "shop.invoice 0+ - 0 9+ ", "the oldest 30,000 are counted; + marks", "pending 1000000+ ", "everything: 1000000+ events pending", "shop.order 400000+ ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}
