package migrate

import (
	"fmt"
	"strings"
)

// Print returns plain SQL that does what [Up] does on a database that has nothing yet, for people with a migration tool of their own. It
// sets no transaction: run it in one. It records the migrations, so that Up has nothing to do afterwards. An outbox table
// that is there already is left as it is.
func Print(config Config) (string, error) {
	s, err := config.check()
	if err != nil {
		return "", fmt.Errorf("print migrations: %w", err)
	}
	all, err := All()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(comment("The outbox table %s and the relay's state. Run it in one transaction.", s.table) + "\n")
	fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS %s;\n", stateSchema)
	b.WriteString(createState)
	for _, m := range all {
		fmt.Fprintf(&b, "\n%s\n%s\n%s", comment("%s", m), strings.TrimSpace(m.text), m.record())
	}
	b.WriteString("\n")
	if s.table.Schema != "public" {
		fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS %s;\n", quote(s.table.Schema))
	}
	b.WriteString(s.createTable() + s.createIndex() + s.insertSource(s.newLanes(), s.newDelivery()) + s.insertLanes())
	return b.String(), nil
}
