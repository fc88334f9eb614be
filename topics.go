package outbox

import (
	"slices"
	"strings"

	"github.com/outbox-relay/outbox/internal/topicname"
)

// Topics derives the topic of an event from its types: <service>.<aggregate-type>.<event-name>, each part in kebab-case. The event's name
// is its type without the version and without the aggregate's type in front:
//
//	Order   + order.confirmed.v1      →  order-service.order.confirmed
//	Product + ProductPriceChanged.v1  →  product-service.product.price-changed
//
// Words end at '.', '-' and '_', before an upper-case letter that follows a lower-case one or a digit, and before the last letter of an
// abbreviation: HTTPServer is http-server, OrderIDs is order-i-ds. The version is a last part after a point, such as v1. Where the rule gives
// a name that you would not choose, set [Event.Topic].
type Topics struct {
	// Service is the first part, in kebab-case, such as order-service. "" derives nothing.
	Service string
	// PerAggregate gives one topic for all the events of an aggregate type, <service>.<aggregate-type>, so that their order is kept.
	PerAggregate bool
}

// Topic returns the topic of an event, or an error that says what stands against it.
func (t Topics) Topic(aggregateType, eventType string) (string, error) {
	if f := checkService(t.Service); f != nil {
		return "", &topicError{"service", f}
	}
	topic, f := t.derive(aggregateType, eventType)
	if f == nil {
		f = checkTopic(topic)
	}
	if f != nil {
		return "", &topicError{"topic", f}
	}
	return topic, nil
}

// CheckTopic returns an error that says why Kafka does not take the name, or nil.
func CheckTopic(name string) error {
	if f := checkTopic(name); f != nil {
		return &topicError{"topic", f}
	}
	return nil
}

// topicError is an [ErrInvalid].
type topicError struct {
	what string
	*fault
}

func (e *topicError) Error() string        { return e.what + " " + e.fault.Error() }
func (e *topicError) Is(target error) bool { return target == ErrInvalid }

// derive follows the rule for a service that has been checked.
func (t Topics) derive(aggregateType, eventType string) (string, *fault) {
	aggregate, f := words("AggregateType", aggregateType)
	if f != nil {
		return "", f
	}
	topic := t.Service + "." + strings.Join(aggregate, "-")
	if t.PerAggregate {
		return topic, nil
	}
	name, f := eventName(aggregate, eventType)
	if f != nil {
		return "", f
	}
	return topic + "." + name, nil
}

func eventName(aggregate []string, eventType string) (string, *fault) {
	name, f := words("Type", withoutVersion(eventType))
	if f != nil {
		return "", f
	}
	if len(name) >= len(aggregate) && slices.Equal(name[:len(aggregate)], aggregate) {
		name = name[len(aggregate):]
	}
	if len(name) == 0 {
		return "", faultf("name what happened, as in order.confirmed.v1, or set Event.Topic",
			"cannot be derived: nothing remains of Type %q without the version and the aggregate's type", eventType)
	}
	return strings.Join(name, "-"), nil
}

// withoutVersion drops a last part such as .v1; a type that is nothing else becomes "".
func withoutVersion(eventType string) string {
	dot := strings.LastIndexByte(eventType, '.')
	last := eventType[dot+1:]
	if len(last) < 2 || last[0]|0x20 != 'v' || strings.Trim(last[1:], "0123456789") != "" {
		return eventType
	}
	return eventType[:max(dot, 0)]
}

// words splits a name into its words in lower case. No word at all is a fault of an aggregate type only.
func words(field, name string) ([]string, *fault) {
	var found []string
	var word []byte
	end := func() {
		if len(word) > 0 {
			found = append(found, string(word))
			word = nil
		}
	}
	for i, r := range name {
		switch {
		case r == '.' || r == '-' || r == '_':
			end()
		case isUpper(r):
			if beginsWord(name, i) {
				end()
			}
			word = append(word, byte(r)|0x20)
		case isLower(r) || isDigit(r):
			word = append(word, byte(r))
		default:
			return nil, faultf("set Event.Topic, or use ASCII letters, digits, '.', '-' and '_'",
				"cannot be derived: %s has the character %q at byte %d", field, r, i)
		}
	}
	end()
	if len(found) == 0 && field == "AggregateType" {
		return nil, faultf("set Event.Topic, or name the aggregate type with letters", "cannot be derived: AggregateType %q has no word", name)
	}
	return found, nil
}

// beginsWord tells whether the upper-case letter at i begins a word: after a lower-case letter or a digit, or as the last of several
// upper-case letters before a lower-case one.
func beginsWord(name string, i int) bool {
	if i == 0 {
		return false
	}
	before := rune(name[i-1])
	return isLower(before) || isDigit(before) || isUpper(before) && i+1 < len(name) && isLower(rune(name[i+1]))
}

func isUpper(r rune) bool { return 'A' <= r && r <= 'Z' }
func isLower(r rune) bool { return 'a' <= r && r <= 'z' }
func isDigit(r rune) bool { return '0' <= r && r <= '9' }

// checkService wants kebab-case, so that a topic looks the same whoever configures it. Parts joined by points are let through.
func checkService(service string) *fault {
	if f := checkTopic(service); f != nil {
		return f
	}
	for part := range strings.SplitSeq(service, ".") {
		kebab, f := words("Service", part)
		if f != nil {
			return f
		}
		if want := strings.Join(kebab, "-"); part != want || part == "" {
			return faultf("use kebab-case, such as order-service", "%q is not in kebab-case", service)
		}
	}
	return nil
}

// checkTopic holds Kafka's rule for names of topics.
func checkTopic(name string) *fault {
	if p := topicname.Check(name); p != nil {
		return &fault{p.Text, p.Advice}
	}
	return nil
}
