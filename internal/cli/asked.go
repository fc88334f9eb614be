package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/config"
)

// asked is what somebody has asked for, as the audit and the jobs keep it, in the words of the command: what it is called, and with which arguments and flags. What a filter
// holds that no flag says stands behind as name=value.
func asked(verb string, filter []byte) (what, to string) {
	decoder := json.NewDecoder(bytes.NewReader(filter))
	// The digits of an id stay as they are.
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return verb, string(filter)
	}
	// The request of a single change is the relay's affair.
	if verb != "cancel" {
		delete(fields, "request")
	}
	events, ofEvents := fields["events"].(map[string]any)
	keys, ofKeys := fields["keys"].(map[string]any)
	event, ofEvent := fields["event"].(map[string]any)
	switch {
	case verb == "cancel":
		return "jobs cancel", cancelled(fields)
	case verb == "redrive" || verb == "purge":
		return "dlt " + verb, letters(fields)
	case verb == "forget":
		return "inbox forget", narrowed(fields)
	case verb == "prune":
		return verb, pruned(fields)
	case fields["scope"] != nil:
		return verb, paused(fields)
	case verb == "replay":
		return verb, narrowed(events)
	case ofEvents:
		return "events " + verb, narrowed(events)
	case ofEvent:
		return "events " + verb, ids([]any{event})
	case ofKeys:
		return "keys " + verb, narrowed(keys)
	case fields["topic"] != nil:
		return "keys " + verb, oneKey(fields)
	}
	return verb, others(fields)
}

// flagsOf are the fields of a filter that flags say, in the order of the help.
var flagsOf = []struct{ field, flag string }{
	{"state", "state"}, {"topic", "topic"}, {"partition_key", "key"}, {"event_type", "type"}, {"code", "code"}, {"aggregate_type", "aggregate-type"}, {"aggregate_id", "aggregate-id"},
	{"error", "error"}, {"min_age_ns", "older-than"}, {"max_age_ns", "newer-than"}, {"created_from", "from"}, {"created_until", "until"}, {"min_id", "min-id"}, {"max_id", "max-id"},
	{"key", "key"}, {"type", "type"}, {"from", "from"}, {"until", "until"}, {"before", "before"}, {"to", "to"}, {"consumer", "consumer"}, {"event_ids", "event-id"}, {"rate", "rate"}, {"all", "all"}, {"again", "again"}, {"force", "force"},
	{"older_than", "older-than"}, {"keep", "keep"}, {"ahead", "ahead"},
}

// narrowed is a filter of events or keys.
func narrowed(fields map[string]any) string {
	left := maps.Clone(fields)
	if left["state"] == "any" {
		delete(left, "state")
	}
	var list []string
	if named, ok := left["events"].([]any); ok {
		list = append(list, ids(named))
		delete(left, "events")
	}
	for _, f := range flagsOf {
		if value, given := left[f.field]; given {
			list = append(list, flagText(f.flag, value))
			delete(left, f.field)
		}
	}
	if rest := others(left); rest != "" {
		list = append(list, rest)
	}
	if len(list) == 0 {
		return "--all"
	}
	return strings.Join(list, " ")
}

func flagText(flag string, value any) string {
	if value == true {
		return "--" + flag
	}
	if several, ok := value.([]any); ok {
		texts := make([]string, len(several))
		for i, v := range several {
			texts[i] = fmt.Sprint(v)
		}
		value = strings.Join(texts, ",")
	}
	text := fmt.Sprint(value)
	if n, ok := value.(json.Number); ok && strings.HasSuffix(flag, "-than") {
		if ns, err := n.Int64(); err == nil {
			text = config.DurationText(time.Duration(ns))
		}
	}
	if flag == "key" && text == "" {
		return "--" + emptyKeyFlag
	}
	return "--" + flag + " " + advice.Word(text)
}

// letters are dead letters that were to be sent back or deleted: their topics, or they themselves, and what narrows them.
func letters(fields map[string]any) string {
	left := maps.Clone(fields)
	var list []string
	topics, _ := left["topics"].([]any)
	for _, t := range topics {
		list = append(list, advice.Word(fmt.Sprint(t)))
	}
	named, _ := left["letters"].([]any)
	for _, n := range named {
		ref, _ := n.(map[string]any)
		list = append(list, advice.Word(fmt.Sprintf("%v/%v/%v", ref["topic"], cmp.Or(ref["partition"], any(json.Number("0"))), cmp.Or(ref["offset"], any(json.Number("0"))))))
	}
	// How far a purge goes is found by it, and was on no command line.
	for _, name := range []string{"topics", "letters", "through"} {
		delete(left, name)
	}
	if len(left) > 0 {
		list = append(list, narrowed(left))
	}
	return strings.Join(list, " ")
}

// ids are events that are named, each by one of its ids.
func ids(named []any) string {
	list := make([]string, len(named))
	for i, n := range named {
		ref, _ := n.(map[string]any)
		id := ref["id"]
		if id == nil {
			id = ref["event_id"]
		}
		list[i] = fmt.Sprint(id)
	}
	return strings.Join(list, " ")
}

func oneKey(fields map[string]any) string {
	key := fields["partition_key"]
	if key == nil {
		// An empty one is left out where it is kept.
		key = ""
	}
	return narrowed(map[string]any{"topic": fields["topic"], "partition_key": key})
}

// paused is what a pause is of, as arguments.
func paused(fields map[string]any) string {
	word := func(name string) string {
		text, _ := fields[name].(string)
		return advice.Word(text)
	}
	switch fields["scope"] {
	case "topic":
		return "topic " + word("topic")
	case "key":
		return "key " + word("topic") + " " + word("partition_key")
	}
	return "relay"
}

func cancelled(fields map[string]any) string {
	if id := fields["request"]; id != nil {
		return fmt.Sprintf("--request %v", id)
	}
	return fmt.Sprint(fields["job"])
}

// pruned is what was to be deleted.
func pruned(fields map[string]any) string {
	var list []string
	part := func(name string) map[string]any {
		fields, _ := fields[name].(map[string]any)
		return fields
	}
	if p := part("partitions"); p != nil {
		list = append(list, "--partitions "+narrowed(p))
	}
	if e := part("events"); e != nil {
		list = append(list, narrowed(e))
	}
	for _, name := range []string{"dead", "audit"} {
		if p := part(name); p != nil {
			list = append(list, flagText(name, p["older_than"]))
		}
	}
	return strings.Join(list, " ")
}

// others are fields that no flag says.
func others(fields map[string]any) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text, _ := json.Marshal(fields[name])
		list = append(list, name+"="+string(text))
	}
	return strings.Join(list, " ")
}
