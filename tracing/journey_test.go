package tracing_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/kafkatest"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
	"github.com/outbox-relay/outbox/tracing"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	placed  = "order.placed.v1"
	charged = "payment.charged.v1"
	orders  = "shop.order"
	bills   = "shop.payment"
)

// recorder is a provider whose ended spans stay in memory.
func recorder(t testing.TB) (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() {
		if err := provider.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return provider, spans
}

func named(spans *tracetest.InMemoryExporter, name string) (found []tracetest.SpanStub) {
	for _, s := range spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// running runs until the test ends.
func running(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

func event(kind, topic string) outbox.Event {
	return outbox.Event{AggregateType: "Order", AggregateID: "secret-key", Type: kind, Topic: topic, Payload: map[string]string{"card": "secret-payload"}}
}

func TestATraceGoesFromTheWriterToTheHandlerAndOn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, `ALTER TABLE outbox_event ADD COLUMN IF NOT EXISTS headers jsonb`)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, orders, bills))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	provider, spans := recorder(t)
	brokers, pool := cluster.ListenAddrs(), db.Pool(t)
	writer, err := outbox.NewWriter(outbox.Config{ContextHeaders: tracing.Headers})
	if err != nil {
		t.Fatal(err)
	}
	source, err := postgres.New(pool, postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := relay.New(source, tracing.Publisher(publisher, provider), relay.Config{})
	if err != nil {
		t.Fatal(err)
	}
	handlers := inbox.NewHandlers[pgx.Tx]()
	inbox.On[[]byte](handlers, placed, func(ctx context.Context, tx pgx.Tx, _ inbox.Event[[]byte]) error {
		_, err := writer.Write(ctx, tx, event(charged, bills))
		return err
	})
	processor, err := inbox.NewProcessor("payment", inbox.Pool(pool), handlers, inbox.Config{Tracer: tracing.Handlers(provider)})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := kafka.NewConsumer(processor, kafka.ConsumerConfig{Config: kafka.Config{Brokers: brokers}, Topics: []string{orders}})
	if err != nil {
		t.Fatal(err)
	}

	ctx, request := provider.Tracer("shop").Start(t.Context(), "POST /orders")
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := writer.Write(ctx, tx, event(placed, orders))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	request.End()
	wrote := request.SpanContext()
	running(t, engine.Run)
	running(t, consumer.Run)
	await.Until(t, "the event of the handler is published", func() bool { return len(named(spans, "publish "+bills)) == 1 })

	batches := named(spans, "publish "+orders)
	if len(batches) != 1 || len(batches[0].Links) != 1 || !batches[0].Links[0].SpanContext.Equal(wrote.WithRemote(true)) {
		t.Fatalf("batches %+v, want one with a link to %v", batches, wrote)
	}
	handled := named(spans, "process "+orders)
	if len(handled) != 1 || handled[0].SpanContext.TraceID() != wrote.TraceID() || handled[0].Parent.SpanID() != wrote.SpanID() || handled[0].SpanKind != trace.SpanKindConsumer {
		t.Fatalf("handlers %+v, want one in trace %v", handled, wrote.TraceID())
	}
	second := named(spans, "publish "+bills)[0]
	if len(second.Links) != 1 || second.Links[0].SpanContext.TraceID() != wrote.TraceID() || second.Links[0].SpanContext.SpanID() != handled[0].SpanContext.SpanID() {
		t.Errorf("the handler's event is linked to %+v, want the handler's span", second.Links)
	}
	for topic, writer := range map[string]trace.SpanContext{orders: wrote, bills: handled[0].SpanContext} {
		want := "00-" + writer.TraceID().String() + "-" + writer.SpanID().String() + "-01"
		var got []string
		for _, h := range kafkatest.Records(t, brokers, topic)[0].Headers {
			if h.Key == "traceparent" {
				got = append(got, string(h.Value))
			}
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("the record of %s has traceparent %q, want %q", topic, got, want)
		}
	}
	noSecrets(t, spans)
}
