package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	bounded "github.com/outbox-relay/outbox/internal/patience"
)

// OAuth is a client that gets tokens by the grant client_credentials of RFC 6749. Its String and LogValue leave out the secret.
type OAuth struct {
	// TokenURL is the token endpoint, https. It is asked over TLS with the system's authorities and those of Config.TLSCAFile. http is for this machine alone, unless
	// SASL.WithoutTLS is set.
	TokenURL     string
	ClientID     string
	ClientSecret string
	// SecretFunc, when not nil, is asked for the secret each time a token is fetched; ClientSecret is then not used. Its error is shown: it must not hold the secret.
	SecretFunc func() (string, error)
	// Scope is what is asked for, words with blanks between them; "" leaves it to the server.
	Scope string
	// Timeout is how long the endpoint may take to answer. Where it wants the secret in the body of the request, and not as a password, it is asked twice until that is known.
	// A connection that is given up before does not end a fetch: its token is there for the next one. Default: 4 s.
	Timeout time.Duration
}

// DefaultTokenTimeout is that of [OAuth].
const DefaultTokenTimeout = 4 * time.Second

// tokenMargin is how long before its end a token is not used any more: it has to reach the broker, whose clock may differ.
const tokenMargin = 30 * time.Second

// String names the client and the endpoint.
func (o OAuth) String() string { return fmt.Sprintf("%s *** at %s", o.ClientID, o.TokenURL) }

// GoString is String, so that no format prints the secret.
func (o OAuth) GoString() string { return o.String() }

// LogValue is String, for logs.
func (o OAuth) LogValue() slog.Value { return slog.StringValue(o.String()) }

func (s *SASL) oauthProblems() []error {
	switch {
	case s.TokenFunc != nil && s.OAuth != nil:
		return []error{errors.New("SASL OAUTHBEARER: TokenFunc and OAuth are both given: leave one out")}
	case s.TokenFunc != nil:
		return nil
	case s.OAuth == nil:
		return []error{errors.New("SASL OAUTHBEARER: it needs a token endpoint, a client id and a client secret")}
	}
	return s.OAuth.problems(s.WithoutTLS)
}

func (o *OAuth) problems(withoutTLS bool) (problems []error) {
	u, err := url.Parse(o.TokenURL)
	switch {
	case o.TokenURL == "":
		problems = append(problems, errors.New("SASL OAuth token URL: it is empty"))
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		problems = append(problems, errors.New("SASL OAuth token URL: want https://host/path"))
	case u.User != nil:
		problems = append(problems, errors.New("SASL OAuth token URL: it holds a user or a password: give them as client id and client secret"))
	case u.Scheme == "http" && !withoutTLS && !isLoopback(u.Hostname()):
		problems = append(problems, fmt.Errorf("SASL OAuth token URL %s: http sends the client secret in the clear: use https", o.TokenURL))
	}
	if o.ClientID == "" {
		problems = append(problems, errors.New("SASL OAuth client id: it is empty"))
	}
	if o.ClientSecret == "" && o.SecretFunc == nil {
		problems = append(problems, errors.New("SASL OAuth client secret: it is empty"))
	}
	if o.Timeout < 0 {
		problems = append(problems, fmt.Errorf("SASL OAuth timeout %s: want more than 0", o.Timeout))
	}
	return problems
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// refuseRedirect keeps the secret from going where nobody has sent it.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// tls trusts the brokers' authorities too: a company has one for all.
func (t *tokens) tls() *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.trust == nil || t.trust.ca == "" {
		return cfg
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	// One that cannot be read was reported when the connection to the broker was made.
	content, err := bounded.Call(context.Background(), filesLimit, func() ([]byte, error) { return readPEM("TLS CA file", t.trust.ca) })
	if err == nil {
		pool.AppendCertsFromPEM(content)
	}
	cfg.RootCAs = pool
	return cfg
}

// tokenError is a refusal of the token endpoint, which waiting does not mend.
type tokenError struct{ text string }

func (e *tokenError) Error() string { return e.text }

// failure words why there is no token, in one line and without what the endpoint may have repeated of the request.
func (t *tokens) failure(err error, secret string) error {
	where := "get a token from " + t.oauth.TokenURL + ": "
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return t.unreachable(where, err, secret)
	}
	said := oneLine(masked(refused.Response.Status, secret))
	if refused.ErrorCode != "" {
		said += ", " + oneLine(masked(refused.ErrorCode, secret))
	}
	if refused.ErrorDescription != "" {
		said += " (" + oneLine(masked(refused.ErrorDescription, secret)) + ")"
	}
	switch status := refused.Response.StatusCode; {
	case status == http.StatusTooManyRequests || status >= 500:
		return errors.New(where + said)
	case status == http.StatusNotFound || status < 400:
		return &tokenError{where + said + ": correct the URL of the token endpoint"}
	}
	return &tokenError{where + said + ": check client id, client secret and scope"}
}

func (t *tokens) unreachable(where string, err error, secret string) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if refusal := refusedHere(err, &tls.Config{}); isA[*tlsError](refusal) {
		return &tokenError{where + err.Error() + ": the endpoint's certificate has to be signed by an authority of this machine or of the CA file, for this host, and be valid"}
	}
	// What is no answer of HTTP is quoted in the error.
	return fmt.Errorf("%s%w", where, &discreetError{err, oneLine(masked(err.Error(), secret))})
}
