package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

var ann = operate.Actor{Name: "ann", Role: operate.Operator}

func newStore(t *testing.T, db *pgxpool.Pool) *Store {
	t.Helper()
	s, err := NewStore(db, Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.every = 5 * time.Millisecond
	return s
}

func newService(t *testing.T, db *pgxpool.Pool) *operate.Service {
	t.Helper()
	s, err := operate.New(newStore(t, db), nil, operate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// incident parks n keys, each with the event that stops it and one behind it, without a relay.
func incident(t *testing.T, db *pgxpool.Pool, topic string, n int) {
	t.Helper()
	exec(t, db, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', i::text, 'order.confirmed.v1', '{}', $1, 'key ' || i FROM generate_series(1, $2::int) i, generate_series(1, 2)`, topic, n)
	exec(t, db, `
INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
SELECT DISTINCT ON (e.partition_key) s.id, e.topic, `+pg.KeyHashSQL("e.topic", "e.partition_key")+`, e.partition_key, `+testLane(t, db)+`, e.id, e.event_id, e.event_type,
    'MESSAGE_TOO_LARGE', 'the event has ' || e.id || ' bytes'
FROM outbox_event e, outbox.source s WHERE e.topic = $1 ORDER BY e.partition_key, e.id`, topic)
}

func testLane(t *testing.T, db *pgxpool.Pool) string {
	t.Helper()
	row, err := pg.ReadSource(t.Context(), db, pg.Table{Schema: "public", Name: "outbox_event"})
	if err != nil {
		t.Fatal(err)
	}
	return row.Lane("e.partition_key", fmt.Sprint(row.Lanes))
}

// counted are the numbers of a report.
func counted(r operate.Report) string {
	return fmt.Sprintf("total %d: %d done, %d already, %d failed, %d not found, %d untouched; %s", r.Total, r.Done, r.AlreadyDone, r.Failed, r.NotFound, r.Untouched, r.State)
}

func mustRun(t *testing.T, s *operate.Service, b operate.Bulk) operate.Report {
	t.Helper()
	r, err := s.Run(t.Context(), ann, b, operate.Confirmed{Any: true}, nil)
	if err != nil {
		t.Fatalf("%s: %v", b.Verb, err)
	}
	return r
}

func TestABulkChangeTouchesWhatItsFilterFindsAndNothingElse(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 30)
	incident(t, db, "shop.b", 7)
	s := newService(t, db)
	b := operate.Bulk{Verb: operate.VerbSkip, Events: &operate.EventFilter{Topic: some("shop.a")}, Reason: "sent by hand"}
	p, err := s.Plan(t.Context(), ann, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the plan", fmt.Sprint(p.Count, p.Topics), "30 [{shop.a 30}]")
	same(t, "dead before", queryOne[int](t, db, `SELECT count(*) FROM outbox.dead_event`), 0)
	same(t, "requests and jobs of a plan", queryOne[int](t, db, `SELECT (SELECT count(*) FROM outbox.request) + (SELECT count(*) FROM outbox.job)`), 0)

	_, err = s.Run(t.Context(), ann, b, operate.Confirmed{Count: 29}, nil)
	same(t, "code without enough confirmed", operate.CodeOf(err), operate.CodeUnconfirmed)
	if asks, ok := operate.PlanOf(err); !ok || asks.Count != 30 {
		t.Errorf("the plan of the error is %+v, %v", asks, ok)
	}
	r, err := s.Run(t.Context(), ann, b, operate.Confirmed{Count: p.Count, Through: p.Through}, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the report", counted(r), "total 30: 30 done, 0 already, 0 failed, 0 not found, 0 untouched; done")
	same(t, "dead events by topic", queryOne[string](t, db, `SELECT string_agg(topic || ' ' || n, ',') FROM (SELECT topic, count(*) AS n FROM outbox.dead_event GROUP BY 1) d`), "shop.a 30")
	same(t, "parked afterwards", queryOne[string](t, db, `SELECT string_agg(DISTINCT topic, ',') || count(*) FROM outbox.parked_key`), "shop.b7")
	same(t, "rows left", queryOne[int](t, db, `SELECT count(*) FROM outbox_event`), 2*37-30)
	same(t, "the job", queryOne[string](t, db, `SELECT concat_ws(' ', verb, total, done, failed, state, actor, ended_at IS NOT NULL) FROM outbox.job`), "skip 30 30 0 done ann t")
	same(t, "the audit", queryOne[string](t, db, `SELECT string_agg(concat_ws(' ', actor, verb, affected, job IS NOT NULL, reason, filter, left(outcome, 16)), '; ' ORDER BY id) FROM outbox.audit`),
		`ann skip 0 f sent by hand {"events": {"state": "parked", "topic": "shop.a"}} skip would touch; ann skip 30 t sent by hand {"events": {"state": "parked", "topic": "shop.a", "max_id": "30"}} 30 done`)

	// It can all be put back, and only once.
	back := operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{Topic: some("shop.a")}}
	same(t, "restored", counted(mustRun(t, s, back)), "total 30: 30 done, 0 already, 0 failed, 0 not found, 0 untouched; done")
	same(t, "restored twice", counted(mustRun(t, s, back)), "total 0: 0 done, 0 already, 0 failed, 0 not found, 0 untouched; done")
	same(t, "rows", queryOne[int](t, db, `SELECT count(*) FROM outbox_event`), 2*37)
}

func TestNamedEventsAreToldApart(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 3)
	s := newService(t, db)
	ids := queryOne[[]int64](t, db, `SELECT array_agg(id ORDER BY id) FROM outbox_event`)
	exec(t, db, `DELETE FROM outbox.parked_key WHERE id = $1`, ids[0])
	exec(t, db, `UPDATE outbox_event SET published_at = now() WHERE id = $1`, ids[0])
	unknown := operate.Ref{EventID: uuid.New()}
	refs := []operate.Ref{{ID: ids[0]}, {ID: ids[2]}, {EventID: queryOne[uuid.UUID](t, db, `SELECT event_id FROM outbox_event WHERE id = $1`, ids[2])}, {ID: ids[4]}, unknown}
	r := mustRun(t, s, operate.Bulk{Verb: operate.VerbSkip, Events: &operate.EventFilter{Refs: refs}, Reason: "x"})
	same(t, "skipped", counted(r), "total 4: 2 done, 0 already, 1 failed, 1 not found, 0 untouched; done")
	same(t, "missing", r.Missing, []string{unknown.String()})
	same(t, "reasons", r.Reasons, []operate.FailedFor{{Text: "it is published already: outbox replay publishes it again", Count: 1, IDs: []string{strconv.FormatInt(ids[0], 10)}}})
	r = mustRun(t, s, operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{Refs: refs[:3]}})
	same(t, "restored", counted(r), "total 2: 1 done, 1 already, 0 failed, 0 not found, 0 untouched; done")
}

// Whoever's role is too small changes nothing, and that he tried is written down.
func TestTheRoleIsAskedForEachChange(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 1)
	s, bob := newService(t, db), operate.Actor{Name: "bob", Role: operate.Viewer}
	all := &operate.EventFilter{}
	attempts := map[string]func(operate.Actor) error{
		"plan": func(a operate.Actor) error {
			_, err := s.Plan(t.Context(), a, operate.Bulk{Verb: operate.VerbRetry, Events: all}, nil)
			return err
		},
		"run": func(a operate.Actor) error {
			_, err := s.Run(t.Context(), a, operate.Bulk{Verb: operate.VerbRetry, Events: all}, operate.Confirmed{Any: true}, nil)
			return err
		},
		"act": func(a operate.Actor) error {
			_, err := s.Act(t.Context(), a, operate.Action{Verb: operate.VerbUnpark, Topic: "shop.a", PartitionKey: "key 1"})
			return err
		},
		"replay": func(a operate.Actor) error {
			_, err := s.Replay(t.Context(), a, operate.Bulk{Verb: operate.VerbReplay, Events: all, Reason: "x"}, 0, operate.Confirmed{Any: true}, nil, nil)
			return err
		},
		"pause": func(a operate.Actor) error {
			_, err := s.Pause(t.Context(), a, operate.Scope{Kind: operate.ScopeSource}, "")
			return err
		},
		"resume": func(a operate.Actor) error {
			_, err := s.Resume(t.Context(), a, operate.Scope{Kind: operate.ScopeSource}, "")
			return err
		},
		"cancel": func(a operate.Actor) error { return s.Cancel(t.Context(), a, 1, "") },
	}
	for name, attempt := range attempts {
		for _, a := range []operate.Actor{bob, {Role: operate.Operator}, {}} {
			if err := attempt(a); operate.CodeOf(err) != operate.CodeForbidden {
				t.Errorf("%s by %+v: %v, want it forbidden", name, a, err)
			}
		}
	}
	same(t, "what was changed", queryOne[string](t, db, `SELECT concat_ws(' ', (SELECT count(*) FROM outbox.request), (SELECT count(*) FROM outbox.job),
    (SELECT count(*) FROM outbox.pause), (SELECT count(*) FROM outbox.parked_key))`), "0 0 0 1")
	same(t, "refusals in the audit", queryOne[string](t, db, `SELECT concat_ws(' ', count(*), min(actor), max(actor), min(left(outcome, 8))) FROM outbox.audit`), "6 bob bob refused:")
}

func TestAPauseIsWrittenDownOnceAndTakenBack(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := newService(t, db)
	for _, what := range []operate.Scope{
		{Kind: operate.ScopeSource}, {Kind: operate.ScopeTopic, Topic: "shop.a"}, {Kind: operate.ScopeKey, Topic: "shop.a", PartitionKey: ""}, {Kind: operate.ScopeKey, Topic: "shop.a", PartitionKey: "k"},
	} {
		for i, want := range []bool{true, false} {
			if changed, err := s.Pause(t.Context(), ann, what, fmt.Sprint("reason ", i)); err != nil || changed != want {
				t.Errorf("pause %d of %s = %v, %v", i, what, changed, err)
			}
		}
	}
	same(t, "pauses", queryOne[int](t, db, `SELECT count(*) FROM outbox.pause WHERE paused_by = 'ann' AND reason = 'reason 0'`), 4)
	for _, want := range []bool{true, false} {
		if changed, err := s.Resume(t.Context(), ann, operate.Scope{Kind: operate.ScopeKey, Topic: "shop.a", PartitionKey: "k"}, ""); err != nil || changed != want {
			t.Errorf("resume = %v, %v; want %v", changed, err, want)
		}
	}
	same(t, "pauses left", queryOne[int](t, db, `SELECT count(*) FROM outbox.pause`), 3)
	for _, bad := range []operate.Scope{{}, {Kind: "lane"}, {Kind: operate.ScopeTopic}, {Kind: operate.ScopeSource, Topic: "x"}, {Kind: operate.ScopeTopic, Topic: "a\x00"}} {
		if _, err := s.Pause(t.Context(), ann, bad, ""); operate.CodeOf(err) != operate.CodeInvalid {
			t.Errorf("pause of %+v: %v", bad, err)
		}
	}
}

// alive makes a relay that is alive, has all lanes and does nothing: requests stay open.
func alive(t *testing.T, db *pgxpool.Pool) (*Source, relay.Claim) {
	t.Helper()
	s := openSource(t, db, Config{})
	return s, claim(t, s, owner("a"))
}

func TestACancelledJobStopsAndSaysWhatHadHappened(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 12)
	alive(t, db)
	s := newService(t, db)
	started := make(chan int64, 1)
	var once sync.Once
	ended := make(chan operate.Report, 1)
	go func() {
		r, err := s.Run(context.WithoutCancel(t.Context()), ann, operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{}}, operate.Confirmed{Any: true},
			func(p operate.Progress) {
				if p.Job != 0 {
					once.Do(func() { started <- p.Job })
				}
			})
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	job := <-started
	eventually(t, "all is asked for", func() bool { return openRequestCount(t, db) == 12 })
	// Some of it is carried out before it is cancelled.
	exec(t, db, `UPDATE outbox.request SET done_at = now(), outcome = 'unparked' WHERE id IN (SELECT id FROM outbox.request ORDER BY id LIMIT 5)`)
	if err := s.Cancel(t.Context(), operate.Actor{Name: "bob", Role: operate.Operator}, job, ""); err != nil {
		t.Fatal(err)
	}
	same(t, "report", counted(<-ended), "total 12: 5 done, 0 already, 0 failed, 0 not found, 7 untouched; cancelled")
	same(t, "open requests", openRequestCount(t, db), 0)
	same(t, "the job", queryOne[string](t, db, `SELECT concat_ws(' ', state, done, failed) FROM outbox.job`), "cancelled 5 0")
	same(t, "cancelled twice", operate.CodeOf(s.Cancel(t.Context(), ann, job, "")), operate.CodeConflict)
	same(t, "cancelled without one", operate.CodeOf(s.Cancel(t.Context(), ann, 4711, "")), operate.CodeNotFound)
	same(t, "no id", operate.CodeOf(s.Cancel(t.Context(), ann, 0, "")), operate.CodeInvalid)
}

// Whoever asks for more after the job was cancelled would leave requests that nobody waits for.
func TestACancelledJobGetsNoMoreRequests(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 3)
	s := newStore(t, db)
	job, err := s.StartJob(t.Context(), operate.JobStart{Verb: operate.VerbUnpark, Filter: []byte("{}"), Actor: "ann", Total: 3})
	if err != nil {
		t.Fatal(err)
	}
	b := operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{}}
	if asked, err := s.AskMatching(t.Context(), job, b, "ann", operate.Cursor{}, 2); err != nil || asked.Count != 2 {
		t.Errorf("asked %+v, %v", asked, err)
	}
	if err := s.CancelJob(t.Context(), job, "bob"); err != nil {
		t.Fatal(err)
	}
	if asked, err := s.AskMatching(t.Context(), job, b, "ann", operate.Cursor{}, 2); err != nil || asked.Count != 0 {
		t.Errorf("asked after the end %+v, %v", asked, err)
	}
	same(t, "open requests", openRequestCount(t, db), 0)
}

// Ctrl-C takes back what nobody has begun.
func TestAnInterruptedJobTakesItsRequestsBack(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 3)
	alive(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := newService(t, db).Run(ctx, ann, operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{}}, operate.Confirmed{Any: true}, func(p operate.Progress) {
		if p.Job != 0 {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "report", counted(r), "total 3: 0 done, 0 already, 0 failed, 0 not found, 3 untouched; cancelled")
	same(t, "open requests, running jobs", queryOne[string](t, db, `SELECT concat_ws(' ', (SELECT count(*) FROM outbox.request WHERE done_at IS NULL),
    (SELECT count(*) FROM outbox.job WHERE state = 'running'), (SELECT count(*) FROM outbox.audit WHERE ended_at IS NULL))`), "0 0 0")
}

func TestTheOutcomesOfAJobAreGroupedByReason(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 9)
	alive(t, db)
	s := newService(t, db)
	var once sync.Once
	r, err := s.Run(t.Context(), ann, operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{}}, operate.Confirmed{Any: true}, func(p operate.Progress) {
		if p.Job != 0 {
			once.Do(func() {
				exec(t, db, `UPDATE outbox.request SET done_at = now(), outcome = CASE WHEN id % 3 = 0 THEN 'unparked' ELSE 'refused' END,
    error = CASE id % 3 WHEN 1 THEN 'event ' || gen_random_uuid() || ' (id ' || id || '0) is in the way' WHEN 2 THEN 'no' END`)
			})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "report", counted(r), "total 9: 3 done, 0 already, 6 failed, 0 not found, 0 untouched; done")
	same(t, "reasons", r.Reasons, []operate.FailedFor{{Text: "event … (id …) is in the way", Count: 3}, {Text: "no", Count: 3}})
}

func TestSingleVerbs(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 2)
	s := newService(t, db)
	first, behind := queryOne[int64](t, db, `SELECT min(id) FROM outbox_event`), queryOne[int64](t, db, `SELECT min(id) + 1 FROM outbox_event`)
	act := func(a operate.Action) operate.Code {
		text, err := s.Act(t.Context(), ann, a)
		if err == nil && text == "" {
			t.Errorf("%+v: done, and not a word", a)
		}
		return operate.CodeOf(err)
	}
	same(t, "skip without a reason", act(operate.Action{Verb: operate.VerbSkip, Event: operate.Ref{ID: first}}), operate.CodeInvalid)
	same(t, "skip of nothing", act(operate.Action{Verb: operate.VerbSkip, Event: operate.Ref{ID: 4711}, Reason: "x"}), operate.CodeNotFound)
	same(t, "skip", act(operate.Action{Verb: operate.VerbSkip, Event: operate.Ref{ID: first}, Reason: "x"}), operate.Code(""))
	same(t, "skip again", act(operate.Action{Verb: operate.VerbSkip, Event: operate.Ref{ID: first}, Reason: "x"}), operate.CodeConflict)
	same(t, "restore of one that is alive", act(operate.Action{Verb: operate.VerbRestore, Event: operate.Ref{ID: behind}}), operate.CodeConflict)
	exec(t, db, `UPDATE outbox_event SET published_at = now() WHERE id = $1`, behind)
	same(t, "retry of one that is published", act(operate.Action{Verb: operate.VerbRetry, Event: operate.Ref{ID: behind}}), operate.CodeConflict)
	_, err := s.Act(t.Context(), ann, operate.Action{Verb: operate.VerbRestore, Event: operate.Ref{ID: first}})
	same(t, "restore behind a newer one", operate.CodeOf(err), operate.CodeUnconfirmed)
	wantText(t, err, "newer events of its key are published already")
	same(t, "restore all the same", act(operate.Action{Verb: operate.VerbRestore, Event: operate.Ref{ID: first}, Overtaking: true}), operate.Code(""))
	same(t, "restored twice", act(operate.Action{Verb: operate.VerbRestore, Event: operate.Ref{ID: first}, Overtaking: true}), operate.CodeConflict)
	same(t, "unpark", act(operate.Action{Verb: operate.VerbUnpark, Topic: "shop.a", PartitionKey: "key 2"}), operate.Code(""))
	same(t, "unpark of what is not parked", act(operate.Action{Verb: operate.VerbUnpark, Topic: "shop.a", PartitionKey: "key 2"}), operate.CodeConflict)
	same(t, "audit rows that never ended", queryOne[int](t, db, `SELECT count(*) FROM outbox.audit WHERE ended_at IS NULL`), 0)
}

// again is a publisher that keeps what it gets.
type again struct {
	events []operate.Settled
	marks  map[string]int
	fail   func(operate.Settled) error
	each   func()
}

func (a *again) Open(context.Context) error { return nil }
func (a *again) Close()                     {}
func (a *again) Republish(_ context.Context, events []operate.Settled, mark string) ([]error, error) {
	errs := make([]error, len(events))
	for i, e := range events {
		if a.fail != nil {
			errs[i] = a.fail(e)
		}
		a.events = append(a.events, e)
		if a.marks == nil {
			a.marks = map[string]int{}
		}
		a.marks[mark]++
	}
	if a.each != nil {
		a.each()
	}
	return errs, nil
}

// replayed gives twelve settled events, two of each key of two topics.
func replayed(t *testing.T) (*pgxpool.Pool, *operate.Service, operate.Bulk) {
	t.Helper()
	db := newDatabase(t)
	incident(t, db, "shop.a", 3)
	incident(t, db, "shop.b", 3)
	exec(t, db, `DELETE FROM outbox.parked_key`)
	exec(t, db, `UPDATE outbox_event SET published_at = now()`)
	return db, newService(t, db), operate.Bulk{Verb: operate.VerbReplay, Events: &operate.EventFilter{}, Reason: "x"}
}

func pauseIt(t *testing.T, s *operate.Service, what operate.Scope) {
	t.Helper()
	if _, err := s.Pause(t.Context(), ann, what, "an incident"); err != nil {
		t.Error(err)
	}
}

func TestAReplayOfWhatIsPausedIsRefused(t *testing.T) {
	t.Parallel()
	_, s, all := replayed(t)
	pauseIt(t, s, operate.Scope{Kind: operate.ScopeTopic, Topic: "shop.b"})
	p := &again{}
	_, err := s.Replay(t.Context(), ann, all, 0, operate.Confirmed{Any: true}, p, nil)
	same(t, "code", operate.CodeOf(err), operate.CodeConflict)
	wantText(t, err, `topic "shop.b" is paused since`, "by ann (an incident)", "outbox resume")
	_, err = s.Plan(t.Context(), ann, all, nil)
	same(t, "code of the plan", operate.CodeOf(err), operate.CodeConflict)
	other := operate.Bulk{Verb: operate.VerbReplay, Events: &operate.EventFilter{Topic: some("shop.a")}, Reason: "x"}
	r, err := s.Replay(t.Context(), ann, other, 0, operate.Confirmed{Any: true}, p, nil)
	if err != nil || r.Done != 6 || len(p.events) != 6 {
		t.Errorf("another topic: %s, %d published, %v", counted(r), len(p.events), err)
	}
	pauseIt(t, s, operate.Scope{Kind: operate.ScopeSource})
	_, err = s.Replay(t.Context(), ann, other, 0, operate.Confirmed{Any: true}, p, nil)
	same(t, "code with the source paused", operate.CodeOf(err), operate.CodeConflict)
	wantText(t, err, "the source is paused since")
	same(t, "published", len(p.events), 6)
}

func TestAReplayLeavesPausedKeysOut(t *testing.T) {
	t.Parallel()
	_, s, all := replayed(t)
	pauseIt(t, s, operate.Scope{Kind: operate.ScopeKey, Topic: "shop.a", PartitionKey: "key 2"})
	plan, err := s.Plan(t.Context(), ann, all, nil)
	if err != nil || !strings.Contains(fmt.Sprint(plan.Notes), "keys of these topics that are paused (1) are left out") {
		t.Errorf("the plan's notes are %q, %v", plan.Notes, err)
	}
	p := &again{}
	r, err := s.Replay(t.Context(), ann, all, 0, operate.Confirmed{Any: true}, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "report", counted(r), "total 12: 10 done, 0 already, 2 failed, 0 not found, 0 untouched; done")
	same(t, "reasons", r.Reasons, []operate.FailedFor{{Text: "its key is paused: outbox resume key, and replay it then", Count: 2}})
	for _, e := range p.events {
		if e.Topic == "shop.a" && e.PartitionKey == "key 2" {
			t.Errorf("event %d of the paused key was published", e.ID)
		}
	}
}

// Whoever pauses a topic while it is replayed stops the replay, in front of the topic's next event.
func TestAPauseStopsAReplayThatRuns(t *testing.T) {
	t.Parallel()
	_, s, all := replayed(t)
	var once sync.Once
	p := &again{each: func() { once.Do(func() { pauseIt(t, s, operate.Scope{Kind: operate.ScopeTopic, Topic: "shop.b"}) }) }}
	// At this rate each event is a page, and a look at the pauses comes before each.
	r, err := s.Replay(t.Context(), ann, all, 1, operate.Confirmed{Any: true}, p, nil)
	same(t, "code", operate.CodeOf(err), operate.CodeConflict)
	same(t, "report", counted(r), "total 12: 6 done, 0 already, 0 failed, 0 not found, 6 untouched; failed")
	wantText(t, err, `topic "shop.b" is paused`, "everything up to id 6 was tried: go on with --min-id 7")
}

func TestAReplayPublishesSettledEventsAgainInTheOrderOfTheirIDs(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 40)
	exec(t, db, `ALTER TABLE outbox_event ADD COLUMN headers jsonb`)
	exec(t, db, `UPDATE outbox_event SET published_at = now(), payload = '{"a": 9007199254740993}', headers = '{"h": "x"}' WHERE id % 2 = 0`)
	s, p := newService(t, db), &again{}
	b := operate.Bulk{Verb: operate.VerbReplay, Events: &operate.EventFilter{Topic: some("shop.a"), MinID: 5}, Reason: "lost by a consumer"}
	r, err := s.Replay(t.Context(), ann, b, 1_000_000, operate.Confirmed{Count: 38}, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "report", counted(r), "total 38: 38 done, 0 already, 0 failed, 0 not found, 0 untouched; done")
	want := queryOne[[]int64](t, db, `SELECT array_agg(id ORDER BY id) FROM outbox_event WHERE id % 2 = 0 AND id >= 5`)
	var got []int64
	for _, e := range p.events {
		got = append(got, e.ID)
	}
	same(t, "ids", got, want)
	same(t, "an event", fmt.Sprintf("%s %s %s %s", p.events[0].Payload, p.events[0].Headers, p.events[0].Topic, p.events[0].Type), `{"a": 9007199254740993} {"h": "x"} shop.a order.confirmed.v1`)
	same(t, "marks", p.marks, map[string]int{fmt.Sprint(r.Job): 38})

	// Named ones: deleted, unpublished and published ones.
	ids := []operate.Ref{{ID: want[3]}, {ID: want[0]}, {ID: want[1]}, {ID: want[0] - 1}, {ID: 99999}}
	p = &again{}
	r, err = s.Replay(t.Context(), ann, operate.Bulk{Verb: operate.VerbReplay, Events: &operate.EventFilter{Refs: ids}, Reason: "x"}, 1, operate.Confirmed{Count: 3},
		&deleting{again: p, before: func() { exec(t, db, `DELETE FROM outbox_event WHERE id = $1`, want[3]) }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "named", counted(r), "total 5: 2 done, 0 already, 1 failed, 2 not found, 0 untouched; done")
	same(t, "reasons", fmt.Sprint(r.Reasons), fmt.Sprintf("[{it is not published yet: only settled events are replayed 1 [%d]}]", want[0]-1))
	same(t, "in order", fmt.Sprint(p.events[0].ID, p.events[1].ID), fmt.Sprint(want[0], want[1]))
}

// deleting is a publisher before whose start something happens.
type deleting struct {
	*again
	before func()
}

func (d *deleting) Open(context.Context) error {
	d.before()
	return nil
}

func TestAReplayIsCancelledFromElsewhere(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	exec(t, db, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, published_at)
SELECT gen_random_uuid(), 'Order', i::text, 'order.confirmed.v1', '{}', 'shop.a', 'k', now() FROM generate_series(1, 2000) i`)
	s := newService(t, db)
	var once sync.Once
	p := &again{each: func() {
		once.Do(func() {
			if err := s.Cancel(t.Context(), ann, queryOne[int64](t, db, `SELECT id FROM outbox.job`), ""); err != nil {
				t.Error(err)
			}
		})
	}}
	r, err := s.Replay(t.Context(), ann, operate.Bulk{Verb: operate.VerbReplay, Events: &operate.EventFilter{}, Reason: "x"}, 100, operate.Confirmed{Any: true}, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.State != operate.JobCancelled || r.Done != int64(len(p.events)) || r.Done+r.Untouched != 2000 || r.Untouched == 0 {
		t.Errorf("report %s for %d events", counted(r), len(p.events))
	}
}

// A million matches must not need memory, nor one long statement: so a small page must give the same as a large one, for every walk.
func TestEveryWalkFindsTheSameInSmallPages(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 13)
	incident(t, db, "shop.b", 11)
	exec(t, db, `INSERT INTO outbox.failure (source, id, event_id, topic, partition_key, lane, attempts, last_error, next_attempt_at)
SELECT s.id, e.id, e.event_id, e.topic, e.partition_key, 0, 1, 'TIMEOUT: later', now() + interval '1 h' FROM outbox_event e, outbox.source s WHERE e.id % 5 < 2`)
	exec(t, db, `INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, died_by)
SELECT s.id, 1000 + e.id / 2, e.event_id, e.topic, e.partition_key, 0, to_jsonb(e), 'X', 'x', 'ann' FROM outbox_event e, outbox.source s`)
	exec(t, db, `UPDATE outbox_event e SET published_at = now() WHERE id % 7 = 0 AND NOT EXISTS (SELECT FROM outbox.parked_key k WHERE k.id = e.id)`)
	// Some keys are not parked, so that what waits there waits for an attempt.
	exec(t, db, `DELETE FROM outbox.parked_key WHERE id % 4 = 1`)
	store := newStore(t, db)
	parked := `EXISTS (SELECT FROM outbox.parked_key k WHERE k.id = e.id)`
	due := `EXISTS (SELECT FROM outbox.failure f WHERE f.id = e.id)`
	open := `SELECT count(*) FROM outbox_event e WHERE published_at IS NULL`
	for name, c := range map[string]struct {
		bulk operate.Bulk
		sql  string
	}{
		"keys":            {operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{}}, open + ` AND ` + parked},
		"keys of a code":  {operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{Code: some("MESSAGE_TOO_LARGE"), Error: "has 1", Topic: some("shop.a")}}, open + ` AND ` + parked + ` AND topic = 'shop.a' AND id::text LIKE '1%'`},
		"keys of an age":  {operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{MinAge: time.Hour}}, `SELECT 0`},
		"parked":          {bulkOf(operate.VerbSkip, operate.EventFilter{State: operate.StateParked, Type: some("order.confirmed.v1")}), open + ` AND ` + parked},
		"retry":           {bulkOf(operate.VerbRetry, operate.EventFilter{State: operate.StateAny}), open + ` AND (` + parked + ` OR ` + due + `)`},
		"retry of a text": {bulkOf(operate.VerbRetry, operate.EventFilter{State: operate.StateAny, Error: "timeout"}), open + ` AND ` + due + ` AND NOT ` + parked},
		"next attempt":    {bulkOf(operate.VerbRetry, operate.EventFilter{State: operate.StateWaiting}), open + ` AND NOT ` + parked + ` AND ` + due},
		"waiting by text": {bulkOf(operate.VerbSkip, operate.EventFilter{State: operate.StateWaiting, Error: "later"}), open + ` AND NOT ` + parked + ` AND ` + due},
		"pending":         {bulkOf(operate.VerbDead, operate.EventFilter{State: operate.StatePending, AggregateID: some("3"), MaxID: 40}), open + ` AND aggregate_id = '3' AND id <= 40`},
		"pending by text": {bulkOf(operate.VerbDead, operate.EventFilter{State: operate.StatePending, Error: "bytes"}), open + ` AND ` + parked},
		"waiting":         {bulkOf(operate.VerbDead, operate.EventFilter{State: operate.StateWaiting}), open + ` AND NOT ` + parked + ` AND ` + due},
		"dead":            {bulkOf(operate.VerbRestore, operate.EventFilter{State: operate.StateDead, Topic: some("shop.b"), Error: "X", AggregateType: some("Order")}), `SELECT 22`},
		"settled":         {bulkOf(operate.VerbReplay, operate.EventFilter{State: operate.StatePublished, PartitionKey: some("key 7")}), `SELECT count(*) FROM outbox_event WHERE published_at IS NOT NULL AND partition_key = 'key 7'`},
		"settled errors":  {bulkOf(operate.VerbReplay, operate.EventFilter{State: operate.StatePublished, Error: "x"}), `SELECT 0`},
		"settled, young":  {bulkOf(operate.VerbReplay, operate.EventFilter{State: operate.StatePublished, MaxAge: time.Hour, MinID: 3}), `SELECT count(*) FROM outbox_event WHERE published_at IS NOT NULL AND id >= 3`},
	} {
		want := queryOne[int64](t, db, c.sql)
		for _, page := range []int{1, 2, 7, 1000} {
			var n int64
			steps := 0
			for at := (operate.Cursor{}); !at.End; steps++ {
				m, err := store.Match(t.Context(), c.bulk, at, page)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				n, at = n+m.Count, m.Next
				if steps > 500 {
					t.Fatalf("%s: no end", name)
				}
			}
			same(t, fmt.Sprintf("%s in pages of %d", name, page), n, want)
		}
	}
}

func bulkOf(v operate.Verb, f operate.EventFilter) operate.Bulk {
	return operate.Bulk{Verb: v, Events: &f}
}

func TestBulkRequestsThatAreWrong(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := newService(t, db)
	f := &operate.EventFilter{}
	for name, b := range map[string]operate.Bulk{
		"no filter":           {Verb: operate.VerbRetry},
		"both":                {Verb: operate.VerbSkip, Events: f, Keys: &operate.KeyFilter{}, Reason: "x"},
		"a verb for keys":     {Verb: operate.VerbUnpark, Events: f},
		"a verb for events":   {Verb: operate.VerbRetry, Keys: &operate.KeyFilter{}},
		"no verb for many":    {Verb: operate.VerbPrune, Events: f},
		"no reason":           {Verb: operate.VerbSkip, Events: f},
		"a state of another":  {Verb: operate.VerbRestore, Events: &operate.EventFilter{State: operate.StateParked}},
		"ids and a filter":    {Verb: operate.VerbRetry, Events: &operate.EventFilter{Refs: []operate.Ref{{ID: 1}}, Topic: some("a")}},
		"a NUL in the reason": {Verb: operate.VerbSkip, Events: f, Reason: "a\x00"},
		"a NUL in a topic":    {Verb: operate.VerbRetry, Events: &operate.EventFilter{Topic: some("a\x00")}},
		"what waits for keys": {Verb: operate.VerbSkip, Keys: &operate.KeyFilter{Code: some(relay.CodeAggregateParked)}, Reason: "x"},
		"a negative age":      {Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{MinAge: -1}},
	} {
		if _, err := s.Run(t.Context(), ann, b, operate.Confirmed{Any: true}, nil); operate.CodeOf(err) != operate.CodeInvalid {
			t.Errorf("%s: %v, want it invalid", name, err)
		}
	}
	_, err := s.Plan(t.Context(), ann, operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{Code: some(relay.CodeAggregateParked)}}, nil)
	wantText(t, err, "wait for another key, and go on by themselves with it", "unpark that one")
	exec(t, db, `ALTER TABLE outbox_event DROP COLUMN aggregate_id`)
	_, err = s.Plan(t.Context(), ann, bulkOf(operate.VerbReplay, operate.EventFilter{AggregateID: some("1")}), nil)
	if operate.CodeOf(err) == "" || strings.Contains(fmt.Sprint(err), "SQLSTATE") {
		t.Errorf("a filter by a column that is not there: %v", err)
	}
}
