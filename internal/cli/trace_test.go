package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

// sentSpan is a span as a collector gets it by OTLP in JSON.
type sentSpan struct {
	Name  string `json:"name"`
	Links []struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	} `json:"links"`
}

// receiver is a small collector.
type receiver struct {
	mu    sync.Mutex
	spans []sentSpan
	asked int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []sentSpan `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	if err := json.NewDecoder(q.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, resource := range body.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

// The variables are those of a process, so the command is one.
func TestTheRelaySendsItsSpansWhereTheEnvironmentSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		on   bool
	}{
		"leased": {nil, true}, "competing": {[]string{"--mode", "competing"}, true}, "off": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, cluster, got := pgtest.New(t), newCluster(t, "shop.order"), &receiver{}
			collector := httptest.NewServer(got)
			t.Cleanup(collector.Close)
			db.Exec(t, `ALTER TABLE outbox_event ADD COLUMN IF NOT EXISTS headers jsonb`)
			db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, headers) VALUES
(gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 'shop.order', '1', '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'),
(gen_random_uuid(), 'Order', '2', 'order.placed.v1', '{}', 'shop.order', '2', '{"traceparent": "no trace"}')`)
			cmd := exec.CommandContext(t.Context(), "outbox", append([]string{"relay", "--once"}, c.args...)...)
			cmd.Env = append(os.Environ(), "DATABASE_URL="+db.URL, "KAFKA_BROKERS="+strings.Join(cluster.ListenAddrs(), ","), "OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_HEADERS=plantedotel7")
			if c.on {
				cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
			}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "published 2 events") {
				t.Fatalf("%v: %s", err, out.String())
			}
			if strings.Contains(out.String(), "plantedotel7") {
				t.Errorf("what may be a token was said: %s", out.String())
			}
			got.mu.Lock()
			defer got.mu.Unlock()
			if !c.on {
				if got.asked > 0 {
					t.Errorf("the collector was asked %d times", got.asked)
				}
				return
			}
			links := 0
			for _, s := range got.spans {
				if s.Name != "publish shop.order" {
					t.Errorf("span %q", s.Name)
				}
				for _, l := range s.Links {
					links++
					if !strings.EqualFold(l.TraceID, "0af7651916cd43dd8448eb211c80319c") || !strings.EqualFold(l.SpanID, "b7ad6b7169203331") {
						t.Errorf("link %+v", l)
					}
				}
			}
			if links != 1 {
				t.Errorf("%d links in %+v, want 1", links, got.spans)
			}
		})
	}
}

func TestATraceVariableThatIsWrongStopsNoEvent(t *testing.T) {
	t.Parallel()
	db, cluster := pgtest.New(t), newCluster(t, "shop.order")
	var out, log bytes.Buffer
	code := Run(t.Context(), []string{"relay", "--once"}, strings.NewReader(""), &out, &log,
		[]string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + strings.Join(cluster.ListenAddrs(), ","), "OTEL_TRACES_EXPORTER=zipkin"})
	if code != exitOK || strings.Count(log.String(), "this program knows otlp and none") != 1 {
		t.Errorf("exit code %d, log %s", code, log.String())
	}
}
