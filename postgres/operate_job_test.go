package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres/retention"
)

// killed is a job on n parked keys whose command was killed: of its requests two are done, one has failed, and the rest is open.
func killed(t *testing.T, db *pgxpool.Pool, n int) (s *Store, job int64) {
	t.Helper()
	incident(t, db, "shop.a", n)
	s = newStore(t, db)
	b := operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{}}
	audit, err := s.StartAudit(t.Context(), operate.AuditStart{Actor: "ann", Verb: b.Verb, Filter: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	job, err = s.StartJob(t.Context(), operate.JobStart{Audit: audit, Verb: b.Verb, Filter: []byte("{}"), Actor: "ann", Total: int64(n)})
	if err != nil {
		t.Fatal(err)
	}
	if asked, err := s.AskMatching(t.Context(), job, b, "ann", operate.Cursor{}, n); err != nil || asked.Count != int64(n) {
		t.Fatalf("asked %+v, %v", asked, err)
	}
	exec(t, db, `UPDATE outbox.request SET done_at = now(), outcome = CASE WHEN id % 3 = 0 THEN 'refused' ELSE 'unparked' END, error = CASE WHEN id % 3 = 0 THEN 'no' END
WHERE id IN (SELECT id FROM outbox.request ORDER BY id LIMIT 3)`)
	return s, job
}

// unseen makes nobody have seen any job for a while.
func unseen(t *testing.T, db *pgxpool.Pool, ago string) {
	t.Helper()
	exec(t, db, `UPDATE outbox.job SET seen_at = clock_timestamp() - $1::interval`, ago)
}

func listedJobs(t *testing.T, s *Store, state string) []string {
	t.Helper()
	p, err := s.Jobs(t.Context(), lookTime, operate.JobQuery{State: state, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, j := range p.Jobs {
		list = append(list, fmt.Sprintf("%s: %d done, %d failed of %d; %.38s", j.State, j.Done, j.Failed, j.Total, j.Note))
	}
	return list
}

const killedJob = "failed: 2 done, 1 failed of 9; its command was killed or cut off: nob"

func TestTheRequestsOfAKilledCommandAreNotCarriedOut(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	_, job := killed(t, db, 9)
	unseen(t, db, "31 s")
	relay, c := alive(t, db)
	got := carriedOut(t, relay, c, always)
	same(t, "released", len(got), 0)
	same(t, "open requests", openRequestCount(t, db), 0)
	same(t, "parked keys", queryOne[int](t, db, `SELECT count(*) FROM outbox.parked_key`), 9)
	same(t, "the requests", queryOne[string](t, db, `SELECT string_agg(DISTINCT outcome || ' ' || coalesce(error, ''), '; ') FROM outbox.request WHERE job = $1 AND outcome = 'cancelled'`, job), "cancelled "+jobIsOver)
}

// A job that is gone altogether is waited for by nobody either.
func TestTheRequestsOfAJobThatIsGoneAreNotCarriedOut(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	killed(t, db, 5)
	exec(t, db, `DELETE FROM outbox.job`)
	relay, c := alive(t, db)
	carriedOut(t, relay, c, always)
	same(t, "open requests, parked keys", []int{openRequestCount(t, db), queryOne[int](t, db, `SELECT count(*) FROM outbox.parked_key`)}, []int{0, 5})
}

func TestTheRequestsOfALivingCommandAreCarriedOut(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s, job := killed(t, db, 9)
	unseen(t, db, "25 s")
	if err := s.SeeJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	same(t, "seen again", queryOne[bool](t, db, `SELECT seen_at > clock_timestamp() - interval '20 s' FROM outbox.job`), true)
	relay, c := alive(t, db)
	carriedOut(t, relay, c, always)
	same(t, "open requests, parked keys", []int{openRequestCount(t, db), queryOne[int](t, db, `SELECT count(*) FROM outbox.parked_key`)}, []int{0, 3})
}

// Whoever looks sees what is true, though nobody has closed the job.
func TestAKilledJobIsListedAsItIs(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s, job := killed(t, db, 9)
	service := newService(t, db)
	same(t, "running", listedJobs(t, s, "running"), []string{"running: 0 done, 0 failed of 9; "})
	if e := lastAudit(t, service); e.Job != job || e.Affected != nil || e.Outcome != "" {
		t.Errorf("while it goes on the audit says %+v", e)
	}
	unseen(t, db, "31 s")
	same(t, "running", listedJobs(t, s, "running"), []string{})
	same(t, "any", listedJobs(t, s, ""), []string{killedJob})
	same(t, "failed", listedJobs(t, s, "failed"), []string{killedJob})
	if e := lastAudit(t, service); e.Job != job || e.Affected == nil || *e.Affected != 2 || !strings.Contains(e.Outcome, "killed or cut off") || e.EndedAt.IsZero() {
		t.Errorf("the audit says %+v", e)
	}
}

func TestTheNextChangeClosesKilledJobs(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s, job := killed(t, db, 9)
	state := `SELECT concat_ws(' ', j.state, j.done, j.failed, a.affected, a.job = j.id, a.ended_at IS NOT NULL) FROM outbox.job j JOIN outbox.audit a ON a.verb = 'unpark'`
	if _, err := s.StartAudit(t.Context(), operate.AuditStart{Actor: "bob", Verb: operate.VerbPause, Filter: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	same(t, "a job that goes on", queryOne[string](t, db, state), "running 0 0 t f")
	unseen(t, db, "31 s")
	if _, err := s.StartAudit(t.Context(), operate.AuditStart{Actor: "bob", Verb: operate.VerbPause, Filter: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	same(t, "a killed one", queryOne[string](t, db, state), "failed 2 1 2 t t")
	same(t, "open requests", openRequestCount(t, db), 0)
	same(t, "listed", listedJobs(t, s, ""), []string{killedJob})
	same(t, "cancelled then", operate.CodeOf(s.CancelJob(t.Context(), job, "ann")), operate.CodeConflict)
}

// A command that was away for too long, as on a machine that slept, learns that its job is over: it may not go on.
func TestAJobThatWasTakenForDeadDoesNotComeBack(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s, job := killed(t, db, 9)
	if over, err := s.ReportJob(t.Context(), job, 1, 0, ""); err != nil || over {
		t.Errorf("in time: %v, %v", over, err)
	}
	unseen(t, db, "31 s")
	if err := s.SeeJob(t.Context(), job); err != nil {
		t.Error(err)
	}
	if over, err := s.ReportJob(t.Context(), job, 2, 0, ""); err != nil || !over {
		t.Errorf("too late: %v, %v", over, err)
	}
	asked, err := s.AskMatching(t.Context(), job, operate.Bulk{Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{}}, "ann", operate.Cursor{}, 2)
	if err != nil || asked.Count != 0 {
		t.Errorf("asked %+v, %v", asked, err)
	}
	same(t, "cancelled", operate.CodeOf(s.CancelJob(t.Context(), job, "ann")), operate.CodeConflict)
	same(t, "listed", listedJobs(t, s, ""), []string{killedJob})
}

// Nobody else knows how far a replay was whose process was killed: it has no requests.
func TestAKilledJobKeepsWhatItSaidLastOfItsPlace(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s, job := killed(t, db, 9)
	note := func() string {
		t.Helper()
		p, err := s.Jobs(t.Context(), lookTime, operate.JobQuery{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return p.Jobs[0].Note
	}
	for _, place := range []string{"up to id 1", "up to id 2", ""} {
		if _, err := s.ReportJob(t.Context(), job, 1, 0, place); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "while it runs", note(), "up to id 2")
	unseen(t, db, "31 s")
	wantText(t, errors.New(note()), "its command was killed or cut off", "left alone; up to id 2")
	wantText(t, errors.New(lastAudit(t, newService(t, db)).Outcome), "left alone; up to id 2")
	if _, err := s.StartAudit(t.Context(), operate.AuditStart{Actor: "bob", Verb: operate.VerbPause, Filter: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if closed := note(); strings.Count(closed, "up to id 2") != 1 {
		t.Errorf("closed by the next change: %q", closed)
	}
}

func TestTheEndOfAJobTakesThePlaceOfItsPlace(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s, job := killed(t, db, 9)
	if _, err := s.ReportJob(t.Context(), job, 1, 0, "up to id 1"); err != nil {
		t.Fatal(err)
	}
	if err := s.EndJob(t.Context(), job, 9, 0, operate.JobDone, "9 done"); err != nil {
		t.Fatal(err)
	}
	same(t, "the note", queryOne[string](t, db, `SELECT note FROM outbox.job`), "9 done")
}

func TestAKilledJobIsPrunedInTheEndAndALivingOneIsNot(t *testing.T) {
	t.Parallel()
	for ago, want := range map[string]int64{"2 h": 1, "1 s": 0} {
		db := newDatabase(t)
		killed(t, db, 3)
		unseen(t, db, ago)
		age := time.Duration(0)
		if ago == "2 h" {
			age = time.Hour
		}
		pruner, err := retention.NewPruner(db, "")
		if err != nil {
			t.Fatal(err)
		}
		pruned, err := pruner.Prune(t.Context(), operate.Prune{Audit: &age}, nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "jobs pruned that were last seen before "+ago, pruned.Jobs, want)
	}
}

// What was too much for a command that stands in for the relay is not tried again in the same size for ever.
func TestAStandInLearnsTheSizeOfItsBatches(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	killed(t, db, 12)
	o := newOperator(t, db)
	o.size.Store(3)
	if err := o.StandIn(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "open requests", openRequestCount(t, db), 0)
	if n := o.size.Load(); n <= 3 || n >= firstBatch {
		t.Errorf("after quick batches of 3 the next one takes %d", n)
	}
}
