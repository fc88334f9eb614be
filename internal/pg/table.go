package pg

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// DefaultTable is what migrate makes when it is told no name.
const DefaultTable = "public.outbox_event"

// Table names a table exactly as the catalog does.
type Table struct{ Schema, Name string }

// String is the name for people and for the command line: ParseTable reads it back.
func (t Table) String() string { return plainName(t.Schema) + "." + plainName(t.Name) }

// SQL is the name for a statement.
func (t Table) SQL() string { return pgx.Identifier{t.Schema, t.Name}.Sanitize() }

func plainName(s string) string {
	if strings.ContainsAny(s, `."`) {
		return pgx.Identifier{s}.Sanitize()
	}
	return s
}

// ParseTable splits a table's name at the dot that is outside double quotes.
func ParseTable(s string) (Table, error) {
	first, rest, err := cutName(s)
	if err != nil {
		return Table{}, fmt.Errorf("parse table %q: %w", s, err)
	}
	if rest == "" {
		return Table{"public", first}, nil
	}
	second, rest, err := cutName(rest[1:])
	if err == nil && rest != "" {
		err = errors.New("it has more than two parts: write schema.table")
	}
	if err != nil {
		return Table{}, fmt.Errorf("parse table %q: %w", s, err)
	}
	return Table{first, second}, nil
}

// MaxName is the longest name that PostgreSQL keeps whole, in bytes.
const MaxName = 63

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
	case len(name) > MaxName:
		return "", "", errors.New("a part of the name is longer than PostgreSQL's 63 bytes")
	case strings.ContainsRune(name, 0):
		return "", "", errors.New("the name holds a NUL byte")
	}
	return name, rest, nil
}
