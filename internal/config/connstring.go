package config

import (
	"net/url"
	"regexp"
	"strings"
)

// NotShown stands for a connection string that may hold a password anywhere.
const NotShown = "not shown: it cannot be read as a URL, nor as key=value"

const masked = "***"

// Shown is what may be printed of a connection string of PostgreSQL: of one that can be read in one way only, user, hosts, database and parameters that are known for harmless, with ***
// for the rest; of any other nothing, since nobody knows what in it is the password.
func Shown(connString string) string {
	c, sure := readConnString(connString)
	if !sure {
		return NotShown
	}
	return c.String()
}

// HoldsPassword tells whether there is a password in a connection string. sure tells that it can be read in one way only.
func HoldsPassword(connString string) (holds, sure bool) {
	c, sure := readConnString(connString)
	for _, p := range c.parameters {
		holds = holds || p.secret() && p.value != ""
	}
	return holds || c.password != "", sure
}

// connString is a connection string, as the driver reads it.
type connString struct {
	// scheme is "" in the form of key=value, which has nothing but parameters.
	scheme string
	// named tells that there is a user, be the name empty; hasPassword that a colon follows.
	named, hasPassword bool
	user, password     string
	// hosts and database are written as they are in the URL.
	hosts, database string
	parameters      []parameter
}

type parameter struct{ key, value string }

const blanks = " \t\n\r\v\f"

// readConnString reads what can be read in one way only.
func readConnString(text string) (c connString, sure bool) {
	text = strings.TrimRight(text, blanks)
	for _, scheme := range []string{"postgres://", "postgresql://"} {
		if rest, is := strings.CutPrefix(text, scheme); is {
			c.scheme = scheme
			return c, c.readURL(rest)
		}
	}
	return c, c.readWords(text)
}

// plain is what a URL is made of. Of what is not here, some must be escaped, and of the rest programs differ in what they make of it.
var plain = regexp.MustCompile(`^[A-Za-z0-9._~!$&'()*+,;=:@/?%\[\]-]*$`)

func (c *connString) readURL(rest string) bool {
	if !plain.MatchString(rest) {
		return false
	}
	at := strings.IndexByte(rest, '@')
	if end := strings.IndexAny(rest, "/?"); strings.Count(rest, "@") > 1 || at >= 0 && end >= 0 && end < at {
		return false
	}
	if at >= 0 {
		if !c.readUser(rest[:at]) {
			return false
		}
		rest = rest[at+1:]
	}
	path, query, _ := strings.Cut(rest, "?")
	c.hosts, c.database, _ = strings.Cut(path, "/")
	return hostList.MatchString(c.hosts) && !strings.ContainsAny(c.database, "/:[]") && decodes(c.database) && c.readQuery(query)
}

func (c *connString) readUser(text string) bool {
	c.named = true
	c.user, c.password, c.hasPassword = strings.Cut(text, ":")
	return !strings.ContainsAny(text, "[]") && decodes(text)
}

// hostList are hosts with commas between them: names, addresses, or folders of sockets, whose slashes are escaped.
var hostList = regexp.MustCompile(`^(` + oneHost + `)(,(` + oneHost + `))*$`)

const oneHost = `([A-Za-z0-9._-]|%2[Ff])*(:[0-9]{0,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{0,5})?`

func decodes(text string) bool {
	_, err := url.PathUnescape(text)
	return err == nil
}

func (c *connString) readQuery(query string) bool {
	if query == "" {
		return true
	}
	for pair := range strings.SplitSeq(query, "&") {
		key, value, found := strings.Cut(pair, "=")
		// A plus sign is itself: the driver makes no blank of it.
		k, keyErr := url.PathUnescape(key)
		v, valueErr := url.PathUnescape(value)
		if !found || keyErr != nil || valueErr != nil || strings.Contains(value, "=") || !keyword.MatchString(k) {
			return false
		}
		c.parameters = append(c.parameters, parameter{k, v})
	}
	return true
}

// keyword is the name of a parameter.
var keyword = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// readWords reads key=value with blanks between. The value may stand in quotes; a backslash takes what follows as it is.
func (c *connString) readWords(text string) bool {
	for text = strings.TrimLeft(text, blanks); text != ""; text = strings.TrimLeft(text, blanks) {
		key, rest, found := strings.Cut(text, "=")
		key = strings.TrimRight(key, blanks)
		value, rest, ended := word(strings.TrimLeft(rest, blanks))
		if !found || !ended || !keyword.MatchString(key) || strings.ContainsRune(value, 0) {
			return false
		}
		c.parameters = append(c.parameters, parameter{key, value})
		text = rest
	}
	return true
}

// word reads one value from the beginning of a text. ended tells that it ends as it has begun, and that a blank follows, or nothing.
func word(text string) (value, rest string, ended bool) {
	quoted := strings.HasPrefix(text, "'")
	i := 0
	if quoted {
		i = 1
	}
	var b strings.Builder
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			if i++; i == len(text) {
				return "", "", false
			}
			b.WriteByte(text[i])
		case quoted && c == '\'':
			rest = text[i+1:]
			return b.String(), rest, rest == "" || strings.ContainsRune(blanks, rune(rest[0]))
		case !quoted && strings.IndexByte(blanks, c) >= 0:
			return b.String(), text[i:], true
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", !quoted
}
