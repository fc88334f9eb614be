package postgres

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/operate"
)

// graves are dead events of six keys, three close together and three far from those, each with what follows it in its key: nothing, an unpublished event or a published one.
func graves(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t)
	for n, published := range []string{"", "NULL", "now()", "", "NULL", "now()"} {
		id, key := int64(1+300_000*(n/3)+10*(n%3)), string(rune('a'+n))
		d.event(id, "shop.a", key, "NULL")
		if published != "" {
			d.event(id+5, "shop.a", key, published)
		}
		d.die(id, "no")
	}
	return d
}

func TestABulkRestoreTellsTheKeysWhoseNewerEventsAreOut(t *testing.T) {
	t.Parallel()
	d := graves(t)
	service, err := operate.New(d.store, nil, operate.Config{LookTimeout: lookTime})
	if err != nil {
		t.Fatal(err)
	}
	all := operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{Topic: some("shop.a")}}
	refs := []operate.Ref{{ID: 21}, {ID: 300_021}, {ID: 1}}
	for name, c := range map[string]struct {
		b    operate.Bulk
		want operate.OvertakenEvents
	}{
		"all":      {all, operate.OvertakenEvents{Events: 2, Keys: 2}},
		"named":    {operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{Refs: refs}}, operate.OvertakenEvents{Events: 2, Keys: 2}},
		"of a key": {operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{PartitionKey: some("a")}}, operate.OvertakenEvents{}},
	} {
		p, err := service.Plan(t.Context(), ann, c.b, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := *p.Overtaken
		named := got.Named
		got.Named = nil
		if got.Events != c.want.Events || got.Keys != c.want.Keys || got.Unknown != c.want.Unknown || len(named) != int(c.want.Keys) {
			t.Errorf("%s: got %+v, want %+v", name, p.Overtaken, c.want)
		}
		if len(named) > 0 && (named[0].PartitionKey != "c" || named[1].PartitionKey != "f") {
			t.Errorf("%s: the keys are %+v", name, named)
		}
	}
	same(t, "requests of a plan", queryOne[int](t, d.db, `SELECT count(*) FROM outbox.request`), 0)
}

// A page that would take too many looks ends early, and the next one goes on there.
func TestDeadEventsFarApartAreLookedBehindInPages(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, died_by)
SELECT $1, i * 30000::bigint, gen_random_uuid(), 't', i::text, 0, '{}', 'DEAD', 'x', 'ann' FROM generate_series(1, 25) i`, d.id)
	named := operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{}, Only: []operate.Target{}}
	for i := int64(1); i <= 25; i++ {
		named.Only = append(named.Only, operate.Target{Topic: "t", PartitionKey: "k", ID: i * 30_000, EventID: uuid.New()})
	}
	for name, b := range map[string]operate.Bulk{"by filter": {Verb: operate.VerbRestore, Events: &operate.EventFilter{State: operate.StateDead}}, "by name": named} {
		var sizes []int
		for at := (operate.Cursor{}); !at.End; {
			p, err := d.store.OvertakenOf(t.Context(), b, at, 1000)
			if err != nil || len(sizes) > 9 {
				t.Fatalf("%s: %v after pages of %v", name, err, sizes)
			}
			at = p.Next
			sizes = append(sizes, len(p.Events))
			for _, e := range p.Events {
				if e.Overtaken != operate.OvertakenNo {
					t.Errorf("%s: %+v, though the table is empty", name, e)
				}
			}
		}
		same(t, name, sizes, []int{10, 10, 5})
	}
}

func TestTheNoteOfAKeyIsOfTheKeyAlone(t *testing.T) {
	t.Parallel()
	d := graves(t)
	d.event(30, "shop.b", "a", "now()")
	p, err := d.store.OvertakenOf(t.Context(), operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{State: operate.StateDead}}, operate.Cursor{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range p.Events {
		out = append(out, e.PartitionKey+" "+string(e.Overtaken))
	}
	same(t, "keys", strings.Join(out, ", "), "a no, b no, c yes, d no, e no, f yes")
}

// Rows that are gone hide what is published: none that is left proves nothing then.
func TestWhatIsOvertakenIsUnknownOnceSettledRowsMayBeGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		want   string
	}{
		"nothing was ever published":                 {`SELECT 1`, "a no, b no, c yes, d no, e no, f yes"},
		"all that was published is there":            {`UPDATE outbox.source SET first_published_at = now() - interval '1 day', last_published_at = now()`, "a no, b no, c yes, d no, e no, f yes"},
		"pruned":                                     {`INSERT INTO outbox.retention (source, owner, name, expires_at, pruned, pruned_at) SELECT id, gen_random_uuid(), 'x', '-infinity', 1, now() FROM outbox.source`, "a rows_gone, b rows_gone, c yes, d rows_gone, e rows_gone, f yes"},
		"a relay deletes":                            {`INSERT INTO outbox.retention (source, owner, name, expires_at, older_than) SELECT id, gen_random_uuid(), 'x', now() + interval '1 minute', '1 day' FROM outbox.source`, "a rows_gone, b rows_gone, c yes, d rows_gone, e rows_gone, f yes"},
		"settled by deleting":                        {`WITH x AS (UPDATE outbox.source SET first_published_at = now(), last_published_at = now()) DELETE FROM outbox_event WHERE published_at IS NOT NULL`, "a rows_gone, b rows_gone, c rows_gone, d rows_gone, e rows_gone, f rows_gone"},
		"settled by deleting, by marking before":     {`UPDATE outbox.source SET first_published_at = now(), last_published_at = now() + interval '1 hour'`, "a rows_gone, b rows_gone, c yes, d rows_gone, e rows_gone, f yes"},
		"settled by deleting, and nobody noted when": {`WITH x AS (UPDATE outbox.source SET first_published_at = now()) DELETE FROM outbox_event WHERE published_at IS NOT NULL`, "a rows_gone, b rows_gone, c rows_gone, d rows_gone, e rows_gone, f rows_gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := graves(t)
			d.exec(c.change)
			p, err := d.store.OvertakenOf(t.Context(), operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{State: operate.StateDead}}, operate.Cursor{}, 1000)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, e := range p.Events {
				out = append(out, e.PartitionKey+" "+string(e.Overtaken))
				one, err := d.store.Overtaken(t.Context(), operate.Target{Topic: e.Topic, PartitionKey: e.PartitionKey, ID: graveOf(e.PartitionKey)})
				if err != nil || one != e.Overtaken {
					t.Errorf("one of key %s: %s, %v; among many %s", e.PartitionKey, one, err, e.Overtaken)
				}
			}
			same(t, "keys", strings.Join(out, ", "), c.want)
		})
	}
}

// graveOf is the id of the dead event of a key.
func graveOf(key string) int64 {
	n := int64(key[0] - 'a')
	return 1 + 300_000*(n/3) + 10*(n%3)
}

func TestADeadEventShowsWhereARestorePutsIt(t *testing.T) {
	t.Parallel()
	d := graves(t)
	for id, want := range map[int64]string{
		graveOf("a"): "outbox events restore puts it back in its place",
		graveOf("c"): "outbox events restore puts it back behind newer events of its key, which are published already",
	} {
		if text := d.show(operate.Ref{ID: id}).Why[0].Text; !strings.HasSuffix(text, "; "+want) {
			t.Errorf("event %d: %s", id, text)
		}
	}
	if _, err := d.store.Prune(t.Context(), operate.Prune{Events: &operate.PruneEvents{}}, nil); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "c"} {
		if text := d.show(operate.Ref{ID: graveOf(key)}).Why[0].Text; !strings.HasSuffix(text, "not known: settled rows of its key may have been deleted") || strings.Contains(text, "in its place") {
			t.Errorf("key %s, pruned: %s", key, text)
		}
	}
}

func TestAMatchCountsWhatWasSentToDeadLetterTopics(t *testing.T) {
	t.Parallel()
	d := graves(t)
	d.exec(`UPDATE outbox.dead_event SET letter_topic = 'dead.a' WHERE id > 20`)
	d.exec(`UPDATE outbox.dead_event SET letter_topic = 'dead.b' WHERE id = 1`)
	m, err := d.store.Match(t.Context(), operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{State: operate.StateDead}}, operate.Cursor{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "count", m.Count, 6)
	same(t, "topics", m.Topics, map[string]int64{"shop.a": 6})
	same(t, "letters", m.Letters, map[string]int64{"dead.a": 4, "dead.b": 1})
}

// Nothing behind the event is published; the row in front of it shows that settled rows are kept.
func TestASettledRowInFrontOfTheEventShowsThatTheyAreKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.event(1, "shop.a", "other", "now()")
	d.event(10, "shop.a", "a", "NULL")
	d.die(10, "no")
	d.exec(`UPDATE outbox.source SET first_published_at = now(), last_published_at = now()`)
	answer, err := d.store.Overtaken(t.Context(), operate.Target{Topic: "shop.a", PartitionKey: "a", ID: 10})
	if err != nil || answer != operate.OvertakenNo {
		t.Errorf("got %s, %v", answer, err)
	}
}
