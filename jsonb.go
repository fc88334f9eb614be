package outbox

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a payload.
const (
	// MaxPayloadBytes is how long the JSON text of one payload may be: 32 MiB. A jsonb value holds 256 MiB, and small numbers take six times
	// their text in it. Kafka's own limit is 1 MB unless the topic says otherwise; the relay parks what a topic does not take.
	MaxPayloadBytes = 32 << 20
	// MaxPayloadDepth is how deep arrays and objects may be nested in it. PostgreSQL's own limit depends on the server's stack;
	// consumers in Java commonly refuse more than this.
	MaxPayloadDepth = 1000
)

// Limits of PostgreSQL's type numeric, which jsonb keeps numbers in.
const (
	maxWhole    = 131072    // digits before the point
	maxScale    = 16383     // digits after it
	maxExponent = 1<<30 - 2 // as it is written
)

// checkJSON tells why jsonb would refuse the text. replaced is where the escape \ufffd stands first, -1 for nowhere.
func checkJSON(text []byte) (replaced int, f *fault) {
	switch {
	case len(text) == 0:
		return -1, &fault{"is empty", "give a JSON document"}
	case len(text) > MaxPayloadBytes:
		return -1, faultf("store it elsewhere and publish a reference", "is longer than %d bytes", MaxPayloadBytes)
	case !utf8.Valid(text):
		return -1, invalidUTF8(text)
	}
	if f := checkSyntax(text); f != nil {
		return -1, f
	}
	s := jsonbScanner{text: text, replaced: -1}
	f = s.scan()
	return s.replaced, f
}

func checkSyntax(text []byte) *fault {
	var whole json.RawMessage
	err := json.Unmarshal(text, &whole)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return faultf("correct it", "is not valid JSON at byte %d: %v", syntax.Offset, err)
	}
	return faultf("correct it", "is not valid JSON: %v", err)
}

// jsonbScanner looks through valid JSON for what jsonb refuses nevertheless.
type jsonbScanner struct {
	text     []byte
	pos      int
	depth    int
	replaced int
	// printed is how many digits the numbers have as PostgreSQL prints them.
	printed int
}

func (s *jsonbScanner) scan() *fault {
	for s.pos < len(s.text) {
		if f := s.token(); f != nil {
			return f
		}
	}
	return nil
}

func (s *jsonbScanner) token() *fault {
	switch c := s.text[s.pos]; {
	case c == '"':
		return s.str()
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == '[' || c == '{':
		s.depth++
		if s.depth > MaxPayloadDepth {
			return faultf("flatten it, or publish the inner part as text", "is nested deeper than %d at byte %d", MaxPayloadDepth, s.pos)
		}
	case c == ']' || c == '}':
		s.depth--
	}
	s.pos++
	return nil
}

func (s *jsonbScanner) str() *fault {
	for s.pos++; s.text[s.pos] != '"'; {
		if s.text[s.pos] != '\\' {
			s.pos++
			continue
		}
		if s.text[s.pos+1] != 'u' {
			s.pos += 2
			continue
		}
		if f := s.unicode(); f != nil {
			return f
		}
	}
	s.pos++
	return nil
}

// unicode reads one escape, or the two of a surrogate pair.
func (s *jsonbScanner) unicode() *fault {
	at := s.pos
	s.pos += 6
	switch r := s.unit(at); {
	case r == 0:
		return hasNUL(at)
	case r == utf8.RuneError && s.replaced < 0:
		s.replaced = at
	case 0xD800 <= r && r < 0xDC00:
		if low := s.unit(s.pos); low < 0xDC00 || low > 0xDFFF {
			return loneSurrogate(at)
		}
		s.pos += 6
	case 0xDC00 <= r && r < 0xE000:
		return loneSurrogate(at)
	}
	return nil
}

// unit returns the value of the escape at a position, -1 if there is none.
func (s *jsonbScanner) unit(at int) int {
	if len(s.text) < at+6 || s.text[at] != '\\' || s.text[at+1] != 'u' {
		return -1
	}
	r, err := strconv.ParseUint(string(s.text[at+2:at+6]), 16, 16)
	if err != nil {
		return -1
	}
	return int(r)
}

func loneSurrogate(at int) *fault {
	return faultf("correct the writer of this text: it has cut a character in half", "has half of a surrogate pair at byte %d", at)
}

func (s *jsonbScanner) number() *fault {
	from := s.pos
	for s.pos < len(s.text) && strings.IndexByte("+-.0123456789eE", s.text[s.pos]) >= 0 {
		s.pos++
	}
	digits, fits := numericDigits(string(s.text[from:s.pos]))
	if !fits {
		return faultf("round it, or write it as text",
			"has a number at byte %d that PostgreSQL cannot hold: at most %d digits before the point and %d after it", from, maxWhole, maxScale)
	}
	// PostgreSQL prints 1e9 as 1000000000. Some thousand numbers of a few bytes can make a value that it takes and can never print again.
	if s.printed += digits; s.printed > MaxPayloadBytes {
		return faultf("write large exponents as text", "is longer than %d bytes when its numbers are written without exponents", MaxPayloadBytes)
	}
	return nil
}

// numericDigits returns how many digits numeric prints a number of JSON with, and whether it takes the number. Zeros count as digits after
// the point; before it only from the first other digit on.
func numericDigits(number string) (digits int, fits bool) {
	mantissa, exponentText, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent := 0
	if exponentText != "" {
		n, err := strconv.ParseInt(exponentText, 10, 64)
		if err != nil || n < -maxExponent || n > maxExponent {
			return 0, false
		}
		exponent = int(n)
	}
	scale := max(len(fraction)-exponent, 0)
	significant := strings.TrimLeft(whole+fraction, "0")
	before := 0 // digits before the point
	if significant != "" {
		before = len(significant) - len(fraction) + exponent
	}
	return max(before, 1) + scale, scale <= maxScale && before <= maxWhole
}
