package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/relay"
)

// lookName returns the name that a look gives to what is paused.
func lookName(t *testing.T, s *Source, o relay.Owner) string {
	t.Helper()
	v, err := s.Look(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return v.Pauses
}

func TestALookNoticesEveryChangeOfWhatIsPaused(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s, o, me := openSource(t, db, Config{}), newOperator(t, db), owner("a")
	same(t, "name of nothing", lookName(t, s, me), "")
	seen := map[string]bool{"": true}
	for _, p := range []relay.Pause{
		{Scope: relay.PauseSource}, {Scope: relay.PauseTopic, Topic: "a"}, {Scope: relay.PauseTopic, Topic: "b"}, {Scope: relay.PauseKey, Topic: "a", PartitionKey: ""},
		{Scope: relay.PauseKey, Topic: "a", PartitionKey: "Größe\n"},
	} {
		changed, err := o.Pause(t.Context(), p.Scope, p.Topic, p.PartitionKey, "ann", "an incident")
		if err != nil || !changed {
			t.Fatalf("pause %+v: %t, %v", p, changed, err)
		}
		name := lookName(t, s, me)
		if seen[name] {
			t.Errorf("the name after pausing %+v was seen before", p)
		}
		seen[name] = true
		if changed, err := o.Pause(t.Context(), p.Scope, p.Topic, p.PartitionKey, "bob", ""); err != nil || changed {
			t.Errorf("pausing %+v twice: %t, %v", p, changed, err)
		}
		same(t, "name after pausing it twice", lookName(t, s, me), name)
	}
	all, err := s.Pauses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the same name", all.Name, lookName(t, s, me))
	same(t, "how many", len(all.All), 5)
	last := all.All[4]
	same(t, "the last", []string{string(last.Scope), last.Topic, last.PartitionKey, last.By, last.Reason}, []string{"key", "a", "Größe\n", "ann", "an incident"})
	for i, p := range all.All {
		if changed, err := o.Resume(t.Context(), p.Scope, p.Topic, p.PartitionKey); err != nil || !changed {
			t.Errorf("resume %+v: %t, %v", p, changed, err)
		}
		if name := lookName(t, s, me); seen[name] != (i == 4) {
			t.Errorf("after %d are resumed the name is %q", i+1, name)
		}
	}
	if changed, err := o.Resume(t.Context(), relay.PauseSource, "", ""); err != nil || changed {
		t.Errorf("resuming what is not paused: %t, %v", changed, err)
	}
}

func TestPausesThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	o := newOperator(t, newDatabase(t))
	for _, c := range []struct {
		scope          relay.PauseScope
		topic, key, by string
		want           string
	}{
		{"everything", "", "", "ann", `scope "everything" is unknown: use source, topic or key`},
		{relay.PauseSource, "a", "", "ann", "the source has no topic"},
		{relay.PauseTopic, "", "", "ann", "has no topic: name it"},
		{relay.PauseTopic, "a", "k", "ann", "pause the key instead"},
		{relay.PauseKey, "", "k", "ann", "has no topic: name it"},
		{relay.PauseTopic, "a\x00", "", "ann", "UTF-8 without NUL"},
		{relay.PauseKey, "a", "\xff", "ann", "UTF-8 without NUL"},
		{relay.PauseTopic, string(make([]byte, 2000)), "", "ann", "UTF-8 without NUL"},
		{relay.PauseSource, "", "", " ", "nobody is named"},
	} {
		_, err := o.Pause(t.Context(), c.scope, c.topic, c.key, c.by, "")
		wantText(t, err, c.want)
	}
}

// A competing relay looks at what is paused in the statement that takes rows.
func TestCompetingRelaysObeyPauses(t *testing.T) {
	t.Parallel()
	for _, scope := range []relay.PauseScope{relay.PauseSource, relay.PauseTopic, relay.PauseKey} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			c, o := openCompeting(t, db), newOperator(t, db)
			refs := insert(t, db, orders, 2)
			free := relay.Key{Topic: "free", PartitionKey: "k"}
			others := insert(t, db, free, 1)
			topic, key := orders.Topic, ""
			switch scope {
			case relay.PauseSource:
				topic = ""
			case relay.PauseKey:
				key = orders.PartitionKey
			}
			if _, err := o.Pause(t.Context(), scope, topic, key, "ann", ""); err != nil {
				t.Fatal(err)
			}
			passAll(t, c)
			want := ids(others)
			if scope == relay.PauseSource {
				want = []int64{}
			}
			same(t, "published while paused", published(t, db), want)
			if _, err := o.Resume(t.Context(), scope, topic, key); err != nil {
				t.Fatal(err)
			}
			passAll(t, c)
			same(t, "published afterwards", published(t, db), ids(append(refs, others...)))
		})
	}
}

// The look costs one statement, paused or not.
func TestALookIsOneStatement(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	if _, err := newOperator(t, db).Pause(t.Context(), relay.PauseTopic, "a", "", "ann", ""); err != nil {
		t.Fatal(err)
	}
	count := &counter{}
	s := openSource(t, reconfigured(t, db, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = count }), Config{})
	lookName(t, s, owner("a"))
	before := count.n.Load()
	for range 10 {
		lookName(t, s, owner("a"))
	}
	same(t, "statements of 10 looks", count.n.Load()-before, int64(10))
}
