package migrate

import "fmt"

// createState makes the record of migrations; the rest of the schema outbox is in the numbered files.
const createState = `CREATE TABLE IF NOT EXISTS outbox.migration (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE outbox.migration IS 'The migrations of this schema that were applied, with the SHA-256 of their text.';
`

// createTable is the contract with the services, section by section as the documentation shows it.
func (s settings) createTable() string {
	headers := ""
	if s.Headers {
		headers = ",\n    headers        jsonb"
	}
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %[1]s (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid         NOT NULL UNIQUE,
    aggregate_type text         NOT NULL,
    aggregate_id   text         NOT NULL,
    event_type     text         NOT NULL,
    payload        jsonb        NOT NULL,
    topic          text         NOT NULL,
    partition_key  text         NOT NULL,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    published_at   timestamptz%[2]s
);
`, s.table.SQL(), headers)
}

// createIndex is the index that every look for unpublished events uses.
func (s settings) createIndex() string {
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (id) WHERE published_at IS NULL;\n", quote(s.table.IndexName()), s.table.SQL())
}
