package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Values of parameters that are harmless as long as they look so.
var (
	looksName   = regexp.MustCompile(`^[\p{L}\p{N}_.$-]*$`)
	looksUser   = regexp.MustCompile(`^[\p{L}\p{N}_.$@+-]*$`)
	looksHosts  = regexp.MustCompile(`^[A-Za-z0-9_.,/-]*$`)
	looksNumber = regexp.MustCompile(`^[0-9A-Za-z.,:-]*$`)
	looksText   = regexp.MustCompile(`^[\p{L}\p{N}_.,:/~+ -]*$`)
)

// harmless are the parameters that may be shown, with what their values look like.
func harmless() map[string]*regexp.Regexp {
	known := map[string]*regexp.Regexp{
		"host": looksHosts, "hostaddr": looksNumber, "port": looksNumber, "dbname": looksName, "database": looksName, "user": looksUser,
	}
	for _, key := range strings.Fields(`sslmode ssl sslrootcert sslcert sslkey sslcertmode sslnegotiation sslsni sslcrl passfile service servicefile
		connect_timeout application_name fallback_application_name target_session_attrs load_balance_hosts channel_binding require_auth gssencmode krbsrvname
		min_protocol_version max_protocol_version keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout
		client_encoding datestyle timezone search_path statement_timeout lock_timeout idle_in_transaction_session_timeout idle_session_timeout default_transaction_read_only
		default_transaction_isolation role
		pool_max_conns pool_min_conns pool_min_idle_conns pool_max_conn_lifetime pool_max_conn_idle_time pool_health_check_period pool_max_conn_lifetime_jitter pool_ping_timeout`) {
		known[key] = looksText
	}
	return known
}

// secretly is in the names of parameters that hold a secret, be they misspelt.
var secretly = regexp.MustCompile(`(?i)pass|pwd|secret|token`)

// secret tells that the value is a password, or was meant for one.
func (p parameter) secret() bool { return p.key != "passfile" && secretly.MatchString(p.key) }

// String is the connection string with *** for all that may be a secret.
func (c connString) String() string {
	var shown []string
	known := harmless()
	for _, p := range c.parameters {
		shown = append(shown, c.parameter(known, p))
	}
	if c.scheme == "" {
		return strings.Join(shown, " ")
	}
	out := c.scheme
	if c.named {
		out += escaped(c.user, looksUser)
		if c.hasPassword {
			out += ":" + masked
		}
		out += "@"
	}
	out += c.hosts
	if c.database != "" {
		out += "/" + escaped(c.database, looksName)
	}
	if len(shown) > 0 {
		out += "?" + strings.Join(shown, "&")
	}
	return out
}

// escaped is a part of a URL if what it stands for looks harmless.
func escaped(part string, looks *regexp.Regexp) string {
	// It has been decoded before.
	if decoded, _ := url.PathUnescape(part); !looks.MatchString(decoded) {
		return masked
	}
	return part
}

// parameter is one of them, in the form of the connection string. A name that is not known may be a piece of a password.
func (c connString) parameter(known map[string]*regexp.Regexp, p parameter) string {
	looks, harmless := known[strings.ToLower(p.key)]
	switch {
	case !harmless && !slices.Contains([]string{"password", "sslpassword", "options"}, strings.ToLower(p.key)):
		return masked
	case !harmless, !looks.MatchString(p.value):
		return p.key + "=" + masked
	case c.scheme != "":
		return p.key + "=" + strings.ReplaceAll(p.value, " ", "%20")
	case p.value == "" || strings.Contains(p.value, " "):
		return p.key + "='" + p.value + "'"
	}
	return p.key + "=" + p.value
}
