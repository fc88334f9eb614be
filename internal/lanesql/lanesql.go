// Package lanesql is [relay.Lane] in SQL, for the packages that write statements.
package lanesql

import (
	"fmt"

	"github.com/outbox-relay/outbox/relay"
)

// UTF8 is the expression for a text in the bytes that [relay.Lane] sees, in a database with the encoding. In SQL_ASCII a text is bytes that somebody has written, and
// they are what everybody gets.
func UTF8(encoding, text string) string {
	if encoding == "UTF8" || encoding == "SQL_ASCII" {
		return text
	}
	return "convert_from(convert_to(" + text + ", 'UTF8'), 'SQL_ASCII')"
}

// hash is the lower half of the hash, of an expression for a text.
func hash(text string) string {
	return "(hashtextextended(" + text + ` COLLATE "C", 0) & 4294967295)`
}

// Of is the lane, an integer, of the expressions for a partition key, in the bytes of UTF-8, and for a number of lanes.
func Of(partitionKey, lanes string) string {
	return "(" + hash(partitionKey) + " % " + lanes + ")::integer"
}

// Shareable is a condition: the server finds the lanes that [relay.Lane] finds. It does not on a big-endian machine, nor where the database does not
// let a text have the bytes of UTF-8: with any encoding of several bytes a character but that. There a source has one lane.
func Shareable() string {
	const sample, most = "outbox", 1 << 30
	return fmt.Sprintf(`((getdatabaseencoding() = 'UTF8' OR pg_encoding_max_length(pg_char_to_encoding(getdatabaseencoding())) = 1)
    AND %s = %d)`, Of("'"+sample+"'", fmt.Sprint(most)), relay.Lane(sample, most))
}

// Why says why a database is not [Shareable].
const Why = "this database can have no more than one: its encoding is one of several bytes a character that is not UTF8, or its server is a big-endian machine"
