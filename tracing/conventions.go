package tracing

import (
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/relay"
)

// All names are in this file: those of OpenTelemetry's conventions for messaging, and where these have none, our own.

const (
	// scope is the instrumentation that the spans are of.
	scope = "github.com/outbox-relay/outbox/tracing"

	operationPublish = "publish"
	operationProcess = "process"

	keyEventType = attribute.Key("outbox.event.type")
	// keyFailed counts the events of a batch that are not in Kafka, or of which that is not known.
	keyFailed = attribute.Key("outbox.batch.failed_count")
)

// batchSpan is how the span of a batch begins. The events' own spans are linked, so this one is no parent of the records: it is a client's.
func batchSpan(events []*relay.Event) (name string, options []trace.SpanStartOption) {
	attributes := []attribute.KeyValue{
		semconv.MessagingSystemKafka,
		semconv.MessagingOperationName(operationPublish), semconv.MessagingOperationTypeSend,
		semconv.MessagingBatchMessageCount(len(events)),
	}
	name = operationPublish
	if topic, only := onlyTopic(events); only {
		name += " " + topic
		attributes = append(attributes, semconv.MessagingDestinationName(topic))
	}
	return name, []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...)}
}

func onlyTopic(events []*relay.Event) (topic string, only bool) {
	for _, e := range events[1:] {
		if e.Topic != events[0].Topic {
			return "", false
		}
	}
	return events[0].Topic, true
}

func eventLink(e *relay.Event, of trace.SpanContext) trace.Link {
	return trace.Link{SpanContext: of, Attributes: []attribute.KeyValue{
		semconv.MessagingMessageID(e.EventID.String()), semconv.MessagingDestinationName(e.Topic), keyEventType.String(e.Type),
	}}
}

// handlerSpan is how the span of a handler begins.
func handlerSpan(consumer string, e inbox.Event[[]byte]) (name string, options []trace.SpanStartOption) {
	r := e.Record
	return operationProcess + " " + r.Topic, []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		semconv.MessagingSystemKafka,
		semconv.MessagingOperationName(operationProcess), semconv.MessagingOperationTypeProcess,
		semconv.MessagingDestinationName(r.Topic),
		semconv.MessagingDestinationPartitionID(strconv.Itoa(int(r.Partition))),
		semconv.MessagingKafkaOffset(int(r.Offset)),
		semconv.MessagingConsumerGroupName(consumer),
		semconv.MessagingMessageID(e.ID),
		keyEventType.String(e.Type),
	)}
}

// failedWith says why in a word: a code of this product's, or the error's type.
func failedWith(err error) attribute.KeyValue {
	if code, _ := relay.ReasonOf(err); code != "" {
		return semconv.ErrorTypeKey.String(code)
	}
	return semconv.ErrorType(err)
}
