package outbox_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox"
)

type topicVector struct {
	Aggregate    string
	Type         string
	Topic        string
	PerAggregate string
	Error        string
}

func topicVectors(t testing.TB) []topicVector {
	t.Helper()
	text, err := os.ReadFile("testdata/topics.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []topicVector
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	return vectors
}

func TestTopicsFollowTheRule(t *testing.T) {
	t.Parallel()
	for _, v := range topicVectors(t) {
		got, err := outbox.Topics{Service: "order-service"}.Topic(v.Aggregate, v.Type)
		switch {
		case v.Error != "":
			if !errors.Is(err, outbox.ErrInvalid) || !strings.Contains(err.Error(), v.Error) {
				t.Errorf("%s + %s: %q, error %v, want one with %q", v.Aggregate, v.Type, got, err, v.Error)
			}
		case err != nil || got != v.Topic:
			t.Errorf("%s + %s: %q, %v, want %q", v.Aggregate, v.Type, got, err, v.Topic)
		}
		if v.PerAggregate == "" {
			continue
		}
		got, err = outbox.Topics{Service: "order-service", PerAggregate: true}.Topic(v.Aggregate, v.Type)
		if err != nil || got != v.PerAggregate {
			t.Errorf("%s per aggregate: %q, %v, want %q", v.Aggregate, got, err, v.PerAggregate)
		}
	}
}

func TestTheServiceIsInKebabCase(t *testing.T) {
	t.Parallel()
	for service, says := range map[string]string{
		"order-service": "", "shop.order-service": "", "s3": "",
		"": "is empty", "OrderService": "kebab-case", "order_service": "kebab-case", "-order": "kebab-case", "a..b": "kebab-case",
		"order service": "' '", "заказ": `"з"`,
	} {
		topic, err := outbox.Topics{Service: service}.Topic("Order", "order.confirmed.v1")
		if says == "" && (err != nil || topic != service+".order.confirmed") {
			t.Errorf("%q: %q, %v", service, topic, err)
		}
		if says != "" && (err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `" "`, `' '`), says)) {
			t.Errorf("%q: error %v, want one with %q", service, err, says)
		}
	}
}

func TestNamesThatKafkaRefusesAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 249)
	for name, says := range map[string]string{
		"a": "", "A_b-c.1": "", "...": "", long: "",
		"": "is empty", ".": `is "."`, "..": `is ".."`, long + "a": "has 250 characters",
		"a b": `" " at byte 1`, "a/b": `"/" at byte 1`, "é": `"é" at byte 0`, "a\x00": `"\x00" at byte 1`, "a\xff": `"\xff" at byte 1`,
	} {
		err := outbox.CheckTopic(name)
		if says == "" && err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: error %v, want one with %s", name, err, says)
		}
	}
}

func TestADerivedTopicThatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	_, err := outbox.Topics{Service: "order-service"}.Topic("Order", strings.Repeat("a", 249))
	if err == nil || !strings.Contains(err.Error(), "has 269 characters") {
		t.Errorf("error %v", err)
	}
}

func TestAWriterDerivesTheTopicOfEventsThatNameNone(t *testing.T) {
	t.Parallel()
	w := newWriter(t, outbox.Config{Topics: outbox.Topics{Service: "order-service"}})
	derived, named := confirmed(), confirmed()
	derived.Topic, named.Topic = "", "elsewhere"
	_, args, err := w.Statement(derived, named)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"order-service.order.confirmed","elsewhere"}`; args[5] != want {
		t.Errorf("topics %v, want %s", args[5], want)
	}
}
