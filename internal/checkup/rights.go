package checkup

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/pg"
)

// powersSQL are the role of the connection and those by which relays are connected, as far as they may be seen.
const powersSQL = `
SELECT r.rolname::text, r.rolsuper, pg_has_role(r.oid, c.relowner, 'USAGE')
FROM pg_class c, pg_roles r
WHERE c.oid = $1::text::regclass AND (r.rolname = current_user
    OR r.rolname IN (SELECT usename FROM pg_stat_activity a WHERE datname = current_database() AND ` + pg.OfRelay + `))
ORDER BY 1`

// writersExcessSQL are roles that write events and no relay's, with what they may do beyond that. A right on some columns counts as one. What a role owns it may do anyway.
const writersExcessSQL = `
SELECT CASE WHEN x.grantee = 0 THEN '' ELSE pg_get_userbyid(x.grantee)::text END,
    string_agg(DISTINCT x.privilege_type, ', ' ORDER BY x.privilege_type) FILTER (WHERE x.privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE'))
FROM pg_class c CROSS JOIN LATERAL (SELECT grantee, privilege_type FROM aclexplode(c.relacl)
    UNION ALL SELECT g.grantee, g.privilege_type FROM pg_attribute a, aclexplode(a.attacl) g WHERE a.attrelid = c.oid AND NOT a.attisdropped) x
WHERE c.oid = $1::text::regclass AND x.grantee <> c.relowner
  AND (x.grantee = 0 OR NOT has_table_privilege(x.grantee, (SELECT l.oid FROM pg_class l JOIN pg_namespace n ON n.oid = l.relnamespace
      WHERE n.nspname = 'outbox' AND l.relname = 'lane'), 'UPDATE'))
GROUP BY x.grantee
HAVING bool_or(x.privilege_type = 'INSERT') AND bool_or(x.privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE'))
ORDER BY 1`

// excess finds roles that may do more than they need.
func (c checks) excess(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	rows, err := tx.Query(ctx, powersSQL, c.table.SQL())
	if err != nil {
		return nil, "", fmt.Errorf("look at the relays' roles: %w", err)
	}
	var role, more string
	var super, owner bool
	_, err = pgx.ForEachRow(rows, []any{&role, &super, &owner}, func() error {
		if super || owner {
			found = append(found, c.tooPowerful(role, super))
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("look at the relays' roles: %w", err)
	}
	if rows, err = tx.Query(ctx, writersExcessSQL, c.table.SQL()); err != nil {
		return nil, "", fmt.Errorf("look at the writers' rights: %w", err)
	}
	_, err = pgx.ForEachRow(rows, []any{&role, &more}, func() error {
		found = append(found, c.writerExcess(role, more))
		return nil
	})
	return found, "", err
}

func (c checks) tooPowerful(role string, super bool) Symptom {
	s := Symptom{
		Code: "rights-owner", Text: fmt.Sprintf("the role %s owns the table, or is a member of the role that does", role),
		Why:  "a relay that works by it, or whoever gets hold of its password, can drop or rewrite the events",
		Mend: "give the relay a role of its own, with what this prints: " + advice.Grants(c.table.String(), "relay"),
	}
	if super {
		s.Code, s.Text = "rights-superuser", fmt.Sprintf("the role %s is a superuser", role)
		s.Why = "a relay that works by it, or whoever gets hold of its password, can do anything to the server"
	}
	return s
}

func (c checks) writerExcess(role, more string) Symptom {
	shown, grantee := "the role "+role, quoted(role)
	if role == "" {
		shown, grantee = "everybody (PUBLIC)", "PUBLIC"
	}
	return Symptom{
		Code: "writer-rights-excess", Text: fmt.Sprintf("%s writes events, and has %s on %s, too", shown, more, c.table),
		Why: "a service, or an ORM that cleans up, can change or remove events that are not published yet",
		Mend: "-- Not while a relay works by this role, such as the service's own during a migration to this one: it could settle nothing any more.\n" +
			fmt.Sprintf("REVOKE %s ON %s FROM %s;", more, c.table.SQL(), grantee),
	}
}
