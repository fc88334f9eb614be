package kafka

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/relay"
)

// endpoint answers requests for tokens as it is told.
type endpoint struct {
	*httptest.Server
	requests atomic.Int64
	answer   atomic.Pointer[func(w http.ResponseWriter, r *http.Request)]
}

func newEndpoint(t *testing.T, start func(*httptest.Server)) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.requests.Add(1)
		_ = r.ParseForm() // a server that has not read the request does not notice that the client has gone
		w.Header().Set("Content-Type", "application/json")
		(*e.answer.Load())(w, r)
	}))
	e.says(func(w http.ResponseWriter, r *http.Request) {
		_, secret, _ := r.BasicAuth()
		fmt.Fprintf(w, `{"access_token":"token %d by %s for %s","expires_in":300}`, e.requests.Load(), secret, r.FormValue("scope"))
	})
	start(e.Server)
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) says(answer func(w http.ResponseWriter, r *http.Request)) { e.answer.Store(&answer) }

func (e *endpoint) refuses(status int, body string) {
	e.says(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
}

func (e *endpoint) config(o OAuth) Config {
	o.TokenURL, o.ClientID, o.Timeout = e.URL, "relay", cmp.Or(o.Timeout, patience)
	return Config{Brokers: []string{"h:1"}, TLS: true, SASL: &SASL{Mechanism: MechanismOAuth, OAuth: &o}}.withDefaults()
}

func TestATokenIsKeptUntilShortlyBeforeItEndsAndFetchedByTheSecretOfThen(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, (*httptest.Server).Start)
	clock := newClock()
	secret := "old"
	c := e.config(OAuth{Scope: "a b", SecretFunc: func() (string, error) { return secret, nil }})
	c.tokens.now = clock.now
	// The library counts the end of a token by the real clock.
	clock.advance(time.Since(clock.now()))
	want := func(token string) {
		t.Helper()
		if got, err := c.token(t.Context()); err != nil || got != token {
			t.Errorf("got %q, %v; want %q", got, err, token)
		}
	}
	want("token 1 by old for a b")
	secret = "new"
	want("token 1 by old for a b")
	clock.advance(260 * time.Second)
	want("token 1 by old for a b")
	clock.advance(15 * time.Second)
	want("token 2 by new for a b")
	e.says(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"access_token":"endless"}`) })
	clock.advance(time.Hour)
	want("endless")
	want("endless")
	if n := e.requests.Load(); n != 4 {
		t.Errorf("%d requests, want 4: a token that tells no end is not kept", n)
	}
}

func TestConnectionsThatWaitForATokenShareOne(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, (*httptest.Server).Start)
	c := e.config(OAuth{ClientSecret: "s"})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.token(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := e.requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestWhyThereIsNoTokenIsSaidInOneLineWithoutTheSecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	e := newEndpoint(t, (*httptest.Server).Start)
	for body, c := range map[string]struct {
		status int
		words  []string
		lasts  bool
	}{
		`{"error":"invalid_client","error_description":"no\nclient with ` + secret + `"}`: {401, []string{"401", "invalid_client (no client with ***)", "check client id"}, true},
		`{"error":"invalid_scope"}`:   {400, []string{"400", "invalid_scope", "scope"}, true},
		`<html>` + secret + `</html>`: {404, []string{"404", "correct the URL"}, true},
		`later`:                       {503, []string{"503"}, false},
		`slowly`:                      {429, []string{"429"}, false},
		`no JSON`:                     {200, []string{"cannot parse"}, false},
		`{}`:                          {200, []string{"access_token"}, false},
	} {
		e.refuses(c.status, body)
		config := e.config(OAuth{ClientSecret: secret})
		_, err := config.token(t.Context())
		if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") || isA[*tokenError](err) != c.lasts {
			t.Errorf("%s: got %v", body, err)
			continue
		}
		for _, word := range append(c.words, "get a token from "+e.URL) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q is not in %v", word, err)
			}
		}
	}
}

func TestATokenEndpointThatSendsElsewhereIsNotFollowed(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, (*httptest.Server).Start)
	other := newEndpoint(t, (*httptest.Server).Start)
	e.says(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	c := e.config(OAuth{ClientSecret: "s"})
	if _, err := c.token(t.Context()); err == nil || !strings.Contains(err.Error(), "307") || other.requests.Load() > 0 {
		t.Errorf("got %v, and the other one was asked %d times", err, other.requests.Load())
	}
}

func TestATokenEndpointThatDoesNotAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, (*httptest.Server).Start)
	e.says(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := e.config(OAuth{ClientSecret: "s", Timeout: 50 * time.Millisecond})
	if _, err := c.token(t.Context()); err == nil || isA[*tokenError](err) || !strings.Contains(err.Error(), "Timeout") && !strings.Contains(err.Error(), "deadline") {
		t.Errorf("got %v", err)
	}
	e.says(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"access_token":"late"}`) })
	c.tokens.oauth.Timeout = patience
	if token, err := c.token(t.Context()); err != nil || token != "late" {
		t.Errorf("after that got %q, %v", token, err)
	}
}

func TestTheTokenEndpointMayBeOfTheBrokersAuthority(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, (*httptest.Server).StartTLS)
	c := e.config(OAuth{ClientSecret: "s"})
	if _, err := c.token(t.Context()); err == nil || !isA[*tokenError](err) || !strings.Contains(err.Error(), "CA file") {
		t.Errorf("without its authority: %v", err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	sasl := *c.SASL
	c = Config{Brokers: c.Brokers, TLSCAFile: ca, SASL: &sasl}.withDefaults()
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.token(t.Context()); err != nil {
		t.Errorf("with its authority: %v", err)
	}
}

func TestWhatOAuthLacksIsNamed(t *testing.T) {
	t.Parallel()
	token := func(context.Context) (string, error) { return "t", nil }
	for word, s := range map[string]SASL{
		"token endpoint, a client id and a client secret": {},
		"TokenFunc and OAuth are both given":              {TokenFunc: token, OAuth: &OAuth{}},
		"token URL: it is empty":                          {OAuth: &OAuth{}},
		"client id: it is empty":                          {OAuth: &OAuth{}},
		"client secret: it is empty":                      {OAuth: &OAuth{}},
		"want https://host/path":                          {OAuth: &OAuth{TokenURL: "login.example.com"}},
		"holds a user or a password":                      {OAuth: &OAuth{TokenURL: "https://me:hunter2@login.example.com"}},
		"http sends the client secret in the clear":       {OAuth: &OAuth{TokenURL: "http://login.example.com"}},
	} {
		s.Mechanism = MechanismOAuth
		_, err := NewPublisher(Config{Brokers: []string{"h:1"}, TLS: true, SASL: &s})
		if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v", word, err)
		}
	}
}

// A refusal of the endpoint ends a relay that starts; one that is away is waited for.
func TestOpenSaysWhetherWaitingHelpsATokenEndpoint(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, (*httptest.Server).Start)
	c := fake(t)
	// The fake does not know the mechanism; it is asked for no more than whether it does.
	c.ControlKey(int16(kmsg.SASLHandshake), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind()
		resp.SetVersion(req.GetVersion())
		return resp, nil, true
	})
	for status, lasts := range map[int]bool{401: true, 503: false} {
		e.refuses(status, "")
		cfg := e.config(OAuth{ClientSecret: "s"})
		sasl := *cfg.SASL
		sasl.WithoutTLS = true
		p := newPublisher(t, Config{Brokers: c.ListenAddrs(), SASL: &sasl})
		if err := p.Open(testContext(t)); errors.Is(err, relay.ErrConfiguration) != lasts || !strings.Contains(err.Error(), fmt.Sprint(status)) {
			t.Errorf("%d: got %v", status, err)
		}
	}
}
