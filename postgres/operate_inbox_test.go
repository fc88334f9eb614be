package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/operate"
)

var admin = operate.Actor{Name: "admin", Role: operate.Admin}

// remembered has two consumers, one of which has handled so many events, one a minute until now.
func remembered(t *testing.T, db *pgxpool.Pool, events int) {
	t.Helper()
	exec(t, db, `INSERT INTO outbox.inbox SELECT 'billing', 'event ' || g, now() - g * interval '1 minute' FROM generate_series(1, $1) g`, events)
	exec(t, db, `INSERT INTO outbox.inbox VALUES ('shipping', 'event 1', now())`)
	exec(t, db, `INSERT INTO outbox.inbox_failure (consumer, topic, partition, record_offset, event_id, event_type, attempts, first_error, last_error)
		VALUES ('mail', 't', 0, 7, 'x', 'y', 4, 'first', 'no such account')`)
}

func TestConsumersAreListedWithWhatTheyRememberAndCannotHandle(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	remembered(t, db, inboxCounted+1)
	found, err := newService(t, db).InboxConsumers(t.Context(), ann)
	if err != nil || len(found) != 3 {
		t.Fatalf("found %+v, %v", found, err)
	}
	b, m, s := found[0], found[1], found[2]
	if b.Name != "billing" || b.Remembered != inboxCounted || !b.Capped || b.Newest.Sub(b.Oldest) < inboxCounted*time.Minute || b.Failing != 0 {
		t.Errorf("billing is %+v", b)
	}
	if m.Name != "mail" || m.Remembered != 0 || m.Capped || !m.Oldest.IsZero() || m.Failing != 1 || m.Attempts != 4 || m.LastError != "no such account" {
		t.Errorf("mail is %+v", m)
	}
	if s.Name != "shipping" || s.Remembered != 1 {
		t.Errorf("shipping is %+v", s)
	}
}

func TestRecordsThatFailAreListedThoseThatHaveFailedForLongestFirst(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := newService(t, db)
	exec(t, db, `INSERT INTO outbox.inbox_failure (consumer, topic, partition, record_offset, event_id, event_type, attempts, first_error, last_error, first_failed_at, last_failed_at)
		SELECT CASE g % 2 WHEN 0 THEN 'mail' ELSE 'billing' END, 't', 1, 100 + g, 'e' || g, 'paid', g, 'first', 'last', now() - g * interval '1 hour', now() FROM generate_series(1, 5) g`)
	mail, nobody := "mail", "nobody"
	for name, c := range map[string]struct {
		q    operate.InboxFailureQuery
		want []int64
		more bool
	}{
		"all":             {operate.InboxFailureQuery{}, []int64{105, 104, 103, 102, 101}, false},
		"of one consumer": {operate.InboxFailureQuery{Consumer: &mail}, []int64{104, 102}, false},
		"some":            {operate.InboxFailureQuery{Limit: 2}, []int64{105, 104}, true},
		"as many":         {operate.InboxFailureQuery{Limit: 5}, []int64{105, 104, 103, 102, 101}, false},
		"of nobody":       {operate.InboxFailureQuery{Consumer: &nobody}, nil, false},
	} {
		page, err := s.InboxFailures(t.Context(), ann, c.q)
		var offsets []int64
		for _, f := range page.Failures {
			offsets = append(offsets, f.Offset)
		}
		if err != nil || !slices.Equal(offsets, c.want) || page.More != c.more || page.Failures == nil {
			t.Errorf("%s: %v, more %t, %v; want %v", name, offsets, page.More, err, c.want)
		}
	}
	page, err := s.InboxFailures(t.Context(), ann, operate.InboxFailureQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	f := page.Failures[0]
	if d := f.LastFailedAt.Sub(f.FirstFailedAt); d != 5*time.Hour {
		t.Errorf("it has failed for %s", d)
	}
	f.FirstFailedAt, f.LastFailedAt = time.Time{}, time.Time{}
	if want := (operate.InboxFailure{Consumer: "billing", Topic: "t", Partition: 1, Offset: 105, EventID: "e5", EventType: "paid", Attempts: 5, FirstError: "first", LastError: "last"}); f != want {
		t.Errorf("got %+v, want %+v", f, want)
	}
	for _, q := range []operate.InboxFailureQuery{{Limit: operate.MaxPage + 1}, {Limit: -1}, {Consumer: new("a\x00b")}} {
		if _, err := s.InboxFailures(t.Context(), ann, q); operate.CodeOf(err) != operate.CodeInvalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestAConsumerForgetsWhatIsNamedAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forget      operate.Forget
		from, until time.Duration // before the newest
		want        int64
	}{
		"by id":          {operate.Forget{EventIDs: []string{"event 1", "event 3", "gone"}}, 0, 0, 2},
		"by time":        {operate.Forget{}, 30*time.Minute + 30*time.Second, 10*time.Minute + 30*time.Second, 20},
		"by id and time": {operate.Forget{EventIDs: []string{"event 1", "event 3"}}, 0, time.Minute, 1},
		"all":            {operate.Forget{All: true}, 0, 0, forgetAtOnce + 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			remembered(t, db, forgetAtOnce+100)
			s := newService(t, db)
			newest := queryOne[time.Time](t, db, `SELECT max(handled_at) FROM outbox.inbox WHERE consumer = 'billing'`)
			if c.forget.Consumer = "billing"; c.from > 0 {
				c.forget.From = newest.Add(-c.from)
			}
			if c.until > 0 {
				c.forget.Until = newest.Add(-c.until)
			}
			if n, capped, err := s.CountForget(t.Context(), admin, c.forget); err != nil || n != c.want || capped {
				t.Errorf("counted %d, %v, %v, want %d", n, capped, err, c.want)
			}
			if n, err := s.Forget(t.Context(), admin, c.forget, "again", nil); err != nil || n != c.want {
				t.Errorf("forgot %d, %v, want %d", n, err, c.want)
			}
			same(t, "what the consumer remembers", queryOne[int64](t, db, `SELECT count(*) FROM outbox.inbox WHERE consumer = 'billing'`), forgetAtOnce+100-c.want)
			same(t, "what another one does", queryOne[int64](t, db, `SELECT count(*) FROM outbox.inbox WHERE consumer = 'shipping'`), 1)
			if e := lastAudit(t, s); e.Verb != string(operate.VerbForget) || e.Affected == nil || *e.Affected != c.want || e.Reason != "again" {
				t.Errorf("the audit says %+v", e)
			}
		})
	}
}

func TestForgettingIsForAdminsAndHasToBeNarrowedOrSaid(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	remembered(t, db, 3)
	s := newService(t, db)
	if _, err := s.Forget(t.Context(), ann, operate.Forget{Consumer: "billing", All: true}, "x", nil); operate.CodeOf(err) != operate.CodeForbidden {
		t.Errorf("an operator may: %v", err)
	}
	for want, f := range map[string]operate.Forget{
		"name the consumer": {All: true},
		"say which":         {Consumer: "billing"},
		"or all of them":    {Consumer: "billing", All: true, EventIDs: []string{"event 1"}},
		"none is from":      {Consumer: "billing", From: time.Now(), Until: time.Now().Add(-time.Hour)},
		"at most 10000":     {Consumer: "billing", EventIDs: make([]string, operate.MaxForgetIDs+1)},
	} {
		if _, err := s.Forget(t.Context(), admin, f, "x", nil); operate.CodeOf(err) != operate.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	same(t, "what the consumer remembers", queryOne[int64](t, db, `SELECT count(*) FROM outbox.inbox WHERE consumer = 'billing'`), 3)
}
