package postgres

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/operate"
)

// abandoned is a request for a parked key whose command was killed before anybody has carried it out.
func abandoned(t *testing.T, s *Store) int64 {
	t.Helper()
	audit, err := s.StartAudit(t.Context(), operate.AuditStart{Actor: "ann", Verb: operate.VerbUnpark, Filter: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	var key string
	if err := s.db.Pool.QueryRow(t.Context(), `SELECT partition_key FROM outbox.parked_key LIMIT 1`).Scan(&key); err != nil {
		t.Fatal(err)
	}
	id, err := s.Ask(t.Context(), audit, operate.VerbUnpark, operate.Target{Topic: "shop.a", PartitionKey: key}, "ann", "mended")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestTheRequestOfAKilledCommandIsListedAndCanBeTakenBack(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	incident(t, db, "shop.a", 1)
	s, service := newStore(t, db), newService(t, db)
	id := abandoned(t, s)
	jobs := func(q operate.JobQuery) []operate.OpenRequest {
		p, err := service.Jobs(t.Context(), operate.Actor{}, q)
		if err != nil {
			t.Fatal(err)
		}
		return p.Requests
	}
	bob, verb := "bob", "unpark"
	list := jobs(operate.JobQuery{State: "running", Verb: &verb})
	if len(list) != 1 || list[0].ID != id || list[0].Actor != "ann" || list[0].Reason != "mended" || list[0].Event != nil || list[0].Topic != "shop.a" || list[0].At.IsZero() {
		t.Fatalf("listed are %+v", list)
	}
	same(t, "of somebody else, and of jobs that are done", len(jobs(operate.JobQuery{Actor: &bob}))+len(jobs(operate.JobQuery{State: "done"})), 0)
	if err := service.CancelRequest(t.Context(), ann, id, "by mistake"); err != nil {
		t.Fatal(err)
	}
	same(t, "open requests", len(jobs(operate.JobQuery{})), 0)
	relay, c := alive(t, db)
	carriedOut(t, relay, c, always)
	same(t, "parked keys", queryOne[int](t, db, `SELECT count(*) FROM outbox.parked_key`), 1)
	err := service.CancelRequest(t.Context(), ann, id, "")
	if operate.CodeOf(err) != operate.CodeConflict || !strings.Contains(err.Error(), "taken back by ann") {
		t.Errorf("taken back twice: %v", err)
	}
	same(t, "the reason in the audit", queryOne[int](t, db, `SELECT count(*) FROM outbox.audit WHERE verb = 'cancel' AND reason = 'by mistake' AND affected = 1`), 1)
	verb = "unpark"
	p, err := service.Audit(t.Context(), operate.Actor{}, operate.AuditQuery{Verb: &verb})
	if err != nil || len(p.Entries) != 1 || p.Entries[0].Outcome != "taken back by ann" || p.Entries[0].EndedAt.IsZero() {
		t.Errorf("the audit says of the killed command %+v, %v", p.Entries, err)
	}
}

func TestOnlyARequestThatIsOpenAndOfNoJobIsTakenBack(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	_, job := killed(t, db, 2)
	service := newService(t, db)
	p, err := service.Jobs(t.Context(), operate.Actor{}, operate.JobQuery{})
	if err != nil || len(p.Requests) != 0 {
		t.Errorf("the requests of a job are listed with it: %+v, %v", p.Requests, err)
	}
	one := queryOne[int64](t, db, `SELECT max(id) FROM outbox.request WHERE job = $1`, job)
	for id, want := range map[int64]operate.Code{one: operate.CodeConflict, 4711: operate.CodeNotFound, 0: operate.CodeInvalid} {
		same(t, "refused", operate.CodeOf(service.CancelRequest(t.Context(), ann, id, "")), want)
	}
	same(t, "taken back requests of the job", queryOne[int](t, db, `SELECT count(*) FROM outbox.request WHERE outcome = 'withdrawn'`), 0)
	exec(t, db, `DELETE FROM outbox.request`)
	s := newStore(t, db)
	id := abandoned(t, s)
	if err := s.StandIn(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = service.CancelRequest(t.Context(), ann, id, "")
	if operate.CodeOf(err) != operate.CodeConflict || !strings.Contains(err.Error(), "carried out already: unparked") {
		t.Errorf("one that was carried out: %v", err)
	}
}

func TestAPageOfJobsNamesSoManyOpenRequestsAndNoMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`INSERT INTO outbox.request (source, verb, topic, partition_key, requested_by) SELECT $1, 'unpark', 't', i::text, 'ann' FROM generate_series(1, $2::int) i`, d.id, operate.MaxOpenRequests+1)
	p, err := d.service().Jobs(d.Context(), operate.Actor{}, operate.JobQuery{})
	if err != nil || len(p.Requests) != operate.MaxOpenRequests || !p.MoreRequests || p.Requests[0].PartitionKey != "1" {
		t.Errorf("%d requests, more %v, %v", len(p.Requests), p.MoreRequests, err)
	}
}
