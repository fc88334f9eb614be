package migrate

import (
	"fmt"
	"strings"
)

// GrantsOwner returns the statements that let a role run [Up] in a database that is not its own: it may make schemas there, and tables in the schema of the
// outbox table, and owns what it makes. The owner of the database, or a superuser, has to run them. A table that another role owns already, only that role, or a
// member of it, can have migrated.
func GrantsOwner(config Config, role string) (string, error) {
	s, err := config.checkRole(role)
	if err != nil {
		return "", err
	}
	schema := literal(quote(s.table.Schema))
	return comment("What the owner of %s needs, for role %s; run it as the owner of the database.", s.table, quote(role)) + "\n" + doBlock(fmt.Sprintf(`BEGIN
    EXECUTE format('GRANT CREATE ON DATABASE %%I TO %%I', current_database(), %[1]s);
    IF to_regnamespace(%[2]s) IS NOT NULL THEN
        EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %%s TO %%I', %[2]s, %[1]s);
    END IF;
END`, literal(role), schema)) + "\n", nil
}

// GrantsViewer returns the statements that let a role look, with every command that changes nothing. It reads payloads too, and what has failed and why.
func GrantsViewer(config Config, role string) (string, error) {
	s, err := config.checkRole(role)
	if err != nil {
		return "", err
	}
	to := quote(role)
	lines := []string{
		comment("What a viewer of %s needs, for role %s.", s.table, to),
		grant("USAGE", "SCHEMA "+quote(s.table.Schema), to),
		grant("SELECT", s.table.SQL(), to),
		s.grantSequence("SELECT", role),
		grant("USAGE", "SCHEMA "+stateSchema, to),
	}
	for _, table := range viewed() {
		lines = append(lines, grant("SELECT", stateSchema+"."+table, to))
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// viewed are the tables of the schema outbox, all of them.
func viewed() []string {
	return []string{
		"migration", "source", "lane", "relay", "parked_key", "held_topic", "failure", "dead_event", "request", "pause", "job", "retention", "audit",
		"redriven", "inbox", "inbox_failure",
	}
}
