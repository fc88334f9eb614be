package kafka

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Every code that Kafka has is walked: it is retried by the client, or ruled on, or none that a produce brings.
func TestEveryCodeOfKafkaHasOneMeaning(t *testing.T) {
	t.Parallel()
	ruled := map[verdict][]*kerr.Error{
		rejected:  {kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.CorruptMessage},
		topicGone: {kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID},
		topicRefused: {
			kerr.TopicAuthorizationFailed, kerr.InvalidTopicException, kerr.PolicyViolation, kerr.UnsupportedForMessageFormat,
			kerr.UnsupportedCompressionType, kerr.InvalidRequiredAcks, kerr.InvalidTimestamp,
		},
	}
	want := map[*kerr.Error]verdict{}
	for v, codes := range ruled {
		for _, code := range codes {
			want[code] = v
		}
	}
	seen := 0
	for n := int16(-1); n < 200; n++ {
		err := kerr.ErrorForCode(n)
		var code *kerr.Error
		if !errors.As(err, &code) || code == kerr.UnknownServerError && n != -1 {
			continue
		}
		seen++
		wrapped := fmt.Errorf("%w (uncompressed_bytes=1)", code)
		if got := rule(wrapped).verdict; got != want[code] { // what is not named is lost
			t.Errorf("%s: verdict %d, want %d", code.Message, got, want[code])
		}
		if _, ok := rulings[code]; ok && rule(code).advice == "" {
			t.Errorf("%s: no advice", code.Message)
		}
		if got := codeOf(wrapped, ""); got != code.Message {
			t.Errorf("%s: code %q", code.Message, got)
		}
	}
	if seen < 130 {
		t.Errorf("%d codes walked; Kafka has more", seen)
	}
}

func TestAnErrorWithoutACodeIsLost(t *testing.T) {
	t.Parallel()
	for _, err := range []error{kgo.ErrClientClosed, errors.New("topic purged while buffered"), kgo.ErrRecordTimeout} {
		if got := rule(err).verdict; got != lost {
			t.Errorf("%v: verdict %d, want lost", err, got)
		}
	}
}
