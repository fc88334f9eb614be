package postgres

import (
	"testing"
	"time"
)

func TestFirstEventOfAFreshTableIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	b.insert("a")
	b.wantRead(1)
}

func TestFirstEventAfterATruncateIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(3)
	b.exec("TRUNCATE outbox_event")
	b.start()
	b.wantRead()
	b.insert("a")
	b.wantRead(4)
}

func TestFirstEventOfARestartedTableIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(3)
	b.exec("TRUNCATE outbox_event RESTART IDENTITY")
	b.start()
	b.wantRead()
	b.insert("a")
	b.wantRead(1)
}

// https://github.com/ThreeDotsLabs/watermill/issues/311
func TestLateCommitOfALowerIDIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	late := b.begin()
	late.insert("a")
	b.insert("c")
	b.wantRead(2)
	b.wantRead()
	b.wantRead()
	late.commit()
	b.wantRead(1)
	b.wantNoHoles()
}

// A holds key a and id 1, C commits id 2, A commits, and B of key a commits id 3 between two reads: B is visible, so A must come first.
func TestLateCommitComesBeforeTheNextEventOfItsKey(t *testing.T) {
	t.Parallel()
	for name, readsBefore := range map[string]int{"hole just seen": 1, "asked": 2, "skipped": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.start()
			b.wantRead()
			late := b.begin()
			late.insert("a")
			b.insert("c")
			b.wantRead(2)
			for range readsBefore - 1 {
				b.wantRead()
			}
			late.commit()
			b.insert("a")
			b.wantRead(1, 3)
			b.wantNoHoles()
		})
	}
}

// The filler ends after the read that saw the hole and before pg_locks is asked, while another transaction stays open: the answer does not
// name the filler, so a look is due although all that it names are running.
func TestFillerThatEndsBeforeTheQuestionIsFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	filler, long := b.begin(), b.begin()
	filler.insert("a")
	long.insert("long")
	b.insert("c")
	b.wantRead(3)
	filler.commit()
	b.insert("a")
	b.wantRead(1, 4)
	long.commit()
	b.wantRead(2)
	b.wantNoHoles()
}

// The filler ends between the question and the read.
func TestFillerThatEndsAfterTheQuestionIsFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	filler := b.begin()
	filler.insert("a")
	b.insert("c")
	b.wantRead(2)
	b.wantRead()
	b.wantRead()
	if g := b.holes.groups[0]; !g.skippable() {
		t.Fatalf("the hole is looked at in every read: %s", b)
	}
	b.reader.locks.every = 1 << 60
	filler.commit()
	b.insert("a")
	b.wantRead(1, 3)
	if b.count.redone == 0 {
		t.Error("the read was not done again, so it had looked at a hole whose holder was running")
	}
	b.wantNoHoles()
}

// https://github.com/prooph/pdo-event-store/pull/189
func TestRolledBackIDStallsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	gone := b.begin()
	gone.insert("a")
	gone.rollback()
	b.insert("a")
	b.wantRead(2)
	slow := b.begin()
	slow.insert("s")
	b.insert("a")
	b.wantRead(4)
	for range 20 {
		b.wantRead()
	}
	slow.commit()
	b.wantRead(3)
	b.wantNoHoles()
}

// The trigger runs after the id was drawn and before the row has an xid: waiting for xids would lose the event.
func TestSlowTriggerHoldsItsHoleOpen(t *testing.T) {
	t.Parallel()
	for range 10 {
		if slowTriggerWithoutXid(t) {
			return
		}
	}
	t.Fatal("every time the writer had an xid before its row")
}

// slowTriggerWithoutXid tells whether the writer had no xid. The first id that the sequence gives after a checkpoint is logged, and that takes one; when there is a
// checkpoint is the server's affair.
func slowTriggerWithoutXid(t *testing.T) bool {
	b := newBench(t)
	b.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.partition_key = 'slow' THEN PERFORM pg_advisory_xact_lock_shared(1); END IF; RETURN NEW; END $$;
CREATE TRIGGER wait BEFORE INSERT ON outbox_event FOR EACH ROW EXECUTE FUNCTION wait()`)
	b.insert("z")
	b.start()
	b.wantRead(1)
	brake := b.begin()
	brake.exec("SELECT pg_advisory_xact_lock(1)")
	slow := b.begin()
	done := make(chan error, 1)
	ctx := t.Context()
	go func() {
		_, err := slow.conn.Exec(ctx, insertSQL, "00000000-0000-0000-0000-000000000001", "slow")
		done <- err
	}()
	eventually(t, "the trigger waits", func() bool {
		var waits bool
		if err := b.plain.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits
	})
	b.insert("c")
	b.wantRead(3)
	for range 10 {
		b.wantRead()
	}
	without := true
	for _, xid := range b.holes.groups[0].waits {
		without = without && xid == 0
	}
	brake.commit()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.wantRead()
	slow.commit()
	b.insert("slow")
	b.wantRead(2, 4)
	b.wantNoHoles()
	return without
}

// The transaction with the lower xid draws the higher id.
func TestOrderIsThatOfIDsNotOfXids(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	first, second := b.begin(), b.begin()
	first.exec("SELECT pg_current_xact_id()")
	second.exec("SELECT pg_current_xact_id()")
	second.insert("a")
	second.commit()
	first.insert("a")
	first.commit()
	b.wantRead(1, 2)
}

func TestOpenTransactionElsewhereChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec("CREATE TABLE business (a int)")
	b.start()
	b.wantRead()
	other := b.begin()
	other.exec("INSERT INTO business VALUES (1)")
	other.exec("SAVEPOINT s")
	other.exec("INSERT INTO business VALUES (2)")
	gone := b.begin()
	gone.insert("a")
	gone.rollback()
	b.insert("a")
	b.wantRead(2)
	b.wantNoHoles()
}

// https://github.com/Trendyol/go-pq-cdc/issues/166
// The databases come from one template, so the other table even has the same number.
func TestOpenWriterOfAnotherDatabaseHoldsNoHoleOpen(t *testing.T) {
	t.Parallel()
	b, other := newBench(t), newBench(t)
	b.start()
	b.wantRead()
	elsewhere := other.begin()
	elsewhere.insert("a")
	gone := b.begin()
	gone.insert("a")
	gone.rollback()
	b.insert("a")
	b.wantRead(2)
	b.wantNoHoles()
}

func TestRolledBackSavepointIsNeverReadAndHoldsNothingUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	w := b.begin()
	w.insert("a")
	w.exec("SAVEPOINT s")
	w.insert("a")
	w.exec("ROLLBACK TO s")
	w.exec("SAVEPOINT s")
	w.insert("a")
	w.exec("RELEASE s")
	b.insert("c")
	b.wantRead(4)
	b.wantRead()
	w.commit()
	b.wantRead(1, 3)
	b.wantNoHoles()
}

// The xids of savepoints are in no snapshot. To take one for the transaction's own would close its holes.
func TestSavepointsDoNotHideTheirTransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	w := b.begin()
	for range 5 {
		w.exec("SAVEPOINT s")
		w.insert("a")
	}
	b.insert("c")
	b.wantRead(6)
	for range 5 {
		b.wantRead()
	}
	w.commit()
	b.wantRead(1, 2, 3, 4, 5)
	b.wantNoHoles()
}

func TestPreparedTransactionIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	w := b.begin()
	w.insert("a")
	b.insert("c")
	b.wantRead(2)
	b.wantRead()
	w.exec("PREPARE TRANSACTION 'a'")
	for range 5 {
		b.wantRead()
	}
	b.exec("COMMIT PREPARED 'a'")
	b.wantRead(1)
	b.wantNoHoles()
}

func TestTransactionPreparedBeforeStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.begin()
	w.insert("a")
	w.exec("PREPARE TRANSACTION 'b'")
	b.start()
	b.wantRead()
	b.insert("c")
	b.wantRead(2)
	b.exec("COMMIT PREPARED 'b'")
	b.insert("a")
	b.wantRead(1, 3)
	b.wantNoHoles()
}

// ShareUpdateExclusiveLock (VACUUM) and ShareLock (CREATE INDEX) are no writers'.
func TestMaintenanceHoldsNoHoleOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	gone := b.begin()
	gone.insert("a")
	b.insert("c")
	gone.rollback()
	for _, mode := range []string{"SHARE UPDATE EXCLUSIVE", "ROW SHARE"} {
		w := b.begin()
		w.exec("LOCK TABLE outbox_event IN " + mode + " MODE")
		defer w.commit()
	}
	b.wantRead(2)
	b.wantNoHoles()
}

func TestTenThousandEventsOfOneTransactionComeInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	big := b.begin()
	big.exec(`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', 'a', 't', '{}', 'x', 'a' FROM generate_series(1, 10000)`)
	b.insert("c")
	b.wantRead(10001)
	big.commit()
	b.wantDrained(upTo(1, 10000)...)
	b.wantNoHoles()
	b.exec(`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', 'a', 't', '{}', 'x', 'a' FROM generate_series(1, 10000)`)
	b.wantDrained(upTo(10002, 20001)...)
}

// The source's own settler takes the same lock as a writer, and fills no hole.
func TestOwnConnectionsHoldNoHoleOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.wantRead()
	own := b.begin()
	own.exec("LOCK TABLE outbox_event IN ROW EXCLUSIVE MODE")
	b.locks.own = append(b.locks.own, int32(own.conn.PgConn().PID()))
	gone := b.begin()
	gone.insert("a")
	gone.rollback()
	b.insert("c")
	b.wantRead(2)
	b.wantNoHoles()
}

// fillLater draws an id for a transaction that has the lock and no xid yet, as with a slow trigger, and returns what inserts the row. Another session draws it: the first draw after a
// checkpoint, and there are some while other tests make databases, is logged, and that takes an xid.
func (b *bench) fillLater(w *writer, key string) (fill func()) {
	w.t.Helper()
	w.exec("LOCK TABLE outbox_event IN ROW EXCLUSIVE MODE")
	var id int64
	if err := b.plain.QueryRow(w.t.Context(), "SELECT nextval('outbox_event_id_seq')").Scan(&id); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.t.Helper()
		w.exec(`INSERT INTO outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
OVERRIDING SYSTEM VALUE VALUES ($1, gen_random_uuid(), 'Order', 'a', 't', '{}', 'order-service.order', $2)`, id, key)
	}
}

// A transaction without an xid may get one and commit at any time, unseen by the snapshots: between two reads without a question, so its
// holes are looked at in every read, and before a question that does not name it any more, so a look is due after that.
func TestFillerWithoutXidIsFound(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]time.Duration{"asked again": 0, "not asked again": 1 << 60} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.insert("z")
			b.start()
			b.wantRead(1)
			filler, long := b.begin(), b.begin()
			fill := b.fillLater(filler, "a")
			long.insert("long")
			b.insert("c")
			b.wantRead(4)
			for range 3 {
				b.wantRead()
			}
			if g := b.holes.groups[0]; g.skippable() || len(g.waits) != 2 {
				t.Fatalf("want two holders, one without an xid: %s", b)
			}
			b.locks.every = every
			fill()
			filler.commit()
			b.insert("a")
			b.wantRead(2, 5)
			b.locks.every = 0
			long.commit()
			b.wantRead(3)
			b.wantNoHoles()
		})
	}
}
