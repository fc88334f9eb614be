// Package lanesql is [relay.Lane] in SQL, for the packages that write statements.
package lanesql

import (
	"fmt"

	"github.com/outbox-relay/outbox/relay"
)

// hash is the lower half of the hash, of an expression for a text.
func hash(text string) string {
	return "(hashtextextended(" + text + ` COLLATE "C", 0) & 4294967295)`
}

// Of is the lane, an integer, of the expressions for a partition key and for a number of lanes.
func Of(partitionKey, lanes string) string {
	return "(" + hash(partitionKey) + " % " + lanes + ")::integer"
}

// Shareable is a condition: the server finds the lanes that [relay.Lane] finds. It does not where the database keeps texts in other bytes than
// UTF-8, nor where the machine is big-endian. There a source has one lane.
func Shareable() string {
	const sample, most = "outbox", 1 << 30
	return fmt.Sprintf("(getdatabaseencoding() IN ('UTF8', 'SQL_ASCII') AND %s = %d)", Of("'"+sample+"'", fmt.Sprint(most)), relay.Lane(sample, most))
}
