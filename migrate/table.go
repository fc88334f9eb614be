package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// maxIdentifier is the longest name that PostgreSQL keeps whole, in bytes; it cuts longer ones without an error.
const maxIdentifier = 63

// Table is the name of an outbox table. Any name that PostgreSQL allows will do.
type Table struct {
	Schema string
	Name   string
}

// ParseTable reads "schema.name", or "name" in the schema public. Upper and lower case are kept as written. A part that holds a dot,
// or begins with a double quote, is written in double quotes, as in SQL: "my.schema"."OutBox Event".
func ParseTable(text string) (Table, error) {
	parts, err := splitParts(text)
	if err != nil {
		return Table{}, fmt.Errorf("table %q: %w; write schema.name, with parts that hold dots in double quotes", text, err)
	}
	t := Table{Schema: "public", Name: parts[len(parts)-1]}
	if len(parts) == 2 {
		t.Schema = parts[0]
	}
	if err := errors.Join(checkIdentifier("schema", t.Schema), checkIdentifier("table", t.Name)); err != nil {
		return Table{}, err
	}
	return t, nil
}

func splitParts(text string) ([]string, error) {
	var parts []string
	for rest := text; ; {
		part, after, err := cutPart(rest)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		if after == "" {
			break
		}
		if after[0] != '.' {
			return nil, errors.New("there is text after a closing quote")
		}
		rest = after[1:]
	}
	if len(parts) > 2 {
		return nil, fmt.Errorf("it has %d parts", len(parts))
	}
	return parts, nil
}

// cutPart takes the first part; what is left begins with the dot, if anything is left.
func cutPart(text string) (part, after string, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexByte(text, '.')
		if end < 0 {
			return text, "", nil
		}
		return text[:end], text[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		if text[i] != '"' {
			b.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == '"' {
			b.WriteByte('"')
			i++
			continue
		}
		return b.String(), text[i+1:], nil
	}
	return "", "", errors.New("a double quote is not closed")
}

func checkIdentifier(kind, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of the %s is empty", kind)
	case len(name) > maxIdentifier:
		return fmt.Errorf("the name of the %s, %q, has %d bytes; PostgreSQL keeps %d and would cut the rest", kind, name, len(name), maxIdentifier)
	case strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return fmt.Errorf("the name of the %s, %q, holds bytes that PostgreSQL does not allow", kind, name)
	}
	return nil
}

// plainIdentifier is what reads the same with and without quotes in SQL, reserved words aside.
var plainIdentifier = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// String is the name for people; ParseTable reads it back.
func (t Table) String() string { return quoteUnlessPlain(t.Schema) + "." + quoteUnlessPlain(t.Name) }

func quoteUnlessPlain(name string) string {
	if plainIdentifier.MatchString(name) {
		return name
	}
	return quote(name)
}

// SQL is the name as it stands in a statement, always quoted.
func (t Table) SQL() string { return pgx.Identifier{t.Schema, t.Name}.Sanitize() }

// IndexName is the name of the partial index over unpublished events. Names too long for it are cut and told apart by a hash.
func (t Table) IndexName() string {
	return shortened("ix_", t.Name, "_unpublished")
}

// shortened joins the parts to a name that PostgreSQL keeps whole.
func shortened(before, name, after string) string {
	if whole := before + name + after; len(whole) <= maxIdentifier {
		return whole
	}
	sum := sha256.Sum256([]byte(name))
	tail := "_" + hex.EncodeToString(sum[:4]) + after
	keep := name[:maxIdentifier-len(before)-len(tail)]
	for !utf8.ValidString(keep) {
		keep = keep[:len(keep)-1]
	}
	return before + keep + tail
}

// comment makes a line of text for people in SQL; a name in it may hold line ends, and what follows them would be run.
func comment(format string, args ...any) string {
	return "-- " + strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
}

// quote makes an identifier of SQL.
func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// literal makes a string constant of SQL. Standard strings have one special character.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
