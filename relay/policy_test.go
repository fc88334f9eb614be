package relay

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestFirstPolicyWhosePatternMatchesCounts(t *testing.T) {
	t.Parallel()
	c := Config{Policies: []Policy{{Topics: "orders.*", MaxAttempts: 1}, {Topics: "*.audit", MaxAttempts: 2}, {Topics: "a?c", MaxAttempts: 3}, {Topics: "*", MaxAttempts: 4}}}.withDefaults()
	for topic, want := range map[string]int{
		"orders.audit": 1, "orders.": 1, "orders": 4, "payments.audit": 2, "abc": 3, "abbc": 4, "ac": 4, "": 4, "xorders.y": 4, "a.b.audit": 2,
	} {
		if got := c.policyOf(topic).MaxAttempts; got != want {
			t.Errorf("topic %q: policy %d, want %d", topic, got, want)
		}
	}
	if p := (&Config{}).policyOf("x"); p.OnFailure != Park || p.attempts(failure(ClassEvent)) != 1 {
		t.Errorf("without policies: %+v, want one attempt and park", p)
	}
}

func TestPatternsOfManyStarsTakeNoTime(t *testing.T) {
	t.Parallel()
	if matches(strings.Repeat("*a", 200)+"b", strings.Repeat("a", 20_000)) {
		t.Error("a name without b matches a pattern that ends with b")
	}
}

func TestPoliciesThatCannotWorkAreRefusedAllAtOnce(t *testing.T) {
	t.Parallel()
	cfg := Config{Policies: []Policy{
		{Topics: "a", OnFailure: 7},
		{Topics: "b", MaxAttempts: -1},
		{Topics: "c", MinBackoff: time.Hour, MaxBackoff: time.Minute},
		{Topics: "d", OnFailure: Skip, DeadLetterTopic: "dead"},
		{Topics: "e", OnFailure: DeadLetter, DeadLetterTopic: "{topic}/dead"},
		{Topics: "f*", OnFailure: DeadLetter, DeadLetterTopic: "{topic}"},
		{Topics: "g", OnFailure: DeadLetter, DeadLetterTopic: "g"},
	}}
	_, err := New(&fakeSource{table: newFakeTable()}, &fakePublisher{kafka: newFakeKafka(), maxDelay: testDelay}, cfg)
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{`"a"`, `"b"`, `"c"`, `"d"`, `"e"`, "no action 7", "there are -1 attempts", "from 1h0m0s to 1m0s", "skip sends nothing there", `"{topic}/dead"`,
		`policy of topics "f*": dead-letter topic "{topic}" is the topic of the events themselves`, `policy of topics "g": dead-letter topic "g" is the topic`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %s:\n%v", part, err)
		}
	}
}

func TestBackoffDoublesUpToItsLimitAndNeverBelowItsLeast(t *testing.T) {
	t.Parallel()
	p := Policy{}.withDefaults()
	none := func(time.Duration) time.Duration { return 0 }
	all := func(d time.Duration) time.Duration { return d - 1 }
	for made, want := range map[int]time.Duration{1: 2 * time.Second, 2: 4 * time.Second, 8: 256 * time.Second, 9: 5 * time.Minute, 63: 5 * time.Minute, 1 << 40: 5 * time.Minute} {
		if least, most := p.backoff(made, none), p.backoff(made, all)+1; least != time.Second || most != want {
			t.Errorf("after %d attempts from %s to %s, want 1s to %s", made, least, most, want)
		}
	}
}

func TestAttemptsDependOnWhetherTimeMayCure(t *testing.T) {
	t.Parallel()
	passing, lasting := &PublishError{Class: ClassEvent, Passing: true, Err: errors.New("x")}, failure(ClassEvent)
	for _, c := range []struct{ max, passing, lasting int }{{0, DefaultAttempts, 1}, {1, 1, 1}, {7, 7, 7}} {
		p := Policy{MaxAttempts: c.max}
		if p.attempts(passing) != c.passing || p.attempts(lasting) != c.lasting {
			t.Errorf("MaxAttempts %d: %d and %d attempts, want %d and %d", c.max, p.attempts(passing), p.attempts(lasting), c.passing, c.lasting)
		}
	}
}
