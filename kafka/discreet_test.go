package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/inbox"
)

const oddSecret = "S3cr3t/with+odd=chars"

// guarded is what several goroutines write.
type guarded struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func (g *guarded) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}

func TestATokenEndpointThatRepeatsTheRequestTellsNobodyTheSecret(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]func(r *http.Request) string{
		"cut": func(*http.Request) string { return strings.Repeat("x", 190) + oddSecret },
		"body": func(r *http.Request) string {
			return r.PostForm.Encode() + "&client_secret=" + url.QueryEscape(oddSecret)
		},
		"body in lower case": func(*http.Request) string { return lowerEscapes(url.QueryEscape(oddSecret)) },
		"header":             func(r *http.Request) string { return r.Header.Get("Authorization") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, (*httptest.Server).Start)
			e.says(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusUnauthorized)
				_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_client", "error_description": says(r)})
			})
			c := e.config(OAuth{ClientSecret: oddSecret})
			_, err := c.token(t.Context())
			text := fmt.Sprint(err)
			// In base64 it stands behind the client id and a colon, six bytes.
			for _, part := range []string{"S3cr3t", "odd", "M2NyM3"} {
				if strings.Contains(text, part) {
					t.Errorf("%q is in %s", part, text)
				}
			}
		})
	}
}

func TestAnAnswerThatIsNoHTTPTellsNobodyTheSecret(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, (*httptest.Server).Start)
	for _, line := range []string{"HTTP/1.1 401 ", "sorry "} {
		e.says(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprintf(conn, "%s%s %s %s\x1b[31m\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", line, oddSecret, r.Header.Get("Authorization"), strings.Repeat("Q", 5000))
				conn.Close()
			}
		})
		c := e.config(OAuth{ClientSecret: oddSecret})
		if _, err := c.token(t.Context()); err == nil || strings.Contains(err.Error(), "S3cr3t") || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 400 {
			t.Errorf("%q: got %v", line, err)
		}
	}
}

// repeats has the cluster refuse every authentication, with the request in its answer.
func repeats(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		said := "you sent " + string(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes) + "\n\x1b[2J " + strings.Repeat("z", 100_000)
		resp.ErrorMessage = &said
		return resp, nil, true
	})
	takesTokens(c) // for its handshake
}

// Any request may be the first of a connection.
func TestWhateverIsAskedOfABrokerThatRepeatsTheRequestTellsNobodyTheSecret(t *testing.T) {
	t.Parallel()
	c := fake(t)
	repeats(c)
	log := &guarded{}
	cfg := Config{
		Brokers: c.ListenAddrs(), SASL: &SASL{Mechanism: MechanismPlain, Username: "relay", Password: oddSecret, WithoutTLS: true},
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	made := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	inspector, err := NewInspector(cfg)
	made(err)
	t.Cleanup(inspector.Close)
	scratch, err := NewScratch(cfg)
	made(err)
	t.Cleanup(scratch.Close)
	letters, err := NewLetters(cfg)
	made(err)
	t.Cleanup(letters.Close)
	// What it is given is asked after a look at the brokers.
	_ = letters.Open(testContext(t))
	consumer, err := NewConsumer(&desk{}, ConsumerConfig{Config: cfg, Topics: []string{orders}})
	made(err)
	consumer.log.client = plainClient(t, cfg.Brokers, consumer.options(newNetwork(consumer.cfg.Config))...)
	consumer.log.usual = newSender(consumer.cfg.Config, kgo.RecordRetries(0))
	t.Cleanup(consumer.log.usual.close)
	for what, ask := range map[string]func(context.Context) error{
		"brokers":     func(ctx context.Context) error { return inspector.Brokers(ctx)[0].Err },
		"topics":      func(ctx context.Context) error { _, err := inspector.Topics(ctx, []string{"t"}); return err },
		"settings":    func(ctx context.Context) error { return inspector.settings(ctx, map[string]TopicState{"t": {}}) },
		"producer id": inspector.MayProduce,
		"quotas":      func(ctx context.Context) error { _, err := inspector.Quotas(ctx); return err },
		"round trip":  func(ctx context.Context) error { _, err := scratch.RoundTrip(ctx); return err },
		"create":      func(ctx context.Context) error { _, _, err := scratch.Create(ctx, "t"); return err },
		"delete":      func(ctx context.Context) error { return scratch.Delete(ctx, "t") },
		"names":       func(ctx context.Context) error { _, err := scratch.Names(ctx, "t"); return err },
		"partitions":  func(ctx context.Context) error { _, err := letters.Partitions(ctx, "t"); return err },
		"offsets":     func(ctx context.Context) error { _, err := letters.OffsetsFrom(ctx, "t", time.Now()); return err },
		"targets":     func(ctx context.Context) error { _, err := letters.Targets(ctx, []string{"t"}); return err },
		"purge": func(ctx context.Context) error {
			_, err := letters.DeleteBefore(ctx, "t", map[int32]int64{0: 1})
			return err
		},
		"consumer's topics": func(ctx context.Context) error {
			_, err := consumer.readable(ctx, consumer.log.client, []string{orders})
			return err
		},
		"commit": func(ctx context.Context) error {
			return consumer.log.Commit(ctx, map[inbox.Partition]int64{{Topic: orders}: 1})
		},
		"send": func(ctx context.Context) error {
			return consumer.log.Send(ctx, "t", &inbox.Record{Value: []byte("v")}, nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			err := ask(testContext(t))
			if text := fmt.Sprint(err); err == nil || strings.Contains(text, "S3cr3t") || len(text) > 600 || strings.ContainsAny(text, "\n\x1b") {
				t.Errorf("%d bytes: %.700q", len(text), text)
			}
		})
	}
	t.Cleanup(func() {
		if text := log.String(); strings.Contains(text, "S3cr3t") || strings.Contains(text, strings.Repeat("z", 1000)) {
			t.Errorf("the log says %.2000s", text)
		}
	})
}

func TestABrokerThatRepeatsTheRequestTellsNobodyTheSecret(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{MechanismPlain, MechanismOAuth} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			repeats(c)
			s := &SASL{Mechanism: mechanism, WithoutTLS: true}
			if mechanism == MechanismPlain {
				s.Username, s.Password = "relay", oddSecret
			} else {
				s.TokenFunc = func(context.Context) (string, error) { return oddSecret, nil }
			}
			log := &guarded{}
			p := newPublisher(t, Config{Brokers: c.ListenAddrs(), SASL: s, Logger: slog.New(slog.NewTextHandler(log, nil))})
			err := p.Open(testContext(t))
			if text := fmt.Sprint(err); !errors.Is(err, kerr.SaslAuthenticationFailed) || !strings.Contains(text, "you sent") || strings.Contains(text, "S3cr3t") || len(text) > 600 || strings.ContainsAny(text, "\n\x1b") {
				t.Errorf("%d bytes: %.700q", len(text), text)
			}
			if text := log.String(); strings.Contains(text, "S3cr3t") || len(text) > 3000 {
				t.Errorf("the log says %d bytes: %.700s", len(text), text)
			}
		})
	}
}
