package kafka

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// takesTokens makes a fake take every token.
func takesTokens(c *kfake.Cluster) {
	for _, key := range []kmsg.Key{kmsg.SASLHandshake, kmsg.SASLAuthenticate} {
		c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			resp := req.ResponseKind()
			resp.SetVersion(req.GetVersion())
			if handshake, ok := resp.(*kmsg.SASLHandshakeResponse); ok {
				handshake.SupportedMechanisms = []string{MechanismOAuth, MechanismPlain}
			}
			return resp, nil, true
		})
	}
}

// holds makes the endpoint wait for release before each answer.
func (e *endpoint) holds(answer string) (asked chan struct{}, release chan struct{}) {
	asked, release = make(chan struct{}, 100), make(chan struct{})
	e.says(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-release
		fmt.Fprint(w, answer)
	})
	return asked, release
}

func TestATokenThatComesTooLateForOneConnectionIsThereForTheNext(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"kept":           `{"access_token":"late","expires_in":300}`,
		"without an end": `{"access_token":"late"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, (*httptest.Server).Start)
			asked, release := e.holds(answer)
			c := e.config(OAuth{ClientSecret: "s"})
			impatient, cancel := context.WithCancel(t.Context())
			go func() {
				<-asked
				cancel()
			}()
			if _, err := c.token(impatient); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "it has not answered yet") {
				t.Errorf("the first got %v", err)
			}
			close(release)
			if token, err := c.token(testContext(t)); err != nil || token != "late" {
				t.Errorf("the next got %q, %v", token, err)
			}
			if n := e.requests.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestWhatAFetchBroughtLongAgoIsNotTaken(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, (*httptest.Server).Start)
	e.says(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"access_token":"%d"}`, e.requests.Load())
	})
	clock := newClock()
	c := e.config(OAuth{ClientSecret: "s"})
	c.tokens.now = clock.now
	_, f := c.tokens.kept()
	<-f.ended
	clock.advance(tokenMargin + time.Second)
	if token, err := c.token(testContext(t)); err != nil || token != "2" {
		t.Errorf("got %q, %v", token, err)
	}
}

func TestAnEndpointSlowerThanAConnectionIsPatientDoesNotKeepARelayFromStarting(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, (*httptest.Server).Start)
	_, release := e.holds(`{"access_token":"late"}`)
	c := fake(t)
	takesTokens(c)
	sasl := *e.config(OAuth{ClientSecret: "s"}).SASL
	sasl.WithoutTLS = true
	p := newPublisher(t, Config{Brokers: c.ListenAddrs(), SASL: &sasl})
	err := p.Open(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "the token endpoint "+e.URL+" has not answered yet") {
		t.Errorf("the first try: %v", err)
	}
	close(release)
	if err := p.Open(testContext(t)); err != nil {
		t.Errorf("the second try: %v", err)
	}
}

func TestHowTheEndpointWantsTheSecretIsRemembered(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, (*httptest.Server).Start)
	inBody := true
	e.says(func(w http.ResponseWriter, r *http.Request) {
		if inBody != (r.PostForm.Get("client_secret") != "") {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, `{"access_token":"x"}`)
	})
	c := e.config(OAuth{ClientSecret: "s"})
	get := func(requests int64) {
		t.Helper()
		before := e.requests.Load()
		_, err := c.token(t.Context())
		if n := e.requests.Load() - before; n != requests || err != nil {
			t.Errorf("%d requests, %v; want %d", n, err, requests)
		}
	}
	get(2)
	get(1)
	get(1)
	inBody = false
	if _, err := c.token(t.Context()); err == nil {
		t.Error("the way of before is accepted")
	}
	get(1)
	get(1)
}
