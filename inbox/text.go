package inbox

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxErrorText is how many bytes of an error are kept.
const maxErrorText = 4096

// storable is the beginning of a text, as PostgreSQL can hold it.
func storable(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// untranslatable is the SQLSTATE of a text that the database's encoding does not have.
const untranslatable = "22P05"

// ascii writes other characters the way Go and JSON do, for a database whose encoding lacks them.
func ascii(s string) string { return strings.Trim(strconv.QuoteToASCII(s), `"`) }
