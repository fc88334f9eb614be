package postgres

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

// Flags of the long form.
var (
	stressFor  = flag.Duration("stress", 2*time.Second, "how long the writers of the stress test write; from 10s on its trigger sleeps up to 2.5 s")
	stressSeed = flag.Uint64("stress-seed", 0, "seed of the stress test; 0 takes one from the clock")
)

// ledger keeps what a reader has handed on, as a gate would: first time counts.
type ledger struct {
	seen  map[relay.Ref]bool
	order map[relay.Key][]relay.Ref
}

func newLedger() *ledger {
	return &ledger{map[relay.Ref]bool{}, map[relay.Key][]relay.Ref{}}
}

// take returns the events that are new.
func (l *ledger) take(events []*relay.Event) (fresh []relay.Ref) {
	for _, e := range events {
		if !l.seen[e.Ref()] {
			l.seen[e.Ref()] = true
			l.order[e.Key()] = append(l.order[e.Key()], e.Ref())
			fresh = append(fresh, e.Ref())
		}
	}
	return fresh
}

// faults compares with what was committed: nothing lost, nothing of a rolled-back transaction, no key turned.
func (l *ledger) faults(committed map[relay.Ref]relay.Key) (faults []string) {
	for ref, k := range committed {
		if !l.seen[ref] {
			faults = append(faults, fmt.Sprintf("lost: id %d of key %s", ref.ID, k.PartitionKey))
		}
	}
	for k, refs := range l.order {
		last := int64(0)
		for _, ref := range refs {
			if _, ok := committed[ref]; !ok {
				faults = append(faults, fmt.Sprintf("never committed: id %d of key %s", ref.ID, k.PartitionKey))
			}
			if ref.ID < last {
				faults = append(faults, fmt.Sprintf("turned: id %d of key %s came after %d", ref.ID, k.PartitionKey, last))
			}
			last = ref.ID
		}
	}
	slices.Sort(faults)
	return faults
}

// committed returns what the table holds.
func committed(t *testing.T, conn *pgx.Conn) map[relay.Ref]relay.Key {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT id, event_id, topic, partition_key FROM outbox_event")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := map[relay.Ref]relay.Key{}
	for rows.Next() {
		var ref relay.Ref
		var k relay.Key
		if err := rows.Scan(&ref.ID, &ref.EventID, &k.Topic, &k.PartitionKey); err != nil {
			t.Fatal(err)
		}
		all[ref] = k
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return all
}

const stressSQL = `CREATE TABLE aggregate (k integer PRIMARY KEY);
INSERT INTO aggregate SELECT generate_series(0, 49);
CREATE TABLE business (a integer);
CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF random() < 0.01 THEN PERFORM pg_sleep(random() * %g); END IF; RETURN NEW; END $$;
CREATE TRIGGER sleep BEFORE INSERT ON outbox_event FOR EACH ROW EXECUTE FUNCTION sleep()`

// stressWriter writes transactions of all kinds until the time is over. Its keys are serialised by a row lock.
type stressWriter struct {
	conn *pgx.Conn
	rand *rand.Rand
	err  error
}

func (w *stressWriter) do(ctx context.Context, sql string, args ...any) {
	if w.err == nil {
		_, w.err = w.conn.Exec(ctx, sql, args...)
	}
}

func (w *stressWriter) insert(ctx context.Context, key int) {
	w.do(ctx, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES ($1, 'Order', '1', 'order.confirmed.v1', '{}', 'order-service.order', $2)`, uuid.New(), fmt.Sprint("key ", key))
}

// transaction writes one to three events, some of them in savepoints, of which some are rolled back, as the whole may be.
func (w *stressWriter) transaction(ctx context.Context) {
	key := w.rand.IntN(50)
	w.do(ctx, "BEGIN")
	if w.rand.IntN(4) == 0 {
		w.do(ctx, "INSERT INTO business VALUES (1)")
	}
	w.do(ctx, "SELECT 1 FROM aggregate WHERE k = $1 FOR UPDATE", key)
	if w.rand.IntN(5) == 0 {
		w.do(ctx, "SAVEPOINT s")
		w.insert(ctx, key)
		w.do(ctx, []string{"ROLLBACK TO s", "RELEASE s"}[w.rand.IntN(2)])
	}
	for range 1 + w.rand.IntN(2) {
		w.insert(ctx, key)
	}
	if w.rand.IntN(50) == 0 {
		w.do(ctx, "SELECT pg_sleep($1)", w.rand.Float64()*0.3)
	}
	if w.rand.IntN(10) == 0 {
		w.do(ctx, "ROLLBACK")
		return
	}
	w.do(ctx, "COMMIT")
}

// writeAll runs the writers, and returns a function that tells whether they have finished; their errors fail the test at its end.
func writeAll(t *testing.T, db *pgtest.DB, writers int, seed uint64, d time.Duration) (finished func() bool) {
	t.Helper()
	var wg sync.WaitGroup
	var running atomic.Int32
	running.Store(int32(writers))
	end := time.Now().Add(d)
	ctx := t.Context()
	for i := range writers {
		w := &stressWriter{conn: db.Conn(t), rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		wg.Go(func() {
			defer running.Add(-1)
			for time.Now().Before(end) && w.err == nil {
				w.transaction(ctx)
			}
			if w.err != nil {
				t.Errorf("writer %d: %v", i, w.err)
			}
		})
	}
	t.Cleanup(wg.Wait)
	return func() bool { return running.Load() == 0 }
}

// 32 writers against the reader, which starts in their midst, reads keys again now and then, and settles what it has read.
func TestStress(t *testing.T) {
	t.Parallel()
	seed := stressSeedOf(t)
	nap := 0.5
	if *stressFor >= 10*time.Second {
		nap = 2.5
	}
	b := newBench(t)
	b.db.Exec(t, fmt.Sprintf(stressSQL, nap))
	read, locks := openSession(t, b.db), openSession(t, b.db)
	own := []int32{read.pid(), locks.pid(), int32(b.plain.PgConn().PID())}
	r := newReader(read, locks, b.row, own)
	finished := writeAll(t, b.db, 32, seed, *stressFor)
	eventually(t, "the writers have begun", func() bool {
		var n int
		err := b.plain.QueryRow(t.Context(), "SELECT count(*) FROM (SELECT FROM outbox_event LIMIT 100) e").Scan(&n)
		return err == nil && n == 100
	})
	l := newLedger()
	readAll(b, r, l, rand.New(rand.NewPCG(seed, 1<<32)), finished)
	all := committed(t, b.plain)
	for _, fault := range l.faults(all) {
		t.Error(fault)
	}
	t.Logf("%d events, %+v, %d questions", len(all), r.count, r.locks.asked)
}

// readAll reads until the writers have finished and nothing comes any more.
func readAll(b *bench, r *reader, l *ledger, rnd *rand.Rand, finished func() bool) {
	b.Helper()
	if err := r.Start(b.Context(), holding{}, allLanes); err != nil {
		b.Fatal(err)
	}
	deadline := time.Now().Add(*stressFor + await.Limit)
	for idle := 0; idle < 3; {
		over := finished()
		batch, err := r.Read(b.Context(), 50+rnd.IntN(500))
		if err != nil {
			b.Fatal(err)
		}
		fresh := l.take(batch.Events)
		b.settle(fresh)
		if rnd.IntN(20) == 0 && !over {
			r.Reread([]relay.Key{key(fmt.Sprint("key ", rnd.IntN(50)))}, nil, nil)
		}
		idle++
		if !over || len(batch.Events) > 0 || batch.More || len(r.holes.groups) > 0 {
			idle = 0
		}
		if time.Now().After(deadline) {
			b.Fatalf("the reader does not come to an end: %d holes", len(r.holes.groups))
		}
	}
}

func (b *bench) settle(refs []relay.Ref) {
	b.Helper()
	if len(refs) == 0 {
		return
	}
	ids := make([]int64, len(refs))
	for i, ref := range refs {
		ids[i] = ref.ID
	}
	b.exec("UPDATE outbox_event SET published_at = now() WHERE id = ANY ($1)", ids)
}

// Each fault has an interleaving that brings it out. The same one with a right reader must leave the ledger clean.
func TestStressCatchesBrokenReaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault fault
		play  func(*bench, *ledger)
	}{
		"holes are closed at once":             {faultCloseAtOnce, playLateCommit},
		"holes are looked at before the head":  {faultEarlierLook, playCommitBetweenLooks},
		"no look after the holders' change":    {faultNoLookAfterChange, playFillerBesideLongWriter},
		"no look after a holder has committed": {faultNoLookAfterChange, playHolderBesideLongWriter},
	} {
		for _, f := range []fault{0, c.fault} {
			t.Run(fmt.Sprintf("%s/fault %d", name, f), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.reader.fault = f
				b.start()
				l := newLedger()
				c.play(b, l)
				for range 5 {
					l.take(b.batch(100).Events)
				}
				faults := l.faults(committed(t, b.plain))
				if broken := len(faults) > 0; broken != (f != 0) {
					t.Errorf("faults found: %q", faults)
				}
			})
		}
	}
}

func playLateCommit(b *bench, l *ledger) {
	late := b.begin()
	late.insert("a")
	b.insert("c")
	l.take(b.batch(100).Events)
	late.commit()
}

func playCommitBetweenLooks(b *bench, l *ledger) {
	late := b.begin()
	late.insert("a")
	b.insert("c")
	l.take(b.batch(100).Events)
	act := sync.OnceFunc(func() {
		late.commit()
		b.insert("a")
	})
	b.betweenLooks = act
	l.take(b.batch(100).Events)
	act()
}

func playFillerBesideLongWriter(b *bench, l *ledger) {
	filler, long := b.begin(), b.begin()
	filler.insert("a")
	long.insert("long")
	b.insert("c")
	l.take(b.batch(100).Events)
	filler.commit()
	b.insert("a")
	l.take(b.batch(100).Events)
	long.commit()
}

func playHolderBesideLongWriter(b *bench, l *ledger) {
	filler, long := b.begin(), b.begin()
	filler.insert("a")
	long.insert("long")
	b.insert("c")
	for range 4 {
		l.take(b.batch(100).Events)
	}
	filler.commit()
	b.insert("a")
	l.take(b.batch(100).Events)
	long.commit()
}
