package benchmark

import (
	"crypto/rand"
	"regexp"
	"strings"
	"time"
)

// The forms of a run's name, for its schema and for its topic.
const (
	schemaPrefix = "outbox_bench_"
	topicPrefix  = "outbox-bench-"
	stampForm    = "20060102_150405"
)

var runForm = regexp.MustCompile(`^outbox_bench_(\d{8}_\d{6})_[a-z0-9]{6}$`)

// newName names a run by when it is, in UTC, and at random.
func newName(now time.Time) string {
	return schemaPrefix + now.UTC().Format(stampForm) + "_" + strings.ToLower(rand.Text()[:6])
}

func topicOf(schema string) string { return strings.ReplaceAll(schema, "_", "-") }

// schemaOf is the schema of the run that a topic is of; false when it is no run's.
func schemaOf(topic string) (schema string, of bool) {
	schema = strings.ReplaceAll(topic, "-", "_")
	_, of = madeAt(schema)
	return schema, of && topicOf(schema) == topic
}

// madeAt is when the run began, as its name says.
func madeAt(schema string) (time.Time, bool) {
	parts := runForm.FindStringSubmatch(schema)
	if parts == nil {
		return time.Time{}, false
	}
	at, err := time.Parse(stampForm, parts[1])
	return at, err == nil
}
