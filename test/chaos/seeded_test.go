//go:build integration && unix

package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestFaultsOfASeed is the laboratory itself. OUTBOX_CHAOS_SEED chooses the plan, OUTBOX_CHAOS_MINUTES how long it is, OUTBOX_CHAOS_NODES how
// many brokers there are; without them it is the short set that a change has to pass.
func TestFaultsOfASeed(t *testing.T) {
	if os.Getenv("OUTBOX_CHAOS_MINUTES") != "" {
		run := seeded{seed: uint64(number(t, "OUTBOX_CHAOS_SEED", 0)), nodes: int(number(t, "OUTBOX_CHAOS_NODES", 1))}
		run.length = time.Duration(number(t, "OUTBOX_CHAOS_MINUTES", 3) * float64(time.Minute))
		if run.seed == 0 {
			run.seed = uint64(time.Now().UnixNano()) % 1_000_000
		}
		run.test(t)
		return
	}
	for _, run := range []seeded{
		{seed: 1, nodes: 1, length: 30 * time.Second},
		{seed: 2, nodes: 3, length: 30 * time.Second},
	} {
		t.Run(fmt.Sprintf("seed %d on %d brokers", run.seed, run.nodes), run.test)
	}
}

func number(t *testing.T, name string, without float64) float64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return without
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q: want a number", name, text)
	}
	return n
}

// seeded is one run.
type seeded struct {
	seed   uint64
	nodes  int
	length time.Duration
}

func (s seeded) test(t *testing.T) {
	r := rand.New(rand.NewPCG(s.seed, 0))
	relays := 2 + r.IntN(slots-1)
	deletes := r.IntN(4) == 0
	p := newPlan(r, s.length, relays, s.nodes)
	t.Logf("seed %d, %d relays, %d brokers, settled rows are deleted: %v; again with: make chaos SEED=%d MINUTES=%g NODES=%d\n%s",
		s.seed, relays, s.nodes, deletes, s.seed, s.length.Minutes(), s.nodes, p)
	l := newLab(t, setup{nodes: s.nodes, relays: relays, topics: 2, keys: 20, deletes: deletes})
	for _, build := range p.builds() {
		shared.binary(t, build)
	}
	for _, relay := range l.relays {
		relay.start()
	}
	stop := l.writers(12, 10*time.Millisecond, s.seed)
	l.await("the first transactions are published", func() bool {
		return l.count("SELECT count(*) FROM outbox.source WHERE first_published_at IS NOT NULL") > 0
	})
	ended := l.tell(s.length)
	l.follow(p)
	stop()
	ended()
	report := l.judge()
	t.Logf("seed %d: %s\nledger: %s\nwarnings: %s\n%s", s.seed, report.Summary(), l.ledger, l.messages(), l.progress())
	for _, c := range l.complaints() {
		t.Error(c)
	}
	if !report.OK() {
		t.Errorf("seed %d\n%s", s.seed, report)
	}
}
