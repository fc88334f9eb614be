package kafka

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// rejectionLog says that Kafka rejected records: for each topic and code at most one line in repeatAfter, with the count of what had none since the last one. The halves
// of one batch are rejected again and again until the culprit is alone, so a line for each would be many for one mistake.
type rejectionLog struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	said map[rejectionKind]*rejectionCount
}

type rejectionKind struct{ topic, code string }

func (k rejectionKind) compare(other rejectionKind) int {
	return cmp.Or(cmp.Compare(k.topic, other.topic), cmp.Compare(k.code, other.code))
}

type rejectionCount struct {
	at time.Time
	// rejections and records count what had no line since.
	rejections, records int
}

func newRejectionLog(log *slog.Logger, now func() time.Time) *rejectionLog {
	return &rejectionLog{log: log, now: now, said: map[rejectionKind]*rejectionCount{}}
}

func (l *rejectionLog) say(topic string, partition int32, code, advice string, records int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, kind := l.now(), rejectionKind{topic, code}
	c := l.said[kind]
	if c != nil && now.Sub(c.at) < repeatAfter {
		c.rejections++
		c.records += records
		return
	}
	if c == nil {
		c = &rejectionCount{}
	}
	l.log.Warn("kafka rejected records; sending them again in parts", "topic", topic, "partition", partition,
		"code", code, "records", records, "rejections_unsaid", c.rejections, "records_unsaid", c.records, "note", advice)
	l.said[kind] = &rejectionCount{at: now}
}

// close says how many had no line, for there will be none after it.
func (l *rejectionLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range slices.SortedFunc(maps.Keys(l.said), rejectionKind.compare) {
		if c := l.said[kind]; c.rejections > 0 {
			l.log.Warn("kafka rejected more records since it was said last", "topic", kind.topic, "code", kind.code,
				"rejections", c.rejections, "records", c.records)
		}
	}
	clear(l.said)
}
