//go:build integration

package kafka_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/kafka"
)

func TestTheRelayPublishesOverTLSWithEachWayToAuthenticate(t *testing.T) {
	t.Parallel()
	f := newSecureFixture(t)
	endpoint := newTokenEndpoint(t, "relay", password)
	for way, variables := range map[string][]string{
		"SCRAM-SHA-256": f.sasl("SCRAM-SHA-256", "relay", password),
		"SCRAM-SHA-512": f.sasl("SCRAM-SHA-512", "relay", password),
		"PLAIN":         f.sasl("PLAIN", "relay", password),
		"OAUTHBEARER":   endpoint.settings(f, password),
		"certificate":   append(f.mtls(), f.certificate(t, f.authority, "relay-mtls", time.Hour)...),
	} {
		t.Run(way, func(t *testing.T) {
			f := &secureFixture{newFixture(t), f.cluster, f.authority, f.dir}
			f.brokers = f.cluster.Brokers()
			topic := f.topic(t, name("secure"), 1)
			f.allowed(t, "User:relay", kafka.RelayACLs([]string{topic}, false)...)
			f.allowed(t, "User:CN=relay-mtls", kafka.RelayACLs([]string{topic}, false)...)
			f.insert(t, topic, "k", `{"n":1}`)
			if stdout, stderr, code := f.run(t, variables, "relay", "--once"); code != 0 {
				t.Fatalf("ended with %d\n%s%s", code, stdout, stderr)
			}
			f.compareOrder(t, topic)
			stdout, stderr, code := f.run(t, variables, "doctor", "--topics", topic)
			principal := map[bool]string{true: "User:CN=relay-mtls", false: "User:relay"}[way == "certificate"]
			if code != 0 || !strings.Contains(stdout, principal) {
				t.Errorf("doctor ended with %d, and should speak of %s\n%s%s", code, principal, stdout, stderr)
			}
		})
	}
}

// What cannot work ends at once, in one line that says what to do.
func TestWhatTheBrokersRefuseIsSaidInOneLine(t *testing.T) {
	t.Parallel()
	f := newSecureFixture(t)
	other := newAuthority(t)
	foreignCA := "KAFKA_SSL_CA=" + f.write(t, "other.pem", other.PEM)
	endpoint := newTokenEndpoint(t, "relay", "another secret")
	scram := f.sasl("SCRAM-SHA-512", "relay", password)
	for what, c := range map[string]struct {
		variables []string
		words     []string
		// ends is the exit code, 78 if not given: a broker that hangs up may also be about to stop, which is waited for.
		ends int
	}{
		"wrong password":            {f.sasl("SCRAM-SHA-512", "relay", "wrong"), []string{"SASL_AUTHENTICATION_FAILED", "check the user name and the password"}, 0},
		"wrong password of PLAIN":   {f.sasl("PLAIN", "relay", "wrong"), []string{"SASL_AUTHENTICATION_FAILED", "check the user name and the password"}, 0},
		"wrong client secret":       {endpoint.settings(f, password), []string{"get a token from " + endpoint.URL, "401", "check client id, client secret and scope"}, 0},
		"wrong CA":                  {append(scram, foreignCA), []string{"signed by another authority than those of the CA file"}, 0},
		"no CA":                     {append(scram, "KAFKA_SSL_CA=", "KAFKA_TLS_ENABLED=true"), []string{"not signed by an authority that this machine knows", "CA file"}, 0},
		"another name":              {append(scram, "KAFKA_SSL_SERVER_NAME=kafka.example.com"), []string{"kafka.example.com", "TLS server name"}, 0},
		"no TLS":                    {append(scram, "KAFKA_SSL_CA="), []string{"the listener speaks TLS: turn TLS on"}, 0},
		"no client certificate":     {f.mtls(), []string{"the broker wants a client certificate: name the files"}, 0},
		"certificate of nobody":     {append(f.mtls(), f.certificate(t, other, "stranger", time.Hour)...), []string{"the broker does not", "the client certificate", "authority"}, 0},
		"expired certificate":       {append(f.mtls(), f.certificate(t, f.authority, "expired", -time.Minute)...), []string{"expired.crt", "has expired on", "replace it"}, 0},
		"TLS without a listener":    {[]string{"KAFKA_BROKERS=" + f.brokers[0], f.ca()}, []string{"the broker hung up", "compare the settings of TLS"}, 1},
		"no SASL":                   {[]string{"KAFKA_BROKERS=" + f.cluster.SASL()[0], f.ca()}, []string{"the broker hung up", "SASL"}, 1},
		"SASL where there is none":  {append(scram, "KAFKA_BROKERS="+f.brokers[0], "KAFKA_SSL_CA="), []string{"use SASL only with a listener that asks for it"}, 0},
		"a mechanism of nobody":     {append(scram, "KAFKA_SASL_MECHANISM=AWS_MSK_IAM", "AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY="+password), []string{"choose a SASL mechanism that the brokers offer"}, 0},
		"PLAIN without TLS":         {append(f.sasl("PLAIN", "relay", password), "KAFKA_SSL_CA="), []string{"KAFKA_SASL_MECHANISM is PLAIN, which without TLS sends the password in the clear", "KAFKA_TLS_ENABLED"}, 0},
		"a key that is not that of": {append(f.mtls(), "KAFKA_SSL_CERT="+f.dir+"/stranger.crt", "KAFKA_SSL_KEY="+f.dir+"/expired.key"), []string{"stranger.crt", "expired.key", "does not match"}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			// What ends at once needs no limit, what is waited for one that leaves it the time to be heard.
			ends, limit := 78, "2m"
			if c.ends != 0 {
				ends, limit = c.ends, "15s"
			}
			stdout, stderr, code := f.run(t, c.variables, "relay", "--start-timeout", limit)
			last := lastLine(stderr)
			t.Log(last)
			if code != ends {
				t.Errorf("ended with %d\n%s%s", code, stdout, stderr)
			}
			for _, word := range c.words {
				if !strings.Contains(last, word) {
					t.Errorf("%q is not in the last line, %s", word, last)
				}
			}
		})
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestADeadHostAmongTheBrokersCostsNothing(t *testing.T) {
	t.Parallel()
	f := newSecureFixture(t)
	topic := f.topic(t, name("dead-host"), 1)
	f.allowed(t, "User:relay", kafka.RelayACLs([]string{topic}, false)...)
	f.insert(t, topic, "k", `{"n":1}`)
	// No name server is asked for a name that is too long.
	variables := append(f.sasl("SCRAM-SHA-512", "relay", password), "KAFKA_BROKERS=127.0.0.1:1,"+strings.Repeat("a", 64)+".invalid:9092,"+f.cluster.SASL()[0])
	if stdout, stderr, code := f.run(t, variables, "relay", "--once"); code != 0 || strings.Count(stderr, "127.0.0.1:1\"") > 1 {
		t.Errorf("ended with %d\n%s%s", code, stdout, stderr)
	}
	f.compareOrder(t, topic)
}

// tokenEndpoint is an authorization server for one client, whose tokens are not signed.
type tokenEndpoint struct {
	*httptest.Server
	id      string
	fetched atomic.Int64
}

func newTokenEndpoint(t *testing.T, id, secret string) *tokenEndpoint {
	t.Helper()
	e := &tokenEndpoint{id: id}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, given, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		if user != id || given != secret || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":"invalid_client","error_description":"no %s"}`, given)
			return
		}
		e.fetched.Add(1)
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":300}`, unsigned(id))
	}))
	t.Cleanup(e.Close)
	return e
}

// unsigned is a token that brokers of the tests take.
func unsigned(subject string) string {
	now := time.Now().Unix()
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part(fmt.Appendf(nil, `{"sub":%q,"iat":%d,"exp":%d}`, subject, now, now+300)) + "."
}

func (e *tokenEndpoint) settings(f *secureFixture, secret string) []string {
	return []string{
		"KAFKA_BROKERS=" + strings.Join(f.cluster.SASL(), ","), f.ca(), "KAFKA_SASL_MECHANISM=OAUTHBEARER", "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL=" + e.URL,
		"KAFKA_SASL_OAUTHBEARER_CLIENT_ID=" + e.id, "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET=" + secret, "KAFKA_SASL_OAUTHBEARER_SCOPE=kafka",
	}
}
