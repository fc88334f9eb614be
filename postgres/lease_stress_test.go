package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

// leaseAuditSQL judges every change of a lane when it is made, by the database's clock: a lane is not taken before it has run out, and its epoch
// rises with every change of owner and never falls.
const leaseAuditSQL = `CREATE TABLE broken (what text, was outbox.lane, is_now outbox.lane);
CREATE TABLE takes (lane integer);
CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.epoch < OLD.epoch THEN INSERT INTO broken VALUES ('the epoch fell', OLD, NEW); END IF;
    IF NEW.owner IS NOT NULL AND NEW.owner IS DISTINCT FROM OLD.owner THEN
        INSERT INTO takes VALUES (NEW.lane);
        IF NEW.epoch = OLD.epoch THEN INSERT INTO broken VALUES ('another owner in the same epoch', OLD, NEW); END IF;
        IF OLD.owner IS NOT NULL AND OLD.expires_at > clock_timestamp() THEN INSERT INTO broken VALUES ('taken before it ran out', OLD, NEW); END IF;
    END IF;
    RETURN NEW; END $$;
CREATE TRIGGER judge BEFORE UPDATE ON outbox.lane FOR EACH ROW EXECUTE FUNCTION judge()`

// contender is a relay that does at random what a relay does with its lanes.
type contender struct {
	source *Source
	rand   *rand.Rand
	claim  relay.Claim
	lost   int
}

// contenderTTL is short enough for leases to run out by themselves while others contend.
const contenderTTL = 30 * time.Millisecond

func (c *contender) turn(ctx context.Context) (err error) {
	switch n := c.rand.IntN(20); {
	case n < 8 || len(c.claim.Lanes) == 0 && n < 14:
		var claim relay.Claim
		if claim, err = c.source.Claim(ctx, c.claim.Owner, contenderTTL, c.claim); err == nil {
			c.claim = claim
		}
	case n < 14:
		err = c.source.Renew(ctx, c.claim, contenderTTL)
	case n < 17:
		err = c.giveBack(ctx)
	case n < 18:
		err = c.source.Leave(ctx, c.claim)
		c.claim.Lanes, c.claim.Epochs = nil, nil
	case n < 19:
		err = c.source.Report(ctx, c.claim.Owner, relay.Report{Standing: relay.Standing(c.rand.IntN(3)), Proved: time.Second})
	default:
		_, err = c.source.Look(ctx, c.claim.Owner)
	}
	if errors.Is(err, relay.ErrLeaseLost) {
		c.lost++
		c.claim.Lanes, c.claim.Epochs = nil, nil
		return nil
	}
	return err
}

// giveBack releases one of the lanes.
func (c *contender) giveBack(ctx context.Context) error {
	if len(c.claim.Lanes) == 0 {
		return nil
	}
	i := c.rand.IntN(len(c.claim.Lanes))
	back := relay.Claim{Owner: c.claim.Owner, Lanes: c.claim.Lanes[i : i+1], Epochs: c.claim.Epochs[i : i+1]}
	err := c.source.Release(ctx, back)
	c.claim.Lanes, c.claim.Epochs = slices.Delete(slices.Clone(c.claim.Lanes), i, i+1), slices.Delete(slices.Clone(c.claim.Epochs), i, i+1)
	return err
}

// Nobody waits for anybody in a circle, and no lane has two owners: a deadlock would be an error of a turn.
func TestRelaysThatContendForLanesKeepTheRules(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, leaseAuditSQL)
	pool := db.Pool(t)
	seed := stressSeedOf(t)
	contenders := make([]*contender, 8)
	errs := make([]error, len(contenders))
	var wg sync.WaitGroup
	for i := range contenders {
		c := &contender{source: openSource(t, pool, Config{}), rand: rand.New(rand.NewPCG(seed, uint64(i))), claim: relay.Claim{Owner: owner(fmt.Sprint(i))}}
		contenders[i] = c
		wg.Go(func() {
			for turn := 0; turn < 100 && errs[i] == nil; turn++ {
				errs[i] = c.turn(t.Context())
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	same(t, "broken rules", queryOne[[]string](t, pool, `SELECT array(SELECT b::text FROM broken b)`), nil)
	lost := 0
	for _, c := range contenders {
		lost += c.lost
	}
	takes := queryOne[int](t, pool, `SELECT count(*) FROM takes`)
	t.Logf("%d takes, %d times a lease was lost", takes, lost)
	if takes < 20 {
		t.Errorf("lanes were taken %d times only", takes)
	}
	wantCovered(t, contenders)
}

// wantCovered lets the relays work on as they should, and checks that after a few rounds each lane has one owner and nobody more than its share.
func wantCovered(t *testing.T, contenders []*contender) {
	t.Helper()
	for _, c := range contenders {
		if err := c.source.Leave(t.Context(), c.claim); err != nil {
			t.Fatal(err)
		}
		c.claim.Lanes, c.claim.Epochs = nil, nil
	}
	for i := 1; i <= len(contenders); i++ {
		for range 3 {
			for _, c := range contenders[:i] {
				c.balance(t)
			}
		}
		var all []int32
		for _, c := range contenders[:i] {
			all = append(all, c.claim.Lanes...)
			if most := relay.Share(8, i); len(c.claim.Lanes) > most {
				t.Errorf("with %d relays one has %d lanes, its share is %d", i, len(c.claim.Lanes), most)
			}
		}
		slices.Sort(all)
		same(t, fmt.Sprintf("lanes of %d relays together", i), all, allLanes)
	}
}

// balance claims, and gives back what is above the share.
func (c *contender) balance(t *testing.T) {
	t.Helper()
	c.claim = reclaim(t, c.source, c.claim)
	report(t, c.source, c.claim.Owner, relay.StandingTried, 0)
	v := look(t, c.source, c.claim.Owner)
	if n := relay.Share(8, v.Relays); len(c.claim.Lanes) > n {
		back := relay.Claim{Owner: c.claim.Owner, Lanes: c.claim.Lanes[n:], Epochs: c.claim.Epochs[n:]}
		if err := c.source.Release(t.Context(), back); err != nil {
			t.Fatal(err)
		}
		c.claim.Lanes, c.claim.Epochs = c.claim.Lanes[:n], c.claim.Epochs[:n]
	}
}

// A relay that takes free lanes passes over one that somebody has locked: it neither waits for it nor gets it.
func TestALockedLaneIsPassedOver(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := openSource(t, db, Config{})
	tx := begin(t, db)
	if _, err := tx.Exec(t.Context(), `SELECT FROM outbox.lane WHERE lane = 2 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	c := claim(t, s, owner("a"))
	same(t, "lanes taken", c.Lanes, []int32{0, 1, 3, 4, 5, 6, 7})
	pg.Rollback(tx)
	same(t, "lanes taken afterwards", reclaim(t, s, c).Lanes, allLanes)
}

// The lease is renewed while another relay has already seen that it had run out.
func TestALaneThatIsRenewedInTheLastMomentIsNotTaken(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := openSource(t, db, Config{}), openSource(t, db, Config{})
	c := claim(t, a, owner("a"))
	expire(t, db)
	tx := begin(t, db)
	if _, err := tx.Exec(t.Context(), `UPDATE outbox.lane SET expires_at = clock_timestamp() + interval '1 h'`); err != nil {
		t.Fatal(err)
	}
	same(t, "lanes of b", reclaim(t, b, relay.Claim{Owner: owner("b")}).Lanes, nil)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Renew(t.Context(), c, ttl); err != nil {
		t.Error(err)
	}
}

func begin(t *testing.T, db *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pg.Rollback(tx) })
	return tx
}
