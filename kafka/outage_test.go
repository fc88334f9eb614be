package kafka

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outbox-relay/outbox/relay"
)

func TestAnOutageSaysNothingTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		want    string
		lasting bool
	}{
		"a refused password": {
			fmt.Errorf("%w: Authentication failed due to invalid credentials", kerr.SaslAuthenticationFailed),
			"SASL_AUTHENTICATION_FAILED: reach kafka at h:1: Authentication failed due to invalid credentials: check the user name and the password", true,
		},
		"a broker without words": {
			kerr.UnsupportedVersion, "UNSUPPORTED_VERSION: reach kafka at h:1: " + kerr.UnsupportedVersion.Description + ": use brokers of Kafka 2.1 or newer", true,
		},
		"TLS": {
			errors.New("invalid large response size 352518912 > limit 1; is this a " + plaintextToTLS + "?"),
			"BROKERS_UNREACHABLE: reach kafka at h:1: this connection is without TLS: the listener speaks TLS: turn TLS on", true,
		},
		"another": {errors.New("no route"), "BROKERS_UNREACHABLE: reach kafka at h:1: no route", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Config{}.outageError("reach kafka at", "h:1", c.err)
			if err.Error() != c.want || !errors.Is(err, c.err) || errors.Is(err, relay.ErrConfiguration) != c.lasting {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
