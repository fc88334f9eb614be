package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// deadTexts is where the event of a dead event keeps what JSON would change, by column: the texts of columns of type json, of which jsonb keeps neither spaces nor the order of
// keys nor those that come twice; and a JSON null of a column that may be NULL, which would read as NULL. Events that died before this was kept have none. No column has such a name.
const deadTexts = "outbox:texts"

// wholeRow is the expression for a row t of the table as jsonb, from which it can be made again.
func wholeRow(columns []column) string {
	var texts []string
	for _, c := range columns {
		name := "t." + pgx.Identifier{c.name}.Sanitize()
		switch {
		case c.generated:
		case c.text:
			texts = append(texts, literalText(c.name)+", "+name+"::text")
		case c.json && !c.notNull:
			texts = append(texts, literalText(c.name)+", CASE WHEN "+name+"::jsonb = 'null' THEN 'null' END")
		}
	}
	if len(texts) == 0 {
		return "to_jsonb(t)"
	}
	return fmt.Sprintf(`to_jsonb(t) || coalesce((SELECT jsonb_build_object('%s', x) FROM jsonb_strip_nulls(jsonb_build_object(%s)) x WHERE x <> '{}'), '{}')`,
		deadTexts, strings.Join(texts, ", "))
}

// literalText is a name as a literal of the server, whatever its settings for backslashes.
func literalText(name string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(name) + "'"
}

// exact is the expression for the value of a column of a dead event whose JSON is event: the text that was kept of it, or else the value, an expression, that its JSON gives.
func (c column) exact(event, value string) string {
	if !c.json {
		return value
	}
	return fmt.Sprintf("coalesce((%s->'%s'->>%s)::%s, %s)", event, deadTexts, literalText(c.name), c.kind, value)
}
