package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
)

// SettleMode says how an event that is in Kafka is written down.
type SettleMode int

// The ways to settle.
const (
	// Mark sets published_at and keeps the row. It is the default.
	Mark SettleMode = iota
	// Delete removes the row: the table stays small, and nothing is left to look at.
	Delete
)

func (m SettleMode) String() string {
	switch m {
	case Mark:
		return "mark"
	case Delete:
		return "delete"
	}
	return fmt.Sprintf("settle mode %d", int(m))
}

// Config says which table is relayed, and how. The zero value works for a table made by outbox migrate with its defaults.
type Config struct {
	// Table is the outbox table, schema-qualified and spelled as in the catalog (nothing is folded to lower case). A name that
	// holds a dot is put in double quotes: "my.schema"."Outbox". Without a schema it is in public. Default: public.outbox_event.
	Table string
	// Settle says what becomes of a published row: Mark (default) or Delete.
	Settle SettleMode
	// Moves tells that the relay's policies move events that cannot be published to outbox.dead_event: [Source.Open] then warns where the role may not delete rows.
	Moves bool
	// ApplicationName is shown in pg_stat_activity for the source's own connections. Default: outbox-relay.
	ApplicationName string
	// Logger receives what no method returns, such as a changed condition of the table. Default: slog.Default().
	Logger *slog.Logger
}

const (
	defaultTable           = "public.outbox_event"
	defaultApplicationName = "outbox-relay"
)

func (c Config) withDefaults() Config {
	if c.Table == "" {
		c.Table = defaultTable
	}
	if c.ApplicationName == "" {
		c.ApplicationName = defaultApplicationName
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	var problems []error
	if _, err := parseTable(c.Table); err != nil {
		problems = append(problems, err)
	}
	if c.Settle != Mark && c.Settle != Delete {
		problems = append(problems, fmt.Errorf("%s is unknown: use Mark or Delete", c.Settle))
	}
	return errors.Join(problems...)
}

// tableName names a table exactly as the catalog does.
type tableName struct{ schema, name string }

// String is the name for people and for the command line: parseTable reads it back.
func (t tableName) String() string { return plainName(t.schema) + "." + plainName(t.name) }

// sql is the name for a statement.
func (t tableName) sql() string { return pgx.Identifier{t.schema, t.name}.Sanitize() }

func plainName(s string) string {
	if strings.ContainsAny(s, `."`) {
		return pgx.Identifier{s}.Sanitize()
	}
	return s
}

// parseTable splits a table's name at the dot that is outside double quotes.
func parseTable(s string) (tableName, error) {
	first, rest, err := cutName(s)
	if err != nil {
		return tableName{}, fmt.Errorf("parse table %q: %w", s, err)
	}
	if rest == "" {
		return tableName{"public", first}, nil
	}
	second, rest, err := cutName(rest[1:])
	if err == nil && rest != "" {
		err = errors.New("it has more than two parts: write schema.table")
	}
	if err != nil {
		return tableName{}, fmt.Errorf("parse table %q: %w", s, err)
	}
	return tableName{first, second}, nil
}

// maxName is the longest name that PostgreSQL keeps whole, in bytes.
const maxName = 63

// cutName takes one name off s; rest is empty or begins with a dot.
func cutName(s string) (name, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexByte(s, '.')
		if end < 0 {
			end = len(s)
		}
		return checkName(s[:end], s[end:])
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != '"':
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == '"':
			b.WriteByte('"')
			i++
		case i+1 < len(s) && s[i+1] != '.':
			return "", "", errors.New("a dot must follow the closing quote")
		default:
			return checkName(b.String(), s[i+1:])
		}
	}
	return "", "", errors.New("a double quote is not closed")
}

func checkName(name, rest string) (string, string, error) {
	switch {
	case name == "":
		return "", "", errors.New("a part of the name is empty: write schema.table")
	case len(name) > maxName:
		return "", "", errors.New("a part of the name is longer than PostgreSQL's 63 bytes")
	case strings.ContainsRune(name, 0):
		return "", "", errors.New("the name holds a NUL byte")
	}
	return name, rest, nil
}
