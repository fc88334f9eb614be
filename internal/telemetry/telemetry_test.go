package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/outbox-relay/outbox/internal/await"
)

const secret = "s3cr3t"

// collector keeps what it is sent, and refuses it while told to.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	got     []byte
	headers http.Header
	paths   []string
	status  int
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{status: http.StatusOK}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.got, c.headers, c.paths = append(c.got, body...), r.Header, append(c.paths, r.URL.Path)
		w.WriteHeader(c.status)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) answer(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

func (c *collector) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.got, []byte(text))
}

func journal(t *testing.T) (*await.Journal, *slog.Logger) {
	t.Helper()
	j := &await.Journal{}
	return j, slog.New(slog.NewTextHandler(j, nil))
}

func variables(t *testing.T, set map[string]string) func(string) string {
	t.Helper()
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	for name, value := range set {
		t.Setenv(name, value)
	}
	return os.Getenv
}

func service() Service { return Service{Name: "outbox-relay", Version: "v1.2.3", Instance: "host-17"} }

func TestSpansGoToTheCollectorThatIsNamed(t *testing.T) {
	c := newCollector(t)
	said, log := journal(t)
	traces := Start(t.Context(), variables(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=" + secret}), service(), log)
	_, span := traces.Provider().Tracer("test").Start(t.Context(), "publish shop.order")
	span.End()
	traces.End(t.Context())
	for _, part := range []string{"publish shop.order", "outbox-relay", "v1.2.3", "host-17"} {
		if !c.has(part) {
			t.Errorf("the collector has not got %q", part)
		}
	}
	if c.headers.Get("Authorization") != secret || c.paths[0] != "/v1/traces" {
		t.Errorf("asked at %v with %v", c.paths, c.headers)
	}
	if said.Text() != "" {
		t.Errorf("the log says %s", said.Text())
	}
}

func TestTheServicesNameIsTheOneOfTheEnvironment(t *testing.T) {
	c := newCollector(t)
	_, log := journal(t)
	traces := Start(t.Context(), variables(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_SERVICE_NAME": "orders-relay"}), service(), log)
	_, span := traces.Provider().Tracer("test").Start(t.Context(), "publish")
	span.End()
	traces.End(t.Context())
	if !c.has("orders-relay") || c.has("outbox-relay") {
		t.Error("the collector has got another name")
	}
}

func TestThereAreNoTracesUnlessTheyAreAskedFor(t *testing.T) {
	for name, set := range map[string]map[string]string{
		"nothing":          nil,
		"how, not whether": {"OTEL_TRACES_SAMPLER": "always_on", "OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
		"none":             {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"},
		"disabled":         {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"},
	} {
		t.Run(name, func(t *testing.T) {
			said, log := journal(t)
			traces := Start(t.Context(), variables(t, set), service(), log)
			if traces.Provider() != nil || said.Text() != "" {
				t.Errorf("there is a provider, or the log says %q", said.Text())
			}
			traces.End(t.Context())
		})
	}
}

func TestWhatCannotBeUnderstoodIsOneWarningWithoutTraces(t *testing.T) {
	for name, c := range map[string]struct {
		set  map[string]string
		says string
	}{
		"exporter":  {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, "this program knows otlp and none"},
		"protocol":  {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL is \\\"grpc\\\", and this program speaks http/protobuf"},
		"no scheme": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "user:" + secret + "@collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT is no URL"},
		"no URL":    {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://user:" + secret + "@[::1"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no URL"},
		"resource":  {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_RESOURCE_ATTRIBUTES": secret}, "OTEL_RESOURCE_ATTRIBUTES is not like name=value"},
	} {
		t.Run(name, func(t *testing.T) {
			said, log := journal(t)
			traces := Start(t.Context(), variables(t, c.set), service(), log)
			text := said.Text()
			if traces.Provider() != nil || strings.Count(text, "\n") != 1 || !strings.Contains(text, c.says) || strings.Contains(text, secret) {
				t.Errorf("provider %v, log %q, want one line that says %q", traces.Provider(), text, c.says)
			}
		})
	}
}

func TestACollectorThatFailsIsSaidOnceUntilItTakesTracesAgain(t *testing.T) {
	c := newCollector(t)
	c.answer(http.StatusBadRequest)
	said, log := journal(t)
	at := strings.Replace(c.URL, "http://", "http://user:"+secret+"@", 1) + "/" + secret
	traces := Start(t.Context(), variables(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_EXPORTER_OTLP_HEADERS": secret}), service(), log)
	provider := traces.Provider().Tracer("test")
	try := func() {
		_, span := provider.Start(t.Context(), "publish")
		span.End()
	}
	requests := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.paths)
	}
	for n := range 3 {
		try()
		await.Until(t, "the collector is asked", func() bool { return requests() > n })
	}
	c.answer(http.StatusOK)
	await.Until(t, "traces are sent again", func() bool {
		try()
		return said.Says("traces are sent again")
	})
	traces.End(t.Context())
	if text := said.Text(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "traces cannot be sent") || strings.Contains(text, secret) {
		t.Errorf("the log says\n%s, want two lines", text)
	}
}

func TestAnErrorIsSaidWithoutTheAddressAndNotAtLength(t *testing.T) {
	t.Parallel()
	refused := &url.Error{Op: "Post", URL: "http://collector/?token=" + secret, Err: errors.New("connection refused")}
	if got := brief(fmt.Errorf("send: %w", refused)); got != "connection refused" {
		t.Errorf("said %q", got)
	}
	if got := brief(errors.New("failed to send to https://collector/" + secret + "/v1/traces: 401 Unauthorized")); got != "failed to send to the collector: 401 Unauthorized" {
		t.Errorf("said %q", got)
	}
	if got := brief(errors.New("x" + strings.Repeat("é", 10_000))); len(got) > 300 || !utf8.ValidString(got) {
		t.Errorf("said %d bytes: %q", len(got), got)
	}
}

func TestACollectorThatIsAwayKeepsTheEndFromNothing(t *testing.T) {
	c := newCollector(t)
	said, log := journal(t)
	traces := Start(t.Context(), variables(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_BSP_SCHEDULE_DELAY": "60000"}), service(), log)
	c.Close()
	_, span := traces.Provider().Tracer("test").Start(t.Context(), "publish")
	span.End()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	traces.End(ended)
	if !said.Says("traces cannot be sent") {
		t.Errorf("the log says %q", said.Text())
	}
}

func TestACollectorThatSendsElsewhereIsNotFollowed(t *testing.T) {
	other := newCollector(t)
	c := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(c.Close)
	said, log := journal(t)
	traces := Start(t.Context(), variables(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=" + secret}), service(), log)
	_, span := traces.Provider().Tracer("test").Start(t.Context(), "publish")
	span.End()
	traces.End(t.Context())
	if len(other.paths) > 0 || !said.Says("the collector sends to another address") {
		t.Errorf("the other one was asked at %v, and the log says %s", other.paths, said.Text())
	}
}

func TestACollectorThatHangsIsNotKeptMoreThanSomeSpansFor(t *testing.T) {
	for name, c := range map[string]struct {
		set  map[string]string
		most int
	}{
		"by default":         {nil, waitingSpans + spansAtATime},
		"no number":          {map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "many"}, waitingSpans + spansAtATime},
		"told by a variable": {map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "7", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2"}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			asked, release := make(chan struct{}, 1), make(chan struct{})
			sent := 0
			get := variables(t, c.set)
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
			provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter(func(n int) {
				select {
				case asked <- struct{}{}:
					<-release
				default:
				}
				sent += n
			}), bounds(get)...))
			end := func() {
				_, span := provider.Tracer("test").Start(t.Context(), "publish")
				span.End()
			}
			for len(asked) == 0 {
				end()
			}
			for range 3 * waitingSpans {
				end()
			}
			close(release)
			if err := provider.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			// What was sent when the collector began to hang is one batch, which may have had to wait for the first to be noticed.
			if sent == 0 || sent > c.most {
				t.Errorf("%d spans were kept, want at most %d", sent, c.most)
			}
		})
	}
}

// exporter is told how many spans are to be sent.
type exporter func(n int)

func (e exporter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	e(len(spans))
	return nil
}

func (e exporter) Shutdown(context.Context) error { return nil }
