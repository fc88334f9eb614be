package kafka

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fetched is what one poll has of a partition: its log's start, and records from first up to the one before end.
func fetched(start, first, end int64) kgo.FetchTopicPartition {
	p := kgo.FetchTopicPartition{Topic: orders}
	p.LogStartOffset = start
	for o := first; o < end; o++ {
		p.Records = append(p.Records, &kgo.Record{Topic: orders, Offset: o})
	}
	return p
}

func TestRecordsThatAreMissingAreSaidOnceAndNoOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from  int64
		polls []kgo.FetchTopicPartition
		want  []string
	}{
		"all are there":                 {5, []kgo.FetchTopicPartition{fetched(0, 5, 9), fetched(0, 9, 12)}, nil},
		"the group is new":              {-1, []kgo.FetchTopicPartition{fetched(100, 100, 110)}, nil},
		"removed before the first poll": {5, []kgo.FetchTopicPartition{fetched(8, 8, 9), fetched(8, 9, 10)}, []string{"from=5 to=8 records=3"}},
		"removed between two polls":     {5, []kgo.FetchTopicPartition{fetched(0, 5, 9), fetched(20, 20, 21)}, []string{"from=9 to=20 records=11"}},
		"all of it removed":             {5, []kgo.FetchTopicPartition{fetched(8, 0, 0), fetched(8, 8, 9)}, []string{"from=5 to=8 records=3"}},
		"removed behind what was read":  {5, []kgo.FetchTopicPartition{fetched(0, 5, 9), fetched(7, 9, 12)}, nil},
		"removed while it was read":     {5, []kgo.FetchTopicPartition{fetched(9, 5, 9), fetched(9, 9, 12)}, nil},
		// Neither compaction nor the end of a transaction is a loss.
		"a hole":   {5, []kgo.FetchTopicPartition{fetched(0, 6, 9), fetched(0, 11, 12)}, nil},
		"cut back": {5, []kgo.FetchTopicPartition{fetched(0, 2, 4), fetched(0, 4, 6)}, []string{"from=5 to=2"}},
	} {
		var out bytes.Buffer
		l := newConsumerLog(Config{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		at := kgo.NewOffset().At(c.from)
		if c.from < 0 {
			at = kgo.NewOffset().AtStart()
		}
		if _, err := l.begin(context.Background(), map[string]map[int32]kgo.Offset{orders: {0: at}}); err != nil {
			t.Fatal(err)
		}
		for _, p := range c.polls {
			l.check(p)
		}
		said := strings.Count(out.String(), "\n")
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: this lacks %s:\n%s", name, want, out.String())
			}
		}
		if said != len(c.want) {
			t.Errorf("%s: %d lines, want %d:\n%s", name, said, len(c.want), out.String())
		}
	}
}

func TestASessionTimeoutThatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]ConsumerConfig{
		"the brokers choose it": {NextGen: true, SessionTimeout: time.Minute},
		"at least 1s":           {SessionTimeout: time.Millisecond},
		"session timeout -1s":   {SessionTimeout: -time.Second},
	} {
		cfg.Brokers, cfg.Topics = []string{"localhost:9092"}, []string{orders}
		if _, err := NewConsumer(&desk{}, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}
