package migrate

import (
	"fmt"
	"strings"
)

// Grants returns the statements that give a role what a relay needs, and no more: it cannot write events, unless
// [Config].Restore is set, nor remove any, unless [Config].Delete is. The objects have to exist; run it as their owner.
func Grants(config Config, role string) (string, error) {
	s, err := config.checkRole(role)
	if err != nil {
		return "", err
	}
	return comment("What a relay of %s needs, for role %s.", s.table, quote(role)) + "\n" + s.relayGrants(role), nil
}

// relayGrants are the statements for a role. The sequence comes behind the table that it belongs to.
func (s settings) relayGrants(role string) string {
	var lines []string
	for i, r := range s.relayRights() {
		lines = append(lines, r.grantTo(quote(role)))
		if i == 1 {
			lines = append(lines, s.grantSequence("SELECT", role))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// GrantsOperator returns the statements that let a role use the operators' commands: those of the relay, because a command that finds no relay
// alive does its work, and to write down requests, pauses, jobs and the audit.
func GrantsOperator(config Config, role string) (string, error) {
	s, err := config.checkRole(role)
	if err != nil {
		return "", err
	}
	return comment("What an operator of %s needs, for role %s.", s.table, quote(role)) + "\n" + s.relayGrants(role) +
		grant("INSERT", "outbox.request", quote(role)) + "\n" +
		grant("SELECT, INSERT, UPDATE", "outbox.audit, outbox.job", quote(role)) + "\n" +
		grant("INSERT, DELETE", "outbox.pause", quote(role)) + "\n" +
		grant("SELECT, DELETE, UPDATE (handled_at)", "outbox.inbox", quote(role)) + "\n" +
		grant("SELECT", "outbox.inbox_failure", quote(role)) + "\n" +
		grant("SELECT, INSERT, UPDATE, DELETE", "outbox.redriven", quote(role)) + "\n", nil
}

// GrantsWriter returns the statements that let a role write events: INSERT into the table, and reading back the columns that an INSERT
// of an ORM returns. It cannot read what others have written there.
func GrantsWriter(config Config, role string) (string, error) {
	s, err := config.checkRole(role)
	if err != nil {
		return "", err
	}
	to, table := quote(role), s.table.SQL()
	return strings.Join([]string{
		comment("What a writer of events to %s needs, for role %s.", s.table, to),
		grant("USAGE", "SCHEMA "+quote(s.table.Schema), to),
		grant("INSERT, SELECT (id, event_id, created_at, published_at)", table, to),
		s.grantSequence("USAGE", role),
	}, "\n") + "\n", nil
}

// GrantsConsumer returns the statements that let a role handle events once: remember them, forget old ones, and count failures.
func GrantsConsumer(config Config, role string) (string, error) {
	s, err := config.checkRole(role)
	if err != nil {
		return "", err
	}
	to := quote(role)
	return strings.Join([]string{
		comment("What a consumer of events needs beside %s, for role %s.", s.table, to),
		grant("USAGE", "SCHEMA outbox", to),
		grant("SELECT, INSERT, DELETE", "outbox.inbox", to),
		grant("UPDATE (handled_at)", "outbox.inbox", to),
		grant("SELECT, INSERT, UPDATE, DELETE", "outbox.inbox_failure", to),
	}, "\n") + "\n", nil
}

func (c Config) checkRole(role string) (settings, error) {
	s, err := c.check()
	if err == nil {
		err = checkIdentifier("role", role)
	}
	if err != nil {
		return s, fmt.Errorf("print grants: %w", err)
	}
	return s, nil
}

func grant(rights, on, to string) string {
	return fmt.Sprintf("GRANT %s ON %s TO %s;", rights, on, to)
}

// grantSequence finds the sequence when the statement runs: its name is not fixed, and a table made by another tool may have any.
func (s settings) grantSequence(right, role string) string {
	oid := literal(s.table.SQL()) + "::regclass"
	return doBlock(fmt.Sprintf(`DECLARE s regclass;
BEGIN
    FOR s IN SELECT o.seqrelid::regclass FROM (%s) o LOOP
        EXECUTE format('GRANT %s ON SEQUENCE %%s TO %%I', s, %s);
    END LOOP;
END`, fmt.Sprintf(sequenceOf, oid), right, literal(role)))
}
