package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

// leastRights returns a pool of the same database for a role that may do what a relay does, and no more.
func leastRights(t *testing.T, db *pgxpool.Pool, cfg Config) *pgxpool.Pool {
	t.Helper()
	if cfg.Settle == Delete {
		return pgtest.AsRelay(t, db, "DELETE")
	}
	return pgtest.AsRelay(t, db, "UPDATE (published_at)")
}

func bareRole(t *testing.T, db *pgxpool.Pool) string {
	t.Helper()
	return pgtest.Role(t, db)
}

func TestTheLeastRightsSuffice(t *testing.T) {
	t.Parallel()
	for _, mode := range []SettleMode{Mark, Delete} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			s := openSource(t, leastRights(t, db, Config{Settle: mode}), Config{Settle: mode})
			o := owner("a")
			c := claim(t, s, o)
			refs := insert(t, db, orders, 3)
			if err := s.Start(t.Context(), nobodyHeld{}, allLanes); err != nil {
				t.Fatal(err)
			}
			if b, err := s.Read(t.Context(), 100); err != nil {
				t.Fatal(err)
			} else {
				same(t, "events read", len(b.Events), 3)
			}
			same(t, "settled", settle(t, s, refs[:1]), 1)
			park(t, s, c, parked(orders, refs[1]))
			requested(t, db, VerbUnpark, orders)
			same(t, "released", carriedOut(t, s, c, always), []relay.Key{orders})
			if err := s.Renew(t.Context(), c, ttl); err != nil {
				t.Error(err)
			}
			if err := s.Report(t.Context(), o, relay.Report{Standing: relay.StandingTried, Proved: ttl}); err != nil {
				t.Error(err)
			}
			if err := s.StandBy(t.Context(), o, ttl, relay.Report{Silent: ttl}); err != nil {
				t.Error(err)
			}
			if _, err := s.Backlog(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := s.Status(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := s.Look(t.Context(), o); err != nil {
				t.Error(err)
			}
			if err := s.HoldTopics(t.Context(), o, relay.HeldChange{Held: []relay.HeldTopic{{Topic: "orders"}}}); err != nil {
				t.Error(err)
			}
			if err := s.Release(t.Context(), c); err != nil {
				t.Error(err)
			}
			if err := s.Leave(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
}

// nobodyHeld holds no key and no topic.
type nobodyHeld struct{}

func (nobodyHeld) HeldKey(relay.Key) bool { return false }
func (nobodyHeld) HeldTopics() []string   { return nil }

func TestOpenNamesTheMissingRight(t *testing.T) {
	t.Parallel()
	for revoked, c := range map[string]struct {
		mode SettleMode
		want []string
	}{
		`REVOKE USAGE ON SCHEMA outbox FROM %s`:                      {Mark, []string{"outbox migrate grants --table public.outbox_event"}},
		`REVOKE SELECT ON TABLE outbox_event FROM %s`:                {Mark, []string{`GRANT SELECT ON TABLE "public"."outbox_event" TO %s`}},
		`REVOKE UPDATE (published_at) ON TABLE outbox_event FROM %s`: {Mark, []string{`GRANT UPDATE (published_at) ON TABLE "public"."outbox_event"`}},
		`REVOKE DELETE ON TABLE outbox_event FROM %s`:                {Delete, []string{`GRANT DELETE ON TABLE "public"."outbox_event"`}},
		`REVOKE SELECT ON SEQUENCE outbox_event_id_seq FROM %s`:      {Mark, []string{`GRANT SELECT ON SEQUENCE public.outbox_event_id_seq`}},
	} {
		t.Run(revoked, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			cfg := Config{Settle: c.mode}
			least := leastRights(t, db, cfg)
			exec(t, db, fmt.Sprintf(revoked, least.Config().ConnConfig.User))
			_, err := newSource(t, least, cfg).Open(t.Context())
			for i := range c.want {
				c.want[i] = strings.ReplaceAll(c.want[i], "%s", least.Config().ConnConfig.User)
			}
			wantText(t, err, c.want...)
		})
	}
}

func TestOpenWarnsOfAPolicyThatTheRoleMayNotCarryOut(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	least := leastRights(t, db, Config{})
	role := least.Config().ConnConfig.User
	warnings := func(cfg Config) []string {
		info, err := newSource(t, least, cfg).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.Warnings
	}
	same(t, "warnings where nothing is moved", len(warnings(Config{})), 0)
	got := warnings(Config{Moves: true})
	if len(got) != 1 || !strings.HasSuffix(got[0], "outbox migrate grants --table public.outbox_event --role "+role+" --delete.") {
		t.Errorf("warnings %q", got)
	}
	exec(t, db, "GRANT DELETE ON TABLE outbox_event TO "+role)
	same(t, "warnings with the right", len(warnings(Config{Moves: true})), 0)
}

func TestTheOperatorNeedsNoMoreThanTheRelayAndToAsk(t *testing.T) {
	t.Parallel()
	db, s, c, _ := stopped(t)
	least := leastRights(t, db, Config{})
	exec(t, db, fmt.Sprintf(`GRANT INSERT ON TABLE outbox.request TO %s`, pgx.Identifier{least.Config().ConnConfig.User}.Sanitize()))
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	o := newOperator(t, least)
	same(t, "outcome", ask(t, o, VerbUnpark).Text, "unparked")
}

func TestTheNumberOfLanesIsNotTheRelaysToChange(t *testing.T) {
	t.Parallel()
	o := newOperator(t, leastRights(t, newDatabase(t), Config{}))
	if lanes, err := o.Lanes(t.Context()); err != nil || len(lanes) == 0 {
		t.Errorf("list: %d lanes, %v", len(lanes), err)
	}
	err := o.SetLanes(t.Context(), 4)
	wantText(t, err, "it needs the rights with which outbox migrate up was run")
	if !errors.Is(err, relay.ErrConfiguration) {
		t.Errorf("set: %v, want a configuration error", err)
	}
}

func TestRowLevelSecurityIsSaid(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	insert(t, db, orders, 1)
	exec(t, db, `ALTER TABLE outbox_event ENABLE ROW LEVEL SECURITY`)
	s := newSource(t, leastRights(t, db, Config{}), Config{})
	_, err := s.Open(t.Context())
	wantText(t, err, "row-level security hides every row")
	exec(t, db, `CREATE POLICY all_of_them ON outbox_event USING (true)`)
	info, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := withoutServer(info.Warnings); len(got) != 1 || !strings.Contains(got[0], "Row-level security applies") {
		t.Errorf("warnings = %q, want one of row-level security", got)
	}
}
