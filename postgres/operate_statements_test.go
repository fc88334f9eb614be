package postgres

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// said is a statement with its arguments.
type said struct {
	text string
	args []any
}

// listener notes every statement of a pool that names the outbox table, each with what its transaction had set by then.
type listener struct {
	mu       sync.Mutex
	settings map[*pgx.Conn][]said
	heard    map[string]heard
}

type heard struct {
	said
	settings []said
}

func (l *listener) TraceQueryStart(ctx context.Context, conn *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch text := strings.TrimSpace(q.SQL); {
	case strings.HasPrefix(strings.ToLower(text), "begin"):
		delete(l.settings, conn)
	case strings.Contains(text, "set_config("):
		l.settings[conn] = append(l.settings[conn], said{q.SQL, q.Args})
	case strings.Contains(text, `"outbox_event"`):
		l.heard[q.SQL] = heard{said{q.SQL, q.Args}, slices.Clone(l.settings[conn])}
	}
	return ctx
}

func (l *listener) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take returns what was heard since the last time.
func (l *listener) take() map[string]heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.heard
	l.heard = map[string]heard{}
	return all
}

func listening(t *testing.T, url string) (*pgxpool.Pool, *listener) {
	t.Helper()
	l := &listener{settings: map[*pgx.Conn][]said{}, heard: map[string]heard{}}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = l
	db, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db, l
}

// wantIndexes looks at the plan of a statement under the settings that it was run with.
func wantIndexes(t *testing.T, db *pgxpool.Pool, what string, h heard) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for _, s := range h.settings {
		if _, err := tx.Exec(t.Context(), s.text, s.args...); err != nil {
			t.Fatalf("%s: %s: %v", what, s.text, err)
		}
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN "+h.text, h.args...)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: explain %s: %v", what, h.text, err)
	}
	if found := scan.FindString(strings.Join(lines, "\n")); found != "" {
		t.Errorf("%s: %s in the plan of\n%s\n%s", what, found, h.text, strings.Join(lines, "\n"))
	}
}

// bulks are changes of every kind, each with what its walks range over.
func bulks() map[string]operate.Bulk {
	all := map[string]operate.Bulk{
		"keys": {Verb: operate.VerbUnpark, Keys: &operate.KeyFilter{Topic: some("shop.order")}},
		"only": {Verb: operate.VerbSkip, Reason: "x", Events: &operate.EventFilter{}, Only: []operate.Target{{Topic: "shop.order", PartitionKey: "key 20", ID: 20, EventID: eventID(20), State: operate.StatePending}}},
	}
	for _, verb := range []operate.Verb{operate.VerbRetry, operate.VerbSkip, operate.VerbRestore, operate.VerbReplay} {
		for _, state := range states {
			for shape, f := range shapes(2000) {
				if shape == "named" {
					continue
				}
				f.State = state
				all[fmt.Sprintf("%s %s %s", verb, state, shape)] = operate.Bulk{Verb: verb, Reason: "x", Events: &f}
			}
		}
	}
	return all
}

// deeds are all that a store can do, by the method's name; what names no row of the outbox table is nil.
func deeds(s *Store) map[string]func(context.Context) error {
	target := operate.Target{Topic: "shop.order", PartitionKey: "key 3", ID: 3, EventID: eventID(3)}
	walk := func(do func(context.Context, operate.Bulk, operate.Cursor) error) func(context.Context) error {
		return func(ctx context.Context) error {
			for name, b := range bulks() {
				for w := range walksOf(b) {
					if err := do(ctx, b, operate.Cursor{Walk: w}); err != nil && operate.CodeOf(err) != operate.CodeInvalid {
						return fmt.Errorf("%s: %w", name, err)
					}
				}
			}
			return nil
		}
	}
	look := func(do func(context.Context, time.Duration) error) func(context.Context) error {
		return func(ctx context.Context) error { return do(ctx, lookTime) }
	}
	request := func(verb string) func(context.Context) error {
		return func(ctx context.Context) error {
			id, err := s.RequestEvent(ctx, verb, relay.Key{Topic: "shop.order", PartitionKey: "key 20"}, relay.Ref{ID: 20, EventID: eventID(20)}, "ann", "x")
			if err == nil {
				_, err = s.Await(ctx, id)
			}
			return err
		}
	}
	age := time.Hour
	prune := operate.Prune{Events: &operate.PruneEvents{OlderThan: age, Keep: 100}, Dead: &age, Audit: &age}
	return map[string]func(context.Context) error{
		"Events": func(ctx context.Context) error {
			for _, state := range states {
				for _, f := range shapes(2000) {
					f.State = state
					if _, err := s.Events(ctx, lookTime, operate.EventQuery{EventFilter: f, Order: operate.NewestFirst, Limit: 10}); err != nil {
						return err
					}
				}
			}
			return nil
		},
		"Event": look(func(ctx context.Context, limit time.Duration) error {
			for _, id := range []int64{20, 21, 22, 1999, 100_022, 99_999_999} {
				if _, err := s.Event(ctx, limit, operate.Ref{ID: id}); err != nil && operate.CodeOf(err) != operate.CodeNotFound {
					return err
				}
			}
			return nil
		}),
		"Topics": look(func(ctx context.Context, limit time.Duration) error { _, err := s.Topics(ctx, limit); return err }),
		"Keys": look(func(ctx context.Context, limit time.Duration) error {
			_, err := s.Keys(ctx, limit, operate.KeyQuery{Limit: 10})
			return err
		}),
		"Find": func(ctx context.Context) error {
			_, _, err := s.Find(ctx, []operate.Ref{{ID: 1}, {EventID: eventID(2)}})
			return err
		},
		"Overtaken": func(ctx context.Context) error { _, err := s.Overtaken(ctx, target); return err },
		"OvertakenOf": func(ctx context.Context) error {
			_, err := s.OvertakenOf(ctx, operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{State: operate.StateDead}}, operate.Cursor{}, 100)
			return err
		},
		"Match": walk(func(ctx context.Context, b operate.Bulk, at operate.Cursor) error {
			_, err := s.Match(ctx, b, at, 100)
			return err
		}),
		"AskMatching": walk(func(ctx context.Context, b operate.Bulk, at operate.Cursor) error {
			job, err := s.StartJob(ctx, operate.JobStart{Verb: b.Verb, Filter: []byte("{}"), Actor: "ann", Total: 1})
			if err == nil && b.Verb != operate.VerbReplay {
				_, err = s.AskMatching(ctx, job, b, "ann", at, 1)
			}
			return err
		}),
		"Settled": walk(func(ctx context.Context, b operate.Bulk, at operate.Cursor) error {
			if b.Verb != operate.VerbReplay {
				return nil
			}
			_, err := s.Settled(ctx, b, at, 10)
			return err
		}),
		"RequestEvent": func(ctx context.Context) error {
			for _, verb := range []string{VerbRetry, VerbSkip, VerbRestore, VerbDead, VerbRestore} {
				if err := request(verb)(ctx); err != nil {
					return fmt.Errorf("%s: %w", verb, err)
				}
			}
			return nil
		},
		"Status":           func(ctx context.Context) error { _, err := s.Status(ctx); return err },
		"Keeping":          func(ctx context.Context) error { _, _, err := s.Keeping(ctx); return err },
		"OldestSettledAge": func(ctx context.Context) error { _, err := s.OldestSettledAge(ctx); return err },
		"Holding":          func(ctx context.Context) error { _, err := s.Holding(ctx); return err },
		"PlanPrune":        func(ctx context.Context) error { _, err := s.PlanPrune(ctx, prune); return err },
		"Prune":            func(ctx context.Context) error { _, err := s.Prune(ctx, prune, nil); return err },

		"Answer": nil, "Ask": nil, "Await": nil, "AwaitSetLanes": nil, "Audit": nil, "CancelJob": nil, "Competing": nil, "Delay": nil, "EndAudit": nil, "EndJob": nil, "Jobs": nil, "Lanes": nil, "Parked": nil,
		"Pause": nil, "Pauses": nil, "Relays": nil, "ReportJob": nil, "Request": nil, "Resume": nil, "SeeJob": nil, "SetLanes": nil, "StandIn": nil, "StartAudit": nil, "StartJob": nil,
		"Tally": nil, "Withdraw": nil, "LargestOf": nil,
		"CountForget": nil, "Forget": nil, "ForgetRedriven": nil, "Handled": nil, "InboxConsumers": nil, "InboxFailures": nil, "KeptOf": nil, "MarkRedriven": nil, "RedrivenOf": nil,
	}
}

// Whatever operators do: no statement that names the outbox table reads it whole, with the settings that it is run with. A new method has to take its place here.
func TestNoStatementOfAnOperatorScansTheTable(t *testing.T) {
	t.Parallel()
	const rows = 60_000
	test := pgtest.New(t)
	db, ears := listening(t, test.URL)
	d := deskOn(t, test, db)
	d.store.every = 5 * time.Millisecond
	d.grow(rows)
	d.exec("ALTER TABLE outbox_event ADD COLUMN tenant text DEFAULT 'acme'")
	all := deeds(d.store)
	var methods []string
	for i := range reflect.TypeFor[*Store]().NumMethod() {
		methods = append(methods, reflect.TypeFor[*Store]().Method(i).Name)
	}
	same(t, "the methods of a store, all with a place in this test", methods, slices.Sorted(maps.Keys(all)))
	plain := test.Pool(t)
	for _, state := range []struct{ name, sql string }{
		{"all unpublished, analyzed", "ANALYZE"},
		{"few unpublished, old statistics", fmt.Sprintf("UPDATE outbox_event SET published_at = now() - interval '1 min' WHERE id BETWEEN 100 AND %d", rows-100)},
	} {
		d.exec(state.sql)
		d.exec(`INSERT INTO outbox.pause (source, scope, topic, partition_key, key_hash, paused_by) VALUES ($1, 'key', 'shop.order', 'key 5', '\x00', 'ann') ON CONFLICT DO NOTHING`, d.id)
		for _, method := range slices.Sorted(maps.Keys(all)) {
			if all[method] == nil {
				continue
			}
			ears.take()
			if err := all[method](t.Context()); err != nil {
				t.Fatalf("%s: %s: %v", state.name, method, err)
			}
			heard := ears.take()
			if len(heard) == 0 && method != "Keys" {
				t.Errorf("%s: %s names the table in no statement: is it nothing to do here?", state.name, method)
			}
			for _, h := range heard {
				wantIndexes(t, plain, state.name+": "+method, h)
			}
		}
	}
}
