package config

import (
	"net/url"
	"regexp"
	"strings"
)

// userPassword is the password in front of the host of a URL, up to the last @, since a password that was not escaped may hold some.
var userPassword = regexp.MustCompile(`(?s)^([a-zA-Z]+://[^:/@]*):.*@`)

// passwordWord is a password in a connection string of key=value, quoted or not; one whose quotes do not end goes to the end.
var passwordWord = regexp.MustCompile(`(?is)((?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*(?:'|$)|(?:\\.|[^\s\\])*)`)

// Masked is a connection string of PostgreSQL in either form, with *** for the passwords in it.
func Masked(dsn string) string {
	if !strings.Contains(dsn, "://") || strings.ContainsAny(strings.SplitN(dsn, "://", 2)[0], "= ") {
		return passwordWord.ReplaceAllString(dsn, "${1}***")
	}
	dsn = userPassword.ReplaceAllString(dsn, "${1}:***@")
	before, query, has := strings.Cut(dsn, "?")
	if !has {
		return dsn
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		key, _, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(key)
		if err != nil || strings.Contains(strings.ToLower(name), "password") {
			parts[i] = key + "=***"
		}
	}
	return before + "?" + strings.Join(parts, "&")
}
