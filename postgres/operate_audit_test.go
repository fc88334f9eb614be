package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/operate"
)

// lastAudit is the newest row of the audit, as the list shows it.
func lastAudit(t *testing.T, s *operate.Service) operate.AuditEntry {
	t.Helper()
	p, err := s.Audit(t.Context(), ann, operate.AuditQuery{Limit: 1})
	if err != nil || len(p.Entries) != 1 {
		t.Fatalf("the audit: %+v, %v", p, err)
	}
	return p.Entries[0]
}

func skipKey(wait time.Duration) operate.Action {
	return operate.Action{Verb: operate.VerbSkip, Topic: "shop.a", PartitionKey: "key 1", Reason: "x", Wait: wait}
}

// A request that nobody waits for any more would surprise somebody when the outage is over.
func TestARequestThatIsNotCarriedOutInTimeIsTakenBack(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 1)
	relay, c := alive(t, db)
	s := newService(t, db)
	_, err := s.Act(t.Context(), ann, skipKey(50*time.Millisecond))
	if operate.CodeOf(err) != operate.CodeUnavailable || !strings.Contains(err.Error(), `skip key "key 1" of topic shop.a: the request was taken back, and nothing was changed: not carried out within 50ms`) {
		t.Errorf("the error is %v", err)
	}
	same(t, "open requests", openRequestCount(t, db), 0)
	same(t, "the request", queryOne[string](t, db, `SELECT outcome || ': ' || error FROM outbox.request`), "withdrawn: taken back by ann")
	same(t, "what the relay finds to do", len(carriedOut(t, relay, c, always)), 0)
	if e := lastAudit(t, s); e.Affected == nil || *e.Affected != 0 || !strings.Contains(e.Outcome, "taken back") || e.EndedAt.IsZero() {
		t.Errorf("the audit says %+v", e)
	}
}

// Whoever has waited in vain wants to know for what.
func TestARequestThatIsNotCarriedOutSaysWhy(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 1)
	alive(t, db)
	s := newService(t, db)
	for _, c := range []struct{ name, sql, want string }{
		{"a busy key", "UPDATE outbox.relay SET standing = 2", "has its lane, and has not come to it: something of the key is on its way to Kafka, such as a dead letter, or another transaction has the row locked"},
		{"an outage", "UPDATE outbox.relay SET silent_since = now() - interval '1 min'", "has its lane, and Kafka has not answered it since 20"},
		{"a lane that nobody has", "UPDATE outbox.lane SET owner = NULL, expires_at = NULL", "no relay has its lane"},
	} {
		exec(t, db, c.sql)
		_, err := s.Act(t.Context(), ann, skipKey(50*time.Millisecond))
		if err == nil {
			t.Fatalf("%s: it was carried out", c.name)
		}
		wantText(t, err, "not carried out within 50ms: ", c.want)
	}
}

func TestAnInterruptedRequestIsTakenBack(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 1)
	alive(t, db)
	s := newService(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Act(ctx, ann, skipKey(time.Hour))
		ended <- err
	}()
	awaitOpen(t, db)
	cancel()
	if err := <-ended; operate.CodeOf(err) != operate.CodeUnavailable {
		t.Errorf("the error is %v", err)
	}
	same(t, "open requests", openRequestCount(t, db), 0)
}

func awaitOpen(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	eventually(t, "something is asked for", func() bool { return openRequestCount(t, db) > 0 })
}

// What was carried out while it was being taken back is done, and said so.
func TestARequestThatIsAnsweredIsNotTakenBack(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 1)
	s := newStore(t, db)
	id, err := s.Ask(t.Context(), 0, operate.VerbUnpark, operate.Target{Topic: "shop.a", PartitionKey: "key 1"}, "ann", "")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, `UPDATE outbox.request SET done_at = now(), outcome = 'unparked'`)
	a, withdrawn, err := s.Withdraw(t.Context(), id, "ann")
	if err != nil || withdrawn || a != (operate.Answer{Text: "unparked"}) {
		t.Errorf("Withdraw = %+v, %v, %v", a, withdrawn, err)
	}
	if _, _, err := s.Withdraw(t.Context(), 4711, "ann"); err == nil {
		t.Error("a request that is not there was taken back")
	}
}

// A command that was killed completes nothing: the request that it has left is looked at instead.
func TestTheAuditOfAKilledCommandIsCompletedByItsRequest(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 1)
	store, s := newStore(t, db), newService(t, db)
	audit, err := store.StartAudit(t.Context(), operate.AuditStart{Actor: "ann", Verb: operate.VerbSkip, Filter: []byte(`{"topic": "shop.a"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if e := lastAudit(t, s); e.Outcome != "" || e.Affected != nil {
		t.Errorf("before the request the audit says %+v", e)
	}
	if _, err := store.Ask(t.Context(), audit, operate.VerbSkip, operate.Target{Topic: "shop.a", PartitionKey: "key 1"}, "ann", "x"); err != nil {
		t.Fatal(err)
	}
	if e := lastAudit(t, s); e.Affected != nil || !e.EndedAt.IsZero() || !strings.HasPrefix(e.Outcome, "request ") || !strings.HasSuffix(e.Outcome, " is open, and may still be carried out") {
		t.Errorf("of an open request the audit says %+v", e)
	}
	exec(t, db, `UPDATE outbox.request SET done_at = now(), outcome = 'skipped: event 1'`)
	if e := lastAudit(t, s); e.Affected == nil || *e.Affected != 1 || e.Outcome != "skipped: event 1" || e.EndedAt.IsZero() {
		t.Errorf("of a request that was carried out the audit says %+v", e)
	}
	exec(t, db, `UPDATE outbox.request SET outcome = 'refused', error = 'the key is not parked'`)
	if e := lastAudit(t, s); e.Affected == nil || *e.Affected != 0 || e.Outcome != "the key is not parked" {
		t.Errorf("of a refused request the audit says %+v", e)
	}
}

func TestWhatIsRefusedHasChangedNothingInTheAudit(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := newService(t, db)
	for name, do := range map[string]func() error{
		"cancel": func() error { return s.Cancel(t.Context(), ann, 999, "no longer needed") },
		"act":    func() error { _, err := s.Act(t.Context(), ann, skipKey(0)); return err },
		"event": func() error {
			_, err := s.Act(t.Context(), ann, operate.Action{Verb: operate.VerbRetry, Event: operate.Ref{ID: 7}})
			return err
		},
	} {
		if err := do(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	same(t, "changed", queryOne[string](t, db, `SELECT concat_ws(' ', count(*), sum(affected), count(job), max(reason) FILTER (WHERE verb = 'cancel')) FROM outbox.audit`), "3 0 0 no longer needed")
}

// A command may die while it still counts, before it has a job: nobody else would ever complete its row.
func TestTheAuditOfACommandThatDiedBeforeItHadAJobIsClosed(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	store, s := newStore(t, db), newService(t, db)
	begin := func(verb operate.Verb, filter, ago string) int64 {
		t.Helper()
		id, err := store.StartAudit(t.Context(), operate.AuditStart{Actor: "ann", Verb: verb, Filter: []byte(filter)})
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db, "UPDATE outbox.audit SET at = clock_timestamp() - $2::interval WHERE id = $1", id, ago)
		return id
	}
	skip := begin(operate.VerbSkip, `{"events": {}}`, "2 hours")
	if e := lastAudit(t, s); e.Affected == nil || *e.Affected != 0 || e.EndedAt.IsZero() || !strings.HasPrefix(e.Outcome, "its command was killed or cut off: nothing was heard of it after ") || !strings.HasSuffix(e.Outcome, "nothing was changed") {
		t.Errorf("before it is closed the audit says %+v", e)
	}
	asked := begin(operate.VerbSkip, `{"request": "4711"}`, "2 hours")
	counting := begin(operate.VerbSkip, `{"events": {}}`, "50 minutes")
	deleting := begin(operate.VerbPrune, `{}`, "23 hours")
	pruned := begin(operate.VerbPrune, `{}`, "25 hours")
	begin(operate.VerbPause, `{}`, "0")
	outcome := func(id int64) string {
		return queryOne[string](t, db, "SELECT concat_ws(' ', affected, split_part(outcome, '; ', 2), (ended_at IS NOT NULL)::text) FROM outbox.audit WHERE id = $1", id)
	}
	same(t, "of one that counted", outcome(skip), "0 nothing was changed true")
	same(t, "of one that pruned", outcome(pruned), "what was done by then stays done true")
	for what, id := range map[string]int64{"with a request": asked, "that may still count": counting, "that may still delete": deleting} {
		same(t, "of one "+what, strings.TrimSpace(outcome(id)), "false")
	}
	// It was there all the same, and goes on.
	job, err := store.StartJob(t.Context(), operate.JobStart{Audit: skip, Verb: operate.VerbSkip, Filter: []byte("{}"), Actor: "ann", Total: 1})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "of one that goes on", queryOne[string](t, db, "SELECT concat_ws(' ', job = $2, affected, outcome, ended_at) FROM outbox.audit WHERE id = $1", skip, job), "t")
}
