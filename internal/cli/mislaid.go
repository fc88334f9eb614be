package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/config"
)

// escapeAdvice mends a URL in which a user or a password has letters that separate its parts.
const escapeAdvice = "want postgres://user@host:5432/database, in which @ : / ? # [ ] % and blanks in a user or a password are escaped, as %40 for @; or give the password by itself, by PGPASSWORD or OUTBOX_DATABASE_PASSWORD_FILE"

var (
	errPasswordOnCommandLine = errors.New("--database-url holds a password, which every user of this machine can read: give the URL by DATABASE_URL, or the password by PGPASSWORD or PGPASSFILE")
	errDoubtOnCommandLine    = errors.New("--database-url cannot be read in one way only, so it may hold a password, which every user of this machine can read: give the URL by DATABASE_URL, or the password by PGPASSWORD or PGPASSFILE; " + escapeAdvice)
)

func (t target) checkURL() error {
	if err := checkScheme(t.urlName, t.url); err != nil {
		return config.Wrong(t.typed, err)
	}
	switch holds, sure := config.HoldsPassword(t.url); {
	case !t.typed:
		return nil
	case holds:
		return config.Wrong(true, errPasswordOnCommandLine)
	case !sure:
		return config.Wrong(true, errDoubtOnCommandLine)
	}
	return nil
}

// hasPassword tells whether a connection string holds a password, or may hold one.
func hasPassword(connString string) bool {
	holds, sure := config.HoldsPassword(connString)
	return holds || !sure
}

// otherScheme is the beginning of a URL that names another kind of database, or the driver of another language, and nothing else.
var otherScheme = regexp.MustCompile(`(?i)^(jdbc:)?(mysql2?|mariadb|mssql|sqlserver|oracle|sqlite3?|mongodb|redis|cockroach(db)?|https?|file|postgres(ql)?)([+:][a-z0-9]{1,20})?$`)

// checkScheme refuses the URL of another database, or of another program, which the driver would take for a list of key=value.
func checkScheme(name, connString string) error {
	scheme, _, isURL := strings.Cut(connString, "://")
	switch bare := strings.TrimLeft(connString, "\"'` \t\r\n"); {
	case scheme == "postgres" || scheme == "postgresql":
		return nil
	case bare != connString && (strings.HasPrefix(bare, "postgres://") || strings.HasPrefix(bare, "postgresql://")):
		return fmt.Errorf("%s begins with a quote or a blank: leave it out (docker --env-file takes quotes for a part of the value); want postgres://user@host:5432/database", name)
	case isURL && otherScheme.MatchString(scheme):
		return fmt.Errorf("%s begins with %s://: want postgres://user@host:5432/database", name, scheme)
	}
	return nil
}

// hostLike is a name, an address or a folder of sockets.
var hostLike = regexp.MustCompile(`^[\p{L}\p{N}._:%-]+$`)

// mislaid refuses what can only be the piece of a password that was not escaped: it would stand in the log and in every error as the host or the database.
func (t target) mislaid(cc *pgx.ConnConfig) error {
	hosts := []string{cc.Host}
	for _, f := range cc.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	for _, h := range hosts {
		if !hostLike.MatchString(h) && !filepath.IsAbs(h) {
			return t.mislaidPart("host")
		}
	}
	_, sure := config.HoldsPassword(t.url)
	switch {
	case sure:
		return nil
	case strings.ContainsAny(cc.Database, "@:/?#"):
		return t.mislaidPart("database")
	case strings.ContainsAny(cc.User, ":/?#"):
		return t.mislaidPart("user")
	}
	return nil
}

func (t target) mislaidPart(what string) error {
	name := t.urlName
	if t.url == "" {
		name = "PG* variables"
	}
	return config.Wrong(t.typed, fmt.Errorf("%s: its %s cannot be one, and may be a part of the password; %s", name, what, escapeAdvice))
}
