package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// shape is what the catalog says of the outbox table.
type shape struct {
	// columns are the names of those that the relay reads, and are there.
	columns []string
	headers bool
	// identity is pg_attribute.attidentity of id: a (always), d (by default) or empty.
	identity string
	// sequence is what id draws from.
	sequence pg.Sequence
	// indexed tells that the partial index for what is unpublished is there and valid.
	indexed     bool
	partitioned bool
	// secured tells that row-level security applies to the role, with so many policies.
	secured  bool
	policies int
	// role is the current one, quoted. What it may do: read the rows, and mark or delete them.
	role                        string
	canRead, canMark, canDelete bool
}

// needed are the columns of the contract with the services that the relay reads or writes.
var needed = [...]string{"id", "event_id", "event_type", "payload", "topic", "partition_key", "created_at", "published_at"}

// indexedOf is an expression that tells whether a table, given as an expression for its oid or quoted name, has a usable partial index
// for what is unpublished.
func indexedOf(table string) string {
	return `EXISTS (
    SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = ` + table + `::regclass AND i.indisvalid AND i.indisready AND a.attname = 'id'
      AND pg_get_expr(i.indpred, i.indrelid) = '(published_at IS NULL)')`
}

// readShape finds the sequence by what id's default depends on: pg_get_serial_sequence knows only a sequence that the column owns.
func readShape(ctx context.Context, q pg.Querier, table pg.Table) (shape, error) {
	var oid uint32
	err := q.QueryRow(ctx, pg.TableSQL, table.Schema, table.Name).Scan(&oid)
	if errors.Is(err, pgx.ErrNoRows) {
		return shape{}, pg.UnknownTable(ctx, q, table)
	}
	if err != nil {
		return shape{}, fmt.Errorf("look for the table: %w", err)
	}
	var s shape
	err = q.QueryRow(ctx, `
SELECT array(SELECT attname::text FROM pg_attribute WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped),
       coalesce((SELECT attidentity::text FROM pg_attribute WHERE attrelid = $1::oid AND attname = 'id'), ''),
       `+indexedOf("$1::oid")+`,
       (SELECT relkind = 'p' FROM pg_class WHERE oid = $1::oid),
       row_security_active($1::oid),
       (SELECT count(*) FROM pg_policy WHERE polrelid = $1::oid AND polcmd IN ('r', '*')),
       quote_ident(current_user),
       has_table_privilege($1::oid, 'SELECT'),
       has_table_privilege($1::oid, 'DELETE'),
       has_table_privilege($1::oid, 'UPDATE') OR EXISTS (
           SELECT FROM pg_attribute WHERE attrelid = $1::oid AND attname = 'published_at' AND NOT attisdropped
              AND has_column_privilege($1::oid, attnum, 'UPDATE'))`, oid).
		Scan(&s.columns, &s.identity, &s.indexed, &s.partitioned, &s.secured, &s.policies, &s.role, &s.canRead, &s.canDelete, &s.canMark)
	if err != nil {
		return shape{}, fmt.Errorf("read the table's shape: %w", err)
	}
	s.headers = slices.Contains(s.columns, "headers")
	s.sequence, err = pg.ReadSequence(ctx, q, oid)
	return s, err
}

// check returns what makes relaying impossible, all of it.
func (s shape) check(table pg.Table, mode SettleMode) error {
	var problems []error
	var missing []string
	for _, name := range needed {
		if !slices.Contains(s.columns, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		problems = append(problems, fmt.Errorf("the table lacks the columns %s: see the schema in docs/schema.md", strings.Join(missing, ", ")))
	}
	if !s.canRead {
		problems = append(problems, fmt.Errorf("the role may not read the table; run: GRANT SELECT ON TABLE %s TO %s", table.SQL(), s.role))
	}
	if s.secured && s.policies == 0 {
		problems = append(problems, fmt.Errorf("row-level security hides every row of the table from the role; run: ALTER ROLE %s BYPASSRLS, "+
			"or: CREATE POLICY relay ON %s TO %s USING (true)", s.role, table.SQL(), s.role))
	}
	if mode == Mark && !s.canMark {
		problems = append(problems, fmt.Errorf("the role may not mark events; run: GRANT UPDATE (published_at) ON TABLE %s TO %s", table.SQL(), s.role))
	}
	if mode == Delete && !s.canDelete {
		problems = append(problems, fmt.Errorf("the role may not delete events; run: GRANT DELETE ON TABLE %s TO %s", table.SQL(), s.role))
	}
	switch {
	case s.sequence.Name == "" && slices.Contains(s.columns, "id"):
		problems = append(problems, errors.New("the column id draws from no sequence: order is the order of ids, so the database must give them; "+
			"make it GENERATED ALWAYS AS IDENTITY"))
	case s.sequence.Name != "" && !s.sequence.CanRead:
		problems = append(problems, fmt.Errorf("the role may not read the id's sequence; run: GRANT SELECT ON SEQUENCE %s TO %s", s.sequence.Name, s.role))
	case s.sequence.Name != "" && s.sequence.Increment < 1:
		problems = append(problems, fmt.Errorf("the sequence %s counts down; %s", s.sequence.Name, mendedBy(table)))
	}
	if len(problems) == 0 {
		return nil
	}
	return pg.Misconfigured(errors.Join(problems...))
}

// checkAggregates returns what keeps aggregates from being parked.
func (s shape) checkAggregates(scope relay.ParkScope) error {
	var missing []string
	for _, name := range aggregateColumns {
		if scope == relay.ScopeAggregate && !slices.Contains(s.columns, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return pg.Misconfigured(fmt.Errorf("the table lacks the columns %s, by which park-scope aggregate knows what belongs together: add them (docs/schema.md), or leave the park-scope at key",
		strings.Join(missing, ", ")))
}

// warnings returns what the relay works with, one sentence each.
func (s shape) warnings(table pg.Table) []string {
	var w []string
	if !s.indexed {
		w = append(w, missingIndex(table, s.partitioned))
	}
	if s.secured {
		w = append(w, fmt.Sprintf("Row-level security applies to the role at %s: events that its policies hide are never published, and those that it may "+
			"not change are published again after each restart; run: ALTER ROLE … BYPASSRLS.", table))
	}
	if s.identity != "a" {
		w = append(w, fmt.Sprintf("%s.id is %s: a writer can give an id of its own, and its event comes late or out of order; %s.", table, idKind(s), mendedBy(table)))
	}
	if s.sequence.Cache > 1 {
		w = append(w, fmt.Sprintf("The sequence %s has CACHE %d: sessions draw ids in advance, so events of one key can be out of order and late; %s.",
			s.sequence.Name, s.sequence.Cache, mendedBy(table)))
	}
	if s.sequence.Increment > 1 {
		w = append(w, fmt.Sprintf("The sequence %s has INCREMENT %d: each id between is waited for in vain; %s.", s.sequence.Name, s.sequence.Increment, mendedBy(table)))
	}
	if s.sequence.Cycle {
		w = append(w, fmt.Sprintf("The sequence %s has CYCLE: after the last id order turns; %s.", s.sequence.Name, mendedBy(table)))
	}
	return w
}

func idKind(s shape) string {
	if s.identity == "d" {
		return "GENERATED BY DEFAULT"
	}
	return "a serial"
}

// mendedBy sends to migrate for what mends it: that waits for a lock, behind which writers wait, and some of it refuses writers; so it is no text for a log.
func mendedBy(table pg.Table) string {
	return fmt.Sprintf("outbox migrate status --table %s prints the statements that mend it while the table is in use", advice.Word(table.String()))
}

// missingIndex says how to make it; PostgreSQL cannot do so concurrently for all partitions of a table at once.
func missingIndex(table pg.Table, partitioned bool) string {
	concurrently := "CONCURRENTLY "
	if partitioned {
		concurrently = ""
	}
	return fmt.Sprintf("%s has no index for what is unpublished, so reading it costs more the longer it gets; "+
		"run: CREATE INDEX %s%s ON %s (id) WHERE published_at IS NULL.", table, concurrently, indexName(table), table.SQL())
}

// indexName is the name that the contract with the services gives to the index; PostgreSQL chooses one where that is too long.
func indexName(table pg.Table) string {
	name := "ix_" + table.Name + "_unpublished"
	if len(name) > pg.MaxName {
		return ""
	}
	return pgx.Identifier{name}.Sanitize()
}

// movesInVain warns of a policy that the role may not carry out, before an event needs it.
func movesInVain(table pg.Table, role string) string {
	return fmt.Sprintf("The role %s may not delete from %s, and a policy moves events that cannot be published out of it: their keys will be parked instead; "+
		"as the owner of the table run what this prints: %s.", role, table, advice.Grants(table.String(), role, "--delete"))
}
