package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/relay"
)

// questions are all shapes of a read, near the end of a large table.
func questions(b *bench, rows int64) map[string]*question {
	spread := make([]span, 0, 200)
	for i := range int64(200) {
		spread = append(spread, span{1 + i*rows/200, 1 + i*rows/200})
	}
	released := newWalk(8)
	released.add([]relay.Key{key("key 7")}, []string{"other-service.topic"}, nil)
	gained := newWalk(8)
	gained.add(nil, nil, []int32{5})
	end := &group{below: rows, since: 3}
	return map[string]*question{
		"head":   {limit: 500},
		"holes":  {limit: 500, look: []*group{{spans: spread}}},
		"ranges": {limit: 500, look: []*group{{spans: []span{{10, 10_000}, {20_000, 90_000}}}}},
		"below":  {limit: 500, look: []*group{end}},
		"walk":   {limit: 500, walk: released},
		"gained": {limit: 500, walk: gained},
		"beyond": {limit: 500, beyond: true},
	}
}

// The plans must be by index with no statistics at all, with fresh ones, and when few or most of the rows are unpublished.
func TestReadsNeverScanTheTable(t *testing.T) {
	t.Parallel()
	const rows = 200_000
	b := newBench(t)
	b.exec("ALTER TABLE outbox_event SET (autovacuum_enabled = off)")
	b.start()
	b.fill(rows)
	b.parked, b.heldTopics = true, []string{"held-service.topic"}
	for _, state := range []struct{ name, sql string }{
		{"all unpublished, no statistics", "SELECT 1"},
		{"all unpublished, analyzed", "VACUUM ANALYZE outbox_event"},
		{"few unpublished, old statistics", fmt.Sprintf("UPDATE outbox_event SET published_at = now() WHERE id < %d", rows-100)},
		{"few unpublished, analyzed", "ANALYZE outbox_event"},
	} {
		b.exec(state.sql)
		for _, lanes := range [][]int32{allLanes, {1, 5}} {
			b.lanes = newLaneSet(8, lanes)
			for name, q := range questions(b, rows) {
				b.cursor, b.pos = rows-50, rows-50
				b.wantNoScan(fmt.Sprintf("%s, %s, %d lanes", state.name, name, len(lanes)), q)
			}
			b.cursor, b.pos = rows, 0
			b.wantNoScan(fmt.Sprintf("%s, start, %d lanes", state.name, len(lanes)), &question{limit: 500})
		}
	}
}

func (b *bench) wantNoScan(what string, q *question) {
	b.Helper()
	plan := b.explain(b.build(q), "")
	if strings.Contains(plan, "Seq Scan on outbox_event ") || strings.Contains(plan, "Sort Key: e") || strings.Contains(plan, "Bitmap") {
		b.Errorf("%s: the plan scans or sorts the table:\n%s", what, plan)
	}
}

// explain returns the plan of a statement with its parameters.
func (b *bench) explain(s *statement, options string) string {
	b.Helper()
	e := &statement{args: s.args, oids: s.oids}
	e.text.WriteString("EXPLAIN " + options + " " + s.text.String())
	var plan strings.Builder
	err := b.reader.db.Run(b.Context(), func(ctx context.Context, conn *pgx.Conn) error {
		return e.run(ctx, conn, func(row [][]byte) error {
			plan.Write(row[0])
			plan.WriteByte('\n')
			return nil
		})
	})
	if err != nil {
		b.Fatalf("%s: %v", e.text.String(), err)
	}
	return plan.String()
}
