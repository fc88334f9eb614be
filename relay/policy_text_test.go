package relay

import (
	"strings"
	"testing"
	"time"
)

func TestPoliciesAreReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Policy{
		"park":                   {},
		"skip":                   {OnFailure: Skip},
		"orders.*=dead-letter":   {Topics: "orders.*", OnFailure: DeadLetter},
		"*=park attempts=3":      {Topics: "*", MaxAttempts: 3},
		" a?c=skip  backoff=2s ": {Topics: "a?c", OnFailure: Skip, MinBackoff: 2 * time.Second},
		"dead-letter topic=d.{topic} attempts=7 backoff=1s..1m": {OnFailure: DeadLetter, DeadLetterTopic: "d.{topic}", MaxAttempts: 7, MinBackoff: time.Second, MaxBackoff: time.Minute},
	} {
		if got, err := ParsePolicy(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestPoliciesThatCannotBeReadSayWhat(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                             "empty",
		"orders.*":                     `"orders.*" is no action: use park, dead-letter or skip`,
		"orders=drop":                  `"drop" is no action`,
		"=skip":                        "no pattern",
		"skip attempts=0":              "1 or more",
		"skip attempts=many":           "1 or more",
		"skip attempts=1 attempts=2":   "twice",
		"skip backoff=1":               "duration",
		"skip backoff=5m..1s":          "duration",
		"skip wait=1s":                 `"wait" is unknown`,
		"skip topic=dead":              "skip sends nothing there",
		"dead-letter topic={topic}":    "the topic of the events themselves",
		"a=dead-letter topic=a":        "the topic of the events themselves",
		"dead-letter topic=":           "needs a name",
		"dead-letter topic=dead/topic": "dead/topic",
	} {
		if _, err := ParsePolicy(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}
