package checkup

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// slotsSQL are replication slots that nobody reads, and those that keep more than $1 bytes of the server's log, or have lost what they were kept for. They are of all
// databases: the log is the server's, and a full disk stops each of them.
const slotsSQL = `
SELECT s.slot_name::text, s.slot_type, coalesce(s.database::text, ''), s.active, coalesce(s.wal_status, ''),
    s.kept::bigint, coalesce(greatest(age(s.xmin), age(s.catalog_xmin)), 0)::bigint
FROM (SELECT *, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) AS kept FROM pg_replication_slots WHERE NOT temporary) s
WHERE s.wal_status = 'lost' OR s.kept > $1 OR NOT s.active AND coalesce(s.kept::text, s.xmin::text, s.catalog_xmin::text) IS NOT NULL
ORDER BY s.kept DESC NULLS LAST, s.slot_name LIMIT 20`

// slots looks at who may fill the server's disk. A server in recovery is said elsewhere.
func (c checks) slots(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	var recovery bool
	if err := tx.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&recovery); err != nil || recovery {
		return nil, "", err
	}
	rows, err := tx.Query(ctx, slotsSQL, c.cfg.SlotLog)
	if err != nil {
		return nil, "", fmt.Errorf("look at replication slots: %w", err)
	}
	var s slot
	_, err = pgx.ForEachRow(rows, []any{&s.name, &s.kind, &s.database, &s.active, &s.status, &s.kept, &s.age}, func() error {
		found = append(found, s.symptom())
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("look at replication slots: %w", err)
	}
	return found, "", nil
}

type slot struct {
	name, kind, database, status string
	active                       bool
	// kept are the bytes of log from the slot's place to the present; nil when it has none.
	kept *int64
	// age is how many transactions ago the oldest began whose dead rows the slot keeps; 0 when it keeps none.
	age int64
}

func (s slot) symptom() Symptom {
	who := fmt.Sprintf("the %s replication slot %s", s.kind, s.name)
	if s.database != "" {
		who += " of database " + s.database
	}
	holds := s.holds()
	switch {
	case s.status == "lost":
		return Symptom{Code: "slot-lost", Text: who + " has lost what it was kept for: max_slot_wal_keep_size let it go",
			Why: "whoever read from it cannot go on, and has to begin anew", Mend: s.drop("have its reader begin anew with another slot")}
	case s.active:
		return Symptom{Code: "slot-behind", Text: who + " is read from, and far behind: " + holds,
			Why:  "a disk that is full of the log stops the database, and every event with it",
			Mend: "find out what keeps its reader: SELECT * FROM pg_stat_replication; and bound what a slot may keep: max_slot_wal_keep_size"}
	}
	return Symptom{Code: "slot-inactive", Text: who + " is read by nobody: " + holds,
		Why:  "it keeps ever more until somebody reads from it again; a disk that is full of the log stops the database, and every event with it",
		Mend: s.drop("start its reader")}
}

func (s slot) holds() string {
	var parts []string
	if s.kept != nil {
		parts = append(parts, fmt.Sprintf("it keeps %d MiB of the server's log", *s.kept>>20))
	}
	if s.age > 0 {
		parts = append(parts, fmt.Sprintf("it keeps dead rows of the last %s", plainCount(s.age, "transaction")))
	}
	return strings.Join(parts, ", and ")
}

// drop is no statement to be run as it is: it takes something away that only people know to be of no use.
func (s slot) drop(first string) string {
	return fmt.Sprintf("%s; or, only if nobody will ever read from the slot again, drop it, which cannot be taken back and makes a reader begin anew: "+
		"SELECT pg_drop_replication_slot('%s');", first, strings.ReplaceAll(s.name, "'", "''"))
}
