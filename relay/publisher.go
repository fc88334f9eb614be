package relay

import (
	"context"
	"time"
)

// Publisher hands events to Kafka. Package kafka implements it. It owns its client, and can destroy and remake it.
type Publisher interface {
	// Open makes a client that can publish, and proves it: the brokers answer, the credentials are right, a producer id was given.
	// A client that is open already is kept if it is healthy and has nothing outstanding. ctx bounds the call, not the client's life.
	Open(ctx context.Context) error
	// Publish hands events over in order and returns without waiting for the broker. done is called once for each event, from any
	// goroutine, one call at a time, and must return at once. Events of one key arrive in one call, or after all earlier ones are done. Publish may be
	// called from two goroutines at the same time, with different keys. Without an open client every event is done with ClassUnknown.
	//
	// A nil error means that the event is in Kafka. Otherwise [ClassOf] tells what to do:
	//   - ClassEvent: this event, alone, is the reason.
	//   - ClassTopic: nothing of that topic can be sent now. It was not sent.
	//   - ClassHeld: not sent, through no fault of its own.
	//   - ClassUnknown: the client is gone; it may or may not be in Kafka.
	// When an event fails, later events of its key in the same call fail too and are not in Kafka: theirs is ClassHeld, or the same class. With
	// ClassUnknown none of them can be in Kafka unless all earlier ones are.
	//
	// An outage is no error: the Publisher retries for as long as it takes. One that is reported nevertheless ends the term like ClassUnknown.
	Publish(events []*Event, done func(*Event, error))
	// CheckTopics tells for each topic why it cannot be published to now: nil, or an error of ClassTopic. The error is for an outage.
	CheckTopics(ctx context.Context, topics []string) (map[string]error, error)
	// MaxDelay is how long a produce that was on its way when Destroy was called may still take effect: the produce timeout and its
	// overhead. The relay keeps that much of the lease in reserve.
	MaxDelay() time.Duration
	// SilentFrom sets from when on nothing may leave the process for a broker any more, as after Destroy: it holds even if the caller, or the whole
	// process, stands still at that time and goes on later. The zero time takes the limit back. It may be called at any time, and lasts over Open.
	SilentFrom(t time.Time)
	// Destroy silences the client: when it returns, no byte leaves this process for a broker any more, and every outstanding event is
	// done with ClassUnknown. It is safe to call twice, and from any goroutine.
	Destroy()
}
