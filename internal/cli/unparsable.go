package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/connstring"
	"github.com/outbox-relay/outbox/internal/patience"
)

// attempted is how the driver puts the cause behind what it was about to do.
var attempted = regexp.MustCompile(`^failed to [^(]*\((.*)\)$`)

// unparsable leaves out the connection string, which the driver repeats: it finds a password there in most forms, not in all.
func (t target) unparsable(env environment, err error) error {
	name, reason := t.urlName, err.Error()
	if t.url == "" {
		name = "PG* variables"
	}
	if silent, ok := errors.AsType[*patience.SilentError](err); ok {
		return fmt.Errorf("%s: %w from a file that is read for a connection (sslrootcert, sslcert, sslkey, .pgpass or the service file): it is a pipe that nobody writes to, or its mount hangs", name, silent)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if end := strings.LastIndex(reason, "`: "); end >= 0 {
		reason = reason[end+len("`: "):]
	}
	if _, sure := config.HoldsPassword(t.url); !sure && !slices.Contains(saysNothing(), reason) {
		return config.Wrong(t.typed, fmt.Errorf("%s: it cannot be read as a URL, nor as key=value; %s", name, escapeAdvice))
	}
	// What the driver was about to do, and which function of its language failed, is nobody's business here.
	if inner := attempted.FindStringSubmatch(reason); inner != nil {
		reason = inner[1]
	}
	reason = strings.ReplaceAll(reason, "strconv.ParseInt: parsing ", "")
	if better := t.secureReason(env, reason); better != "" {
		return config.Wrong(t.typed, fmt.Errorf("%s: %s", name, better))
	}
	return config.Wrong(t.typed, fmt.Errorf("%s: %s; want postgres://user@host:5432/database", name, reason))
}

// saysNothing are reasons of the driver that repeat nothing of a connection string.
func saysNothing() []string {
	return []string{"invalid port", "invalid keyword/value", "unterminated quoted string in connection info string"}
}

// secureReason says in other words what the driver does not like about TLS; "" when it is something else.
func (t target) secureReason(env environment, reason string) string {
	switch {
	case reason == "sslmode is invalid":
		return fmt.Sprintf("sslmode is %q: want disable, allow, prefer, require, verify-ca or verify-full", t.parameter(env, "sslmode"))
	case strings.HasPrefix(reason, "unable to read CA file: "):
		return "sslrootcert: " + strings.TrimPrefix(reason, "unable to read CA file: ")
	case strings.HasPrefix(reason, "unable to add CA"):
		return fmt.Sprintf("sslrootcert: %s holds no certificate; want PEM, with lines BEGIN CERTIFICATE", t.parameter(env, "sslrootcert"))
	case strings.HasPrefix(reason, "unable to read cert: "):
		return "sslcert: " + strings.TrimPrefix(reason, "unable to read cert: ")
	case strings.HasPrefix(reason, "unable to read sslkey: "):
		return "sslkey: " + strings.TrimPrefix(reason, "unable to read sslkey: ")
	case strings.HasPrefix(reason, "failed to decode sslkey"):
		return fmt.Sprintf("sslkey: %s holds no key; want PEM, with lines BEGIN PRIVATE KEY", t.parameter(env, "sslkey"))
	case strings.HasPrefix(reason, "unable to load cert: "):
		return fmt.Sprintf("sslcert %s and sslkey %s do not fit: %s", t.parameter(env, "sslcert"), t.parameter(env, "sslkey"), strings.TrimPrefix(reason, "unable to load cert: "))
	case reason == `both "sslcert" and "sslkey" are required`:
		return "of sslcert and sslkey one is missing: a client's certificate needs both"
	}
	return ""
}

// parameter is what a connection string says of a parameter, or else the variable of libpq.
func (t target) parameter(env environment, name string) string {
	if value, given := connstring.Parameter(t.url, name); given {
		return value
	}
	return env["PG"+strings.ToUpper(name)]
}
