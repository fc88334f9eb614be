package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/relay"
)

func failed(key relay.Key, ref relay.Ref, code string) relay.FailedEvent {
	return relay.FailedEvent{Key: key, Event: ref, EventType: "order.changed.v1", Code: code, Reason: "because of " + code}
}

func failing(t *testing.T, s *Source) []relay.Failing {
	t.Helper()
	all, err := s.Failing(t.Context(), allLanes)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func retry(t *testing.T, s *Source, c relay.Claim, e relay.FailedEvent, wait time.Duration) {
	t.Helper()
	gone, err := s.Retry(t.Context(), c, []relay.RetriedEvent{{FailedEvent: e, Wait: wait}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "keys that wait for nothing", gone, nil)
}

// buryOne moves an event; the error is what the call gives, or what became of the event.
func buryOne(ctx context.Context, s *Source, c relay.Claim, d relay.DeadEvent) (moved bool, err error) {
	became, err := s.Bury(ctx, c, []relay.DeadEvent{d})
	if err != nil {
		return false, err
	}
	return became[0].Moved, became[0].Err
}

func due(t *testing.T, s *Source, c relay.Claim) (ids []int64) {
	t.Helper()
	all, err := s.Due(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		ids = append(ids, f.Event.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestAttemptsAreKeptWithFirstAndLastErrorAndTheNextTime(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	ref := insert(t, db, orders, 1)[0]
	retry(t, s, c, failed(orders, ref, "FIRST"), time.Hour)
	retry(t, s, c, failed(orders, ref, "SECOND"), time.Hour)
	got := failing(t, s)
	if len(got) != 1 || got[0].Key != orders || got[0].Event != ref || got[0].Attempts != 2 || got[0].Crashes != 0 || !got[0].Waits ||
		got[0].In < 59*time.Minute || got[0].In > time.Hour {
		t.Errorf("records: %+v", got)
	}
	park(t, s, c, relay.ParkedKey{Key: orders, Event: ref, EventType: "x", Code: "THIRD", Reason: "it is the last"})
	same(t, "errors", queryOne[string](t, db, "SELECT attempts || ' / ' || first_error || ' / ' || last_error || ' / ' || (next_attempt_at IS NULL)::text FROM outbox.failure"),
		"3 / FIRST: because of FIRST / THIRD: it is the last / true")
}

func TestAnEventIsDueOnceWhenItsTimeHasComeByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 3)
	retry(t, s, c, failed(orders, refs[0], "X"), 0)
	retry(t, s, c, failed(orders, refs[1], "X"), time.Hour)
	same(t, "due", due(t, s, c), []int64{refs[0].ID})
	same(t, "due again", due(t, s, c), nil)
	// The moment itself counts.
	exec(t, db, "UPDATE outbox.failure SET next_attempt_at = clock_timestamp() WHERE id = $1", refs[1].ID)
	same(t, "due at the moment", due(t, s, c), []int64{refs[1].ID})
}

func TestOnlyTheOwnerOfTheLaneIsToldWhatIsDue(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	ref := insert(t, db, orders, 1)[0]
	retry(t, s, c, failed(orders, ref, "X"), 0)
	stale := c
	stale.Epochs = slices.Clone(c.Epochs)
	for i := range stale.Epochs {
		stale.Epochs[i]--
	}
	same(t, "due for the owner before", due(t, s, stale), nil)
	other := c
	other.Owner = owner("b")
	same(t, "due for another", due(t, s, other), nil)
	if _, err := s.Retry(t.Context(), stale, []relay.RetriedEvent{{FailedEvent: failed(orders, ref, "X")}}); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("retry of the owner before: %v, want ErrLeaseLost", err)
	}
	if _, err := buryOne(t.Context(), s, stale, relay.DeadEvent{FailedEvent: failed(orders, ref, "X"), By: "x"}); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("bury of the owner before: %v, want ErrLeaseLost", err)
	}
	if err := s.Begin(t.Context(), stale, []*relay.Event{{ID: ref.ID, EventID: ref.EventID, Topic: orders.Topic, PartitionKey: orders.PartitionKey}}); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("begin of the owner before: %v, want ErrLeaseLost", err)
	}
	same(t, "due for the owner", due(t, s, c), []int64{ref.ID})
}

func TestRecordsOfEventsThatAreGoneAreRemoved(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 4)
	for _, ref := range refs {
		retry(t, s, c, failed(orders, ref, "X"), time.Hour)
	}
	exec(t, db, "UPDATE outbox_event SET published_at = now() WHERE id = $1", refs[0].ID)
	exec(t, db, "DELETE FROM outbox_event WHERE id = $1", refs[1].ID)
	exec(t, db, "UPDATE outbox_event SET event_id = gen_random_uuid() WHERE id = $1", refs[2].ID)
	got := failing(t, s)
	if len(got) != 1 || got[0].Event != refs[3] {
		t.Errorf("records: %+v, want that of event %d", got, refs[3].ID)
	}
	same(t, "records in the table", queryOne[int](t, db, "SELECT count(*) FROM outbox.failure"), 1)
}

func eventsOf(key relay.Key, refs ...relay.Ref) (all []*relay.Event) {
	for _, ref := range refs {
		all = append(all, &relay.Event{ID: ref.ID, EventID: ref.EventID, Topic: key.Topic, PartitionKey: key.PartitionKey})
	}
	return all
}

func TestCrashesAreCountedAndTakenBack(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 4)
	retry(t, s, c, failed(orders, refs[2], "X"), time.Hour)
	for range 2 {
		if err := s.Begin(t.Context(), c, eventsOf(orders, refs...)); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range failing(t, s) {
		want := 0
		if i == 2 {
			want = 1
		}
		if f.Event != refs[i] || f.Crashes != 2 || f.Attempts != want {
			t.Errorf("record %d: %+v, want 2 crashes and %d attempts", i, f, want)
		}
	}
	same(t, "what is said of a crash", queryOne[string](t, db, "SELECT last_error FROM outbox.failure WHERE id = $1", refs[0].ID), beginError)
	same(t, "what is said of a failure", queryOne[string](t, db, "SELECT last_error FROM outbox.failure WHERE id = $1", refs[2].ID), "X: because of X")
	if err := s.Clear(t.Context(), refs[:1], refs[1:3]); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, f := range failing(t, s) {
		left = append(left, fmt.Sprint(f.Event.ID-refs[0].ID, " ", f.Attempts, " ", f.Crashes))
	}
	same(t, "records left (event, attempts, crashes)", left, []string{"2 1 0", "3 0 2"})
	park(t, s, c, relay.ParkedKey{Key: orders, Event: refs[3], Code: relay.CodeCrashLoop, Reason: "it ends relays"})
	same(t, "attempts of the crash loop", queryOne[string](t, db, "SELECT attempts || ' ' || crashes || ' ' || last_error FROM outbox.failure WHERE id = $1", refs[3].ID),
		"2 0 CRASH_LOOP: it ends relays")
}

func TestAnEventIsBuriedWholeWithItsAttempts(t *testing.T) {
	t.Parallel()
	for _, mode := range []SettleMode{Mark, Delete} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			exec(t, db, "ALTER TABLE outbox_event ADD COLUMN tenant text DEFAULT 'acme'")
			s := openSource(t, db, Config{Settle: mode})
			c := claim(t, s, owner("a"))
			refs := insert(t, db, orders, 2)
			retry(t, s, c, failed(orders, refs[0], "X"), time.Hour)
			row := queryOne[string](t, db, "SELECT to_jsonb(e)::text FROM outbox_event e WHERE id = $1", refs[0].ID)
			buried, err := buryOne(t.Context(), s, c, relay.DeadEvent{FailedEvent: failed(orders, refs[0], "LAST"), By: "relay one"})
			if err != nil || !buried {
				t.Fatalf("buried %v, %v", buried, err)
			}
			same(t, "dead event", queryOne[string](t, db, `SELECT concat_ws(' | ', topic, partition_key, code, reason, attempts, died_by) FROM outbox.dead_event`),
				fmt.Sprintf("%s | %s | LAST | because of LAST | 2 | relay one", orders.Topic, orders.PartitionKey))
			same(t, "its row", queryOne[string](t, db, "SELECT event::text FROM outbox.dead_event"), row)
			same(t, "rows left", queryOne[int](t, db, "SELECT count(*) FROM outbox_event"), 1)
			same(t, "records left", queryOne[int](t, db, "SELECT count(*) FROM outbox.failure"), 0)
			buried, err = buryOne(t.Context(), s, c, relay.DeadEvent{FailedEvent: failed(orders, refs[0], "LAST"), By: "relay one"})
			if err != nil || buried {
				t.Errorf("buried again: %v, %v", buried, err)
			}
		})
	}
}

func TestADeadEventKeepsWhereItWasSent(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	refs := insert(t, db, orders, 3)
	for i, letter := range []*relay.Place{{Topic: "dead", Partition: 2, Offset: 0}, {Topic: "dead", Partition: 0, Offset: -1}, nil} {
		if _, err := buryOne(t.Context(), s, c, relay.DeadEvent{FailedEvent: failed(orders, refs[i], "X"), By: "x", Letter: letter}); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "letters", queryOne[[]string](t, db, `
SELECT array_agg(concat_ws(' ', coalesce(letter_topic, 'none'), coalesce(letter_partition::text, '-'), coalesce(letter_offset::text, '-')) ORDER BY id) FROM outbox.dead_event`),
		[]string{"dead 2 0", "dead 0 -", "none - -"})
	for i, want := range []string{"; it is in the dead-letter topic dead, too", "; it is in the dead-letter topic dead, too", "in its place"} {
		outcome, problem := askedFor(t, db, s, c, VerbRestore, orders, refs[i])
		wantOutcome(t, outcome, problem, "restored: ")
		if !strings.HasSuffix(outcome, want) {
			t.Errorf("restored %d: %q, want it to end with %q", i, outcome, want)
		}
	}
	// Written again by hand beside the dead one and given up again, it was sent nowhere.
	if _, err := buryOne(t.Context(), s, c, relay.DeadEvent{FailedEvent: failed(orders, refs[0], "X"), By: "x", Letter: &relay.Place{Topic: "dead"}}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `INSERT INTO outbox_event OVERRIDING SYSTEM VALUE SELECT (jsonb_populate_record(NULL::outbox_event, event)).* FROM outbox.dead_event`)
	askedFor(t, db, s, c, VerbDead, orders, refs[0])
	same(t, "letter of one that was restored", queryOne[int](t, db, `SELECT count(letter_topic) FROM outbox.dead_event`), 0)
}

func TestTopicsOfWhatIsInTheTableAreListed(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	for _, topic := range []string{"published", "parked", "dead", "pending"} {
		key := relay.Key{Topic: topic, PartitionKey: "k"}
		ref := insert(t, db, key, 1)[0]
		switch topic {
		case "published":
			settle(t, s, []relay.Ref{ref})
		case "parked":
			park(t, s, c, relay.ParkedKey{Key: key, Event: ref, Code: "X"})
		case "dead":
			if _, err := buryOne(t.Context(), s, c, relay.DeadEvent{FailedEvent: failed(key, ref, "X"), By: "x"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	topics, err := s.Topics(t.Context())
	slices.Sort(topics)
	if err != nil || !slices.Equal(topics, []string{"dead", "parked", "pending", "published"}) {
		t.Errorf("topics %v, %v", topics, err)
	}
}

// The lane is locked meanwhile, and its lease is to be renewed.
func TestBuryingDoesNotWaitForWhoeverHasTheRow(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	ref := insert(t, db, orders, 1)[0]
	tx := begin(t, db)
	if _, err := tx.Exec(t.Context(), "SELECT FROM outbox_event FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	d := relay.DeadEvent{FailedEvent: failed(orders, ref, "X"), By: "relay one"}
	if buried, err := buryOne(t.Context(), s, c, d); buried || !errors.Is(err, relay.ErrLocked) {
		t.Errorf("with the row locked: %t, %v, want relay.ErrLocked", buried, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if buried, err := buryOne(t.Context(), s, c, d); !buried || err != nil {
		t.Errorf("with the row free: %t, %v", buried, err)
	}
}

func TestWhatTheDatabaseRefusesForGoodIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, want string }{
		"trigger that raises": {`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'nothing leaves'; END $$;
CREATE TRIGGER no BEFORE DELETE ON outbox_event FOR EACH ROW EXECUTE FUNCTION no()`, "nothing leaves"},
		"trigger that keeps": {`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER no BEFORE DELETE ON outbox_event FOR EACH ROW EXECUTE FUNCTION no()`, "keeps the row"},
		"foreign key": {`CREATE TABLE child (id bigint REFERENCES outbox_event); INSERT INTO child SELECT id FROM outbox_event`, "child"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			s := openSource(t, db, Config{})
			cl := claim(t, s, owner("a"))
			ref := insert(t, db, orders, 1)[0]
			exec(t, db, "DO $do$ BEGIN "+strings.ReplaceAll(c.sql, "$$", "$f$")+"; END $do$")
			_, err := buryOne(t.Context(), s, cl, relay.DeadEvent{FailedEvent: failed(orders, ref, "X"), By: "relay one"})
			var refused *relay.RefusedError
			if !errors.As(err, &refused) {
				t.Fatalf("error %v, want a RefusedError", err)
			}
			wantText(t, err, c.want)
			same(t, "dead events", queryOne[int](t, db, "SELECT count(*) FROM outbox.dead_event"), 0)
		})
	}
}

func TestARelayWithoutTheRightToDeleteSaysWhichItNeeds(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, leastRights(t, db, Config{}), Config{})
	c := claim(t, s, owner("a"))
	ref := insert(t, db, orders, 1)[0]
	_, err := buryOne(t.Context(), s, c, relay.DeadEvent{FailedEvent: failed(orders, ref, "X"), By: "relay one"})
	var refused *relay.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("error %v, want a RefusedError", err)
	}
	wantText(t, err, "GRANT DELETE ON TABLE")
	// The rest of it works with no more rights than a relay has.
	retry(t, s, c, failed(orders, ref, "X"), 0)
	same(t, "due", due(t, s, c), []int64{ref.ID})
	if err := s.Begin(t.Context(), c, eventsOf(orders, ref)); err != nil {
		t.Error(err)
	}
	if err := s.Clear(t.Context(), nil, []relay.Ref{ref}); err != nil {
		t.Error(err)
	}
	same(t, "records", len(failing(t, s)), 1)
}

func TestLanesThatWereNotGivenBackAreSaidToBeAbandoned(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	same(t, "abandoned lanes of a new source", c.Abandoned, nil)
	expire(t, db)
	same(t, "abandoned lanes of a relay that takes up its own again", claim(t, s, c.Owner).Abandoned, nil)
	expire(t, db)
	dead := claim(t, s, owner("b"))
	same(t, "abandoned lanes after a death", dead.Abandoned, allLanes)
	if err := s.Leave(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	same(t, "abandoned lanes after a stop", claim(t, s, owner("c")).Abandoned, nil)
}

// retriedOnes writes an event of each of n keys, and returns them as events that are tried again.
func retriedOnes(t *testing.T, db *pgxpool.Pool, n int) (failed []relay.RetriedEvent) {
	t.Helper()
	for i, d := range deadOnes(t, db, numbered(n)) {
		failed = append(failed, relay.RetriedEvent{FailedEvent: d.FailedEvent, Wait: time.Duration(i) * time.Hour})
	}
	return failed
}

func TestManyFailedAttemptsAreWrittenDownInOneTransaction(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	events := retriedOnes(t, db, 40)
	slices.Reverse(events)
	if _, err := s.Retry(t.Context(), c, events); err != nil {
		t.Fatal(err)
	}
	same(t, "records", queryOne[int](t, db, `
SELECT count(*) FROM outbox.failure WHERE partition_key = 'key ' || (id - 1) AND attempts = 1 AND last_error = 'CODE_' || (id - 1) || ': because of CODE_' || (id - 1)
AND next_attempt_at - clock_timestamp() BETWEEN (id - 1) * interval '1 hour' - interval '10 min' AND (id - 1) * interval '1 hour'`), 40)
	same(t, "transactions", queryOne[int](t, db, `SELECT count(DISTINCT xmin::text) FROM outbox.failure`), 1)
}

func TestAttemptThatTheDatabaseRefusesDoesNotKeepTheOthersFromBeingWrittenDown(t *testing.T) {
	t.Parallel()
	db, s, c := leasing(t)
	events := retriedOnes(t, db, 11)
	exec(t, db, `ALTER TABLE outbox.failure ADD CHECK (partition_key <> 'key 7')`)
	_, err := s.Retry(t.Context(), c, events)
	wantText(t, err, "write down 11 failed events of public.outbox_event", fmt.Sprintf("that of topic orders and event %d", events[7].Event.ID), "check constraint")
	same(t, "records", queryOne[int](t, db, `SELECT count(*) FROM outbox.failure WHERE attempts = 1`), 10)
	exec(t, db, `UPDATE outbox.lane SET epoch = epoch + 1`)
	if _, err := s.Retry(t.Context(), c, events[:2]); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("Retry with lost lanes = %v, want ErrLeaseLost", err)
	}
	same(t, "attempts", queryOne[int](t, db, `SELECT max(attempts) FROM outbox.failure`), 1)
}

// An operator may give an event up, or another relay settle it, between its failure and the moment when that is written down. Nothing waits for it then.
func TestNoKeyWaitsForAnEventThatIsGone(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	c := claim(t, s, owner("a"))
	events := retriedOnes(t, db, 4)
	settle(t, s, []relay.Ref{events[0].Event})
	exec(t, db, `DELETE FROM outbox_event WHERE id = $1`, events[1].Event.ID)
	exec(t, db, `UPDATE outbox_event SET event_id = gen_random_uuid() WHERE id = $1`, events[2].Event.ID)
	gone, err := s.Retry(t.Context(), c, events)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "keys that go on", gone, []relay.Key{events[0].Key, events[1].Key, events[2].Key})
	same(t, "records", queryOne[[]int64](t, db, `SELECT array(SELECT id FROM outbox.failure)`), []int64{events[3].Event.ID})
}
