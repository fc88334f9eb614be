package pg

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// SQLASCII is the encoding of a database that takes a text for the bytes that somebody wrote, in whatever encoding. Nothing can be converted
// there, and what is no UTF-8 makes every statement fail that tries to.
const SQLASCII = "SQL_ASCII"

// AsUTF8 makes the texts of a session UTF-8, which is what Kafka gets and what lanes are computed from, whatever the database's encoding. A
// database in SQL_ASCII has no encoding: there the session gets the bytes as they were written. In a database in UTF8 it does nothing, and elsewhere it
// is one statement, of a kind that poolers carry along. Give it to a pool as AfterConnect.
func AsUTF8(ctx context.Context, conn *pgx.Conn) error {
	want := "UTF8"
	switch conn.PgConn().ParameterStatus("server_encoding") {
	case "":
		// Something between hides it.
		return nil
	case SQLASCII:
		want = SQLASCII
	}
	if conn.PgConn().ParameterStatus("client_encoding") == want {
		return nil
	}
	if _, err := conn.Exec(ctx, "SET client_encoding = '"+want+"'"); err != nil {
		return fmt.Errorf("set the session's encoding: %w", err)
	}
	return nil
}

// bytesSQL are the bytes of the expression for a text as Kafka gets them.
func bytesSQL(text string) string {
	return "convert_to(" + text + ", CASE getdatabaseencoding() WHEN '" + SQLASCII + "' THEN '" + SQLASCII + "' ELSE 'UTF8' END)"
}

// Storable is as the function, without what the database's encoding may lack.
func (r Source) Storable(s string) string {
	s = Storable(s)
	if r.Encoding == "UTF8" || r.Encoding == SQLASCII {
		return s
	}
	return ascii(s)
}

// ascii writes other characters the way Go and JSON do.
func ascii(s string) string {
	var b strings.Builder
	for _, c := range s {
		if c < 0x80 {
			b.WriteRune(c)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(c), "'"))
	}
	return b.String()
}
