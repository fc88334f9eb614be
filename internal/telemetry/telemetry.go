// Package telemetry sends this program's spans to where the OTEL_* variables say, by OTLP over HTTP. Without such a variable there is none. Tracing is an aid: whatever is
// wrong with it is said in the log, once, and stops no event.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Service is what spans say of the process that they are from, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES say otherwise.
type Service struct {
	// Name is the same for all processes that do the same, Instance is this one's.
	Name, Version, Instance string
}

// Traces are the program's. The zero value is none.
type Traces struct{ provider *sdktrace.TracerProvider }

// Start begins to trace if variable, which returns "" for what is not set, asks for it. The libraries read the same variables in the environment of the process. What cannot
// be understood is a warning, and there are no traces. It connects to nothing.
//
// While there are traces, what OpenTelemetry's libraries have to say goes to log, for the whole process.
func Start(ctx context.Context, variable func(name string) string, s Service, log *slog.Logger) *Traces {
	asked, err := wanted(variable)
	if err == nil && !asked {
		return &Traces{}
	}
	var provider *sdktrace.TracerProvider
	if err == nil {
		provider, err = start(ctx, variable, s, log)
	}
	if err != nil {
		log.Warn("no traces", "error", err)
		return &Traces{}
	}
	return &Traces{provider}
}

func start(ctx context.Context, variable func(string) string, s Service, log *slog.Logger) (*sdktrace.TracerProvider, error) {
	// It repeats what variables hold, secrets as well.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("tracing", "error", brief(err)) }))
	from, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceName(s.Name), semconv.ServiceVersion(s.Version), semconv.ServiceInstanceID(s.Instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, errors.New("OTEL_RESOURCE_ATTRIBUTES is not like name=value,name=value with % for special characters: correct it")
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithProxy(proxyUnlessRedirected))
	if err != nil {
		return nil, fmt.Errorf("make the exporter of traces: %s; look at the OTEL_EXPORTER_OTLP_* variables", brief(err))
	}
	return sdktrace.NewTracerProvider(sdktrace.WithResource(from), sdktrace.WithBatcher(&exports{SpanExporter: exporter, log: log}, bounds(variable)...)), nil
}

// Provider makes tracers; nil when there are no traces.
func (t *Traces) Provider() trace.TracerProvider {
	if t.provider == nil {
		return nil
	}
	return t.provider
}

// endTimeout is how long the end of the process waits for a collector that does not answer.
const endTimeout = 3 * time.Second

// End sends what was not sent yet, within 3 s. What is left then is lost.
func (t *Traces) End(ctx context.Context) {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	// What cannot be sent is said by exports; a collector that is slow at the end of the process is not worth an error.
	_ = t.provider.Shutdown(ctx)
}

// address is a URL in an error.
var address = regexp.MustCompile(`https?://[^\s"]*[^\s":]`)

// brief is the error without the address that was asked, which may hold a password or a token, and without what a collector has to say at length.
func brief(err error) string {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	const most = 200
	text := address.ReplaceAllString(err.Error(), "the collector")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
