package telemetry

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// How many spans wait for a collector, and how many it is sent at a time. A span of 128 links takes some 50 KB, so that a collector that hangs takes 20 MB, not the 130 of
// the library's own bounds.
const (
	waitingSpans = 256
	spansAtATime = 64
)

// bounds are those for which no variable says otherwise.
func bounds(variable func(string) string) (options []sdktrace.BatchSpanProcessorOption) {
	if !isCount(variable("OTEL_BSP_MAX_QUEUE_SIZE")) {
		options = append(options, sdktrace.WithMaxQueueSize(waitingSpans))
	}
	if !isCount(variable("OTEL_BSP_MAX_EXPORT_BATCH_SIZE")) {
		options = append(options, sdktrace.WithMaxExportBatchSize(spansAtATime))
	}
	return options
}

func isCount(text string) bool {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return err == nil && n > 0
}

// proxyUnlessRedirected keeps the headers of OTEL_EXPORTER_OTLP_HEADERS, which hold secrets, from going where nobody has sent them. A client of our own would not know what the
// variables say of TLS, so the library's is told here, where it asks for each request how to get there.
func proxyUnlessRedirected(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errors.New("the collector sends to another address, which is not followed: correct the URL")
	}
	return http.ProxyFromEnvironment(r)
}
