package kafka

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outbox-relay/outbox/relay"
)

// verdict is what an error of a produce means for the records that it came back with.
type verdict int

const (
	// lost: the outcome, or the producer's identity, is unknown. The client is given up and everything outstanding is sent again by
	// the next one. It is the verdict on every error that the table does not name: it loses nothing, and keeps the order.
	lost verdict = iota
	// rejected: the broker refused the batch because of one of its records and wrote none of it. Which one has to be found out.
	rejected
	// topicGone: the topic was deleted or made anew.
	topicGone
	// topicRefused: nothing can be written to the topic as things are, whatever the record.
	topicRefused
)

type ruling struct {
	verdict verdict
	// advice says what to do about it, for the error's text.
	advice string
}

// rulings decides about every code that ends a produce. Codes that are retriable by Kafka's own definition are not here: the client
// retries them for as long as it takes and never gives them back.
var rulings = map[*kerr.Error]ruling{
	// The batch failed the broker's validation before anything was appended. CORRUPT_MESSAGE is a checksum that did not match: it is
	// most likely the wire, but the client does not retry it, so it is sent again in halves like the others.
	kerr.MessageTooLarge:    {rejected, "raise the topic's max.message.bytes, or make the event smaller"},
	kerr.RecordListTooLarge: {rejected, "raise the topic's max.message.bytes or segment.bytes, or make the event smaller"},
	kerr.InvalidRecord:      {rejected, "look at the broker's log for what the topic does not accept"},
	kerr.CorruptMessage:     {rejected, "look at the network between the relay and the broker"},

	// The topic that the client knows is not there. A topic made anew has another id, which the client never learns by itself.
	kerr.UnknownTopicOrPartition: {topicGone, "create the topic"},
	kerr.UnknownTopicID:          {topicGone, "the topic was deleted or made anew; create it if it is missing"},
	kerr.InconsistentTopicID:     {topicGone, "the topic was made anew"},

	// A setting or a permission of the topic stands in the way of every record of it. Nothing was appended. Sending single events again
	// would blame them for it.
	kerr.TopicAuthorizationFailed:    {topicRefused, "grant the relay's user WRITE and DESCRIBE on the topic"},
	kerr.InvalidTopicException:       {topicRefused, "a topic's name has 1 to 249 of the characters a-z A-Z 0-9 . _ - and no others"},
	kerr.PolicyViolation:             {topicRefused, "a policy of the cluster forbids it; ask its operators"},
	kerr.UnsupportedForMessageFormat: {topicRefused, "raise the topic's message format to version 2"},
	kerr.UnsupportedCompressionType:  {topicRefused, "choose a compression that the broker knows"},
	// A record's time is the relay's, so no event is to blame for it.
	kerr.InvalidTimestamp:    {topicRefused, "compare the clocks of the relay's host and the broker, and the topic's message.timestamp settings"},
	kerr.InvalidRequiredAcks: {topicRefused, "the broker does not accept acks=all; look at what answers at this address"},

	// The producer's identity is gone or in doubt: the broker lost or expired its state, or somebody else has it. Only a new client is
	// sure to start clean.
	kerr.OutOfOrderSequenceNumber:           {lost, "the producer's state on the broker was lost; a new client is made"},
	kerr.UnknownProducerID:                  {lost, "the producer's state on the broker was lost; a new client is made"},
	kerr.InvalidProducerEpoch:               {lost, "the producer's state on the broker was lost; a new client is made"},
	kerr.InvalidProducerIDMapping:           {lost, "the producer's state on the broker was lost; a new client is made"},
	kerr.ProducerFenced:                     {lost, "the producer's identity was taken over; a new client is made"},
	kerr.DuplicateSequenceNumber:            {lost, "the producer's sequence is in doubt; a new client is made"},
	kerr.InvalidTxnState:                    {lost, "the producer's identity is used in a transaction elsewhere; a new client is made"},
	kerr.ConcurrentTransactions:             {lost, "the producer's identity is used in a transaction elsewhere; a new client is made"},
	kerr.UnknownServerError:                 {lost, "look at the broker's log"},
	kerr.InvalidRequest:                     {lost, "look at the broker's log"},
	kerr.UnsupportedVersion:                 {lost, "use brokers of Kafka 2.1 or newer"},
	kerr.SaslAuthenticationFailed:           {lost, "check the user name and the password"},
	kerr.UnsupportedSaslMechanism:           {lost, "choose a SASL mechanism that the brokers offer"},
	kerr.IllegalSaslState:                   {lost, "use SASL only with a listener that asks for it"},
	kerr.SecurityDisabled:                   {lost, "use SASL only with a listener that asks for it"},
	kerr.RebootstrapRequired:                {lost, "the cluster was replaced; a new client is made"},
	kerr.TransactionAbortable:               {lost, "a new client is made"},
	kerr.ClusterAuthorizationFailed:         {lost, "grant the relay's user WRITE on a topic, or IDEMPOTENT_WRITE on the cluster for brokers before 2.8"},
	kerr.TransactionalIDAuthorizationFailed: {lost, "grant the relay's user WRITE on its transactional ids"},
}

// codes of errors that Kafka has no code for.
const (
	codeDestroyed   = "CLIENT_DESTROYED"
	codeNotOpen     = "CLIENT_NOT_OPEN"
	codeUnreachable = "BROKERS_UNREACHABLE"
	codeUnexpected  = "UNEXPECTED_CLIENT_ERROR"
	codeNeighbour   = "HELD_BEHIND_ANOTHER"
	codeHeaders     = "INVALID_HEADERS"
	codePayload     = "INVALID_PAYLOAD"
	codeEventID     = "INVALID_EVENT_ID"
	codeTopic       = "INVALID_TOPIC"
	codePanic       = "UNRENDERABLE"
)

func rule(err error) ruling {
	var code *kerr.Error
	if errors.As(err, &code) {
		return rulings[code]
	}
	return ruling{}
}

func codeOf(err error, otherwise string) string {
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Message
	}
	return otherwise
}

// topicError says why nothing can be sent to a topic.
func topicError(name string, err error) *relay.PublishError {
	advice := rule(err).advice
	if advice == "" {
		advice = "look at the topic and at the broker's log"
	}
	return &relay.PublishError{
		Class: relay.ClassTopic, Code: codeOf(err, codeUnexpected), Topic: name,
		Err: fmt.Errorf("nothing can be published to it: %s", advice),
	}
}

// eventError says why the broker rejected an event that was sent alone.
func eventError(it *item, err error) *relay.PublishError {
	return &relay.PublishError{
		Class: relay.ClassEvent, Code: codeOf(err, codeUnexpected), Topic: it.rec.Topic, Passing: errors.Is(err, kerr.CorruptMessage),
		Err: fmt.Errorf("partition %d rejected the record of %d bytes, sent alone: %s",
			it.part.id, it.size+batchOverhead, rule(err).advice),
	}
}

// namedError says why the broker does not accept an event, in its own words if it has any.
func namedError(it *item, err error, reason string) *relay.PublishError {
	if reason == "" {
		reason = rule(err).advice
	}
	return &relay.PublishError{
		Class: relay.ClassEvent, Code: codeOf(err, codeUnexpected), Topic: it.rec.Topic,
		Err: fmt.Errorf("partition %d rejected the record: %s", it.part.id, reason),
	}
}

// likewiseError says that an event was not tried because a smaller one was too large.
func likewiseError(it, refused *item, code string) *relay.PublishError {
	return &relay.PublishError{
		Class: relay.ClassEvent, Code: code, Topic: it.rec.Topic,
		Err: fmt.Errorf("the record has %d bytes uncompressed, and one of %d bytes was just rejected for its size: %s",
			it.size+batchOverhead, refused.size+batchOverhead, rulings[kerr.MessageTooLarge].advice),
	}
}

// tooLargeError says that an event was not even tried.
func tooLargeError(it *item, limit int) *relay.PublishError {
	what := "the topic's max.message.bytes"
	if limit > maxBatchBytes {
		limit, what = maxBatchBytes, "what a request holds"
	}
	return &relay.PublishError{
		Class: relay.ClassEvent, Code: kerr.MessageTooLarge.Message, Topic: it.rec.Topic,
		// Tables cut a long text: both numbers stand at its beginning.
		Err: fmt.Errorf("the record has %d bytes uncompressed, of at most %d (%s): %s",
			it.size+batchOverhead, limit, what, rulings[kerr.MessageTooLarge].advice),
	}
}

// rowError says why a row cannot become a record.
func rowError(e *relay.Event, code string, err error) *relay.PublishError {
	return &relay.PublishError{Class: relay.ClassEvent, Code: code, Topic: e.Topic, Err: err}
}

func heldError(it *item, why string) *relay.PublishError {
	return &relay.PublishError{
		Class: relay.ClassHeld, Code: codeNeighbour, Topic: it.rec.Topic,
		Err: fmt.Errorf("not sent: %s", why),
	}
}

// unknownError is for what was outstanding when its client ended.
func unknownError(topic string, cause error) *relay.PublishError {
	return &relay.PublishError{Class: relay.ClassUnknown, Code: codeOf(cause, codeDestroyed), Topic: topic, Err: cause}
}

// refusals are what no waiting mends.
var refusals = []error{kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.ClusterAuthorizationFailed, kerr.UnsupportedVersion}

// plaintextToTLS is how the client words that it has read TLS where it expected an answer of Kafka; it has no error for that.
const plaintextToTLS = "plaintext connection speaking to a tls endpoint"

// lastingError is an outage that no waiting mends.
type lastingError struct{ error }

// Is tells that the configuration is to be mended.
func (e lastingError) Is(target error) bool { return target == relay.ErrConfiguration }

// Unwrap returns the outage.
func (e lastingError) Unwrap() error { return e.error }

// saidError says an error of the client in fewer words.
type saidError struct {
	text string
	err  error
}

func (e *saidError) Error() string { return e.text }

// Unwrap returns the error as the client has it.
func (e *saidError) Unwrap() error { return e.err }

// said leaves out what the text around it says already: the code, what Kafka calls it where the broker has words of its own, and the bytes by which the client has noticed TLS.
func said(err error, unencrypted bool) error {
	text := err.Error()
	var code *kerr.Error
	switch {
	case unencrypted:
		text = "this connection is without TLS"
	case errors.As(err, &code):
		text = strings.ReplaceAll(text, code.Message+": ", "")
		text = strings.ReplaceAll(text, code.Description+": ", "")
	}
	return &saidError{text, err}
}

// outageError says why the brokers cannot be used at all.
func (c Config) outageError(doing, brokers string, err error) *relay.PublishError {
	err = c.sent.discreet(err)
	unencrypted := strings.Contains(err.Error(), plaintextToTLS)
	text := fmt.Errorf("%s %s: %w", doing, brokers, said(err, unencrypted))
	advice := rule(err).advice
	if errors.Is(err, io.EOF) {
		advice = "the broker hung up: compare the settings of TLS and SASL with those of its listener"
	}
	if unencrypted {
		advice = "the listener speaks TLS: turn TLS on"
	}
	if advice != "" {
		text = fmt.Errorf("%w: %s", text, advice)
	}
	if unencrypted || isA[*tlsError](err) || isA[*tokenError](err) || slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) }) {
		text = lastingError{text}
	}
	return &relay.PublishError{Class: relay.ClassOutage, Code: codeOf(err, codeUnreachable), Err: text}
}
