// Package connstring reads single parameters of PostgreSQL's connection strings: those that the driver uses and does not tell of.
package connstring

import (
	"net/url"
	"regexp"
	"strings"
)

// Parameter is what a connection string, a URL or words of the form name=value, says of a parameter; false when it does not name it.
func Parameter(connString, name string) (value string, given bool) {
	if strings.Contains(connString, "://") {
		if u, err := url.Parse(connString); err == nil && u.Query().Has(name) {
			return u.Query().Get(name), true
		}
		return "", false
	}
	m := regexp.MustCompile(`(?:^|\s)` + name + `\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S*))`).FindStringSubmatch(connString)
	if m == nil {
		return "", false
	}
	return m[1] + m[2], true
}
