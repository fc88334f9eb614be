package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// tokens fetches tokens and keeps the last one. It is shared by all clients of a Config.
type tokens struct {
	oauth OAuth
	now   func() time.Time
	trust *tlsFiles

	mu   sync.Mutex
	last *oauth2.Token
	// under is the fetch that is under way, or has ended without anybody there to take what it brought; else nil.
	under *fetch
	// grant remembers how the endpoint wants the secret. It is used by one fetch at a time.
	grant clientcredentials.Config
}

// fetch is one try to get a token. It belongs to no connection: one that is given up early must not make the next one begin anew, or an endpoint that is slower than
// connections are patient would never be waited for to its end.
type fetch struct {
	// ended is closed when what follows is what it will be.
	ended chan struct{}
	at    time.Time
	token string
	err   error
}

// token is one for an authentication of now.
func (c Config) token(ctx context.Context) (string, error) {
	if c.SASL.TokenFunc == nil {
		return c.tokens.get(ctx)
	}
	token, err := c.SASL.TokenFunc(ctx)
	if err != nil {
		return "", fmt.Errorf("ask for the SASL token: %w", err)
	}
	return token, nil
}

func (t *tokens) get(ctx context.Context) (string, error) {
	token, f := t.kept()
	if f == nil {
		return token, nil
	}
	select {
	case <-f.ended:
	case <-ctx.Done():
		return "", fmt.Errorf("get a token from %s: it has not answered yet: %w", t.oauth.TokenURL, context.Cause(ctx))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.under == f {
		t.under = nil
	}
	return f.token, f.err
}

// kept is the token that can still be used, or the fetch to wait for.
func (t *tokens) kept() (string, *fetch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A token without an end is not kept: nobody says how long it holds.
	if t.last != nil && !t.last.Expiry.IsZero() && t.now().Before(t.last.Expiry.Add(-tokenMargin)) {
		return t.last.AccessToken, nil
	}
	if t.under == nil || t.under.stale(t.now()) {
		t.under = &fetch{ended: make(chan struct{})}
		go t.run(t.under)
	}
	return "", t.under
}

// stale tells that it ended too long ago for somebody to take what it brought.
func (f *fetch) stale(now time.Time) bool {
	select {
	case <-f.ended:
		return now.Sub(f.at) > tokenMargin
	default:
		return false
	}
}

// waiting tells that the endpoint has been asked and has not answered yet.
func (t *tokens) waiting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.under == nil {
		return false
	}
	select {
	case <-t.under.ended:
		return false
	default:
		return true
	}
}

func (t *tokens) run(f *fetch) {
	token, err := t.ask()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = token
	if token != nil {
		f.token = token.AccessToken
	}
	f.err, f.at = err, t.now()
	close(f.ended)
}

func (t *tokens) ask() (*oauth2.Token, error) {
	secret, err := t.oauth.secret()
	if err != nil {
		return nil, fmt.Errorf("ask for the SASL OAuth client secret: %w", err)
	}
	token, err := t.request(secret)
	if err != nil {
		return nil, t.failure(err, secret)
	}
	return token, nil
}

// secret is the one of now.
func (o *OAuth) secret() (string, error) {
	if o.SecretFunc == nil {
		return o.ClientSecret, nil
	}
	return o.SecretFunc()
}

func (t *tokens) request(secret string) (*oauth2.Token, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: t.tls(), DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: cmp.Or(t.oauth.Timeout, DefaultTokenTimeout), CheckRedirect: refuseRedirect}
	t.grant.ClientID, t.grant.ClientSecret, t.grant.TokenURL = t.oauth.ClientID, secret, t.oauth.TokenURL
	t.grant.Scopes = strings.Fields(t.oauth.Scope)
	token, err := t.grant.Token(context.WithValue(context.Background(), oauth2.HTTPClient, client))
	if _, refused := errors.AsType[*oauth2.RetrieveError](err); refused {
		// It may want the secret in another way than before.
		t.grant = clientcredentials.Config{}
	}
	return token, err
}
