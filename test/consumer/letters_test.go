//go:build integration && unix

package consumer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devkafka"
)

// What a handler could not handle is in the dead-letter topic, and is sent back when the handler is mended. Each effect is there once, also of what was handled before and is a letter all the
// same, of a redrive that was run twice, and of one that was told to send again.
func TestDeadLettersAreSentBackAndTheirEffectIsThereOnce(t *testing.T) {
	t.Parallel()
	const events, poisoned = 300, 60
	m := newMailroom(t)
	c, _ := m.consume()
	for n := range events {
		poison := 0
		if n%5 == 0 {
			poison = 1
		}
		m.produce(m.event(n, poison))
	}
	await.Until(t, "the letters", func() bool {
		return c.Stats().DeadLettered == poisoned && m.count(`SELECT count(*) FROM effect`) == events-poisoned
	})
	// An event that was handled, and is dead all the same.
	handled := m.event(1, 0)
	handled.Topic += "-dlt"
	handled.Headers = append(handled.Headers, kgo.RecordHeader{Key: inbox.HeaderOriginalTopic, Value: []byte(m.topic)}, kgo.RecordHeader{Key: inbox.HeaderError, Value: []byte("at a later step")})
	m.produce(handled)

	m.outbox(0, "dlt", "list", m.topic) // the first one warms up
	began := time.Now()
	list := m.outbox(0, "dlt", "list", m.topic, "--limit", "100")
	t.Logf("a list of %d letters took %s", poisoned+1, time.Since(began).Round(time.Millisecond))
	m.want(list, "no such account: 295", "at a later step", m.topic+"/", "looked at 61 of about 61 records")

	m.mended.Store(true)
	plan := m.outbox(0, "dlt", "redrive", m.topic, "--all", "--consumer", m.group, "--dry-run")
	m.want(plan, "redrive would send 61 letters", "61 to topic "+m.topic, "has handled 1 of them")
	m.want(m.outbox(0, "dlt", "redrive", m.topic, "--all", "--rate", "500", "--yes"), "redrive: 61 of 61 done")
	m.want(m.outbox(0, "dlt", "redrive", m.topic, "--all", "--yes"), "redrive: 0 of 61 done, 61 already done")
	m.want(m.outbox(0, "dlt", "redrive", m.topic, "--key", "account 0", "--again", "--yes"), "redrive: 30 of 30 done")
	await.Until(t, "all to be handled", func() bool { s := c.Stats(); return s.Handled+s.Repeats >= events+1+30 })
	for what, query := range map[string]string{
		"effects": `SELECT count(*) FROM effect`, "events with an effect": `SELECT count(DISTINCT event_id) FROM effect`, "remembered events": `SELECT count(*) FROM outbox.inbox`,
	} {
		if n := m.count(query); n != events {
			t.Errorf("%s: %d, want %d", what, n, events)
		}
	}
	if n := m.count(`SELECT count(*) FROM (SELECT seq, lag(seq) OVER (PARTITION BY account ORDER BY n) AS before FROM effect WHERE seq % 5 = 0) e WHERE seq <= before`); n != 0 {
		t.Errorf("%d letters were handled out of their key's order", n)
	}

	m.want(m.outbox(0, "dlt", "purge", m.topic, "--all", "--yes"), "deleted")
	m.want(m.outbox(0, "dlt", "list", m.topic), "no letter matches")
}

// A redrive that is killed goes on when it is run again: every letter is sent, in its order, and no more than a page of them twice for each kill.
func TestARedriveThatIsKilledGoesOn(t *testing.T) {
	t.Parallel()
	const letters, rate, kills = 2000, 300, 3
	m := newMailroom(t)
	for n := range letters {
		r := m.event(n, 0)
		r.Topic += "-dlt"
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: inbox.HeaderOriginalTopic, Value: []byte(m.topic)}, kgo.RecordHeader{Key: inbox.HeaderError, Value: []byte("timeout")})
		m.produce(r)
	}
	remembered := func() int { return m.count(`SELECT count(*) FROM outbox.redriven`) }
	for range kills {
		before := remembered()
		cmd := exec.Command(os.Args[0], "dlt", "redrive", m.topic, "--all", "--rate", fmt.Sprint(rate), "--yes")
		cmd.Env = append(os.Environ(), commandVariable+"=1", "DATABASE_URL="+m.url, "KAFKA_BROKERS="+strings.Join(brokers, ","))
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "some letters are sent", func() bool { return remembered() > before })
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		// Its job counts as under way for half a minute, and another redrive is refused until somebody ends it.
		m.want(m.outbox(1, "dlt", "redrive", m.topic, "--all", "--yes"), "nothing was sent; wait for its end, or end it, also when its command was killed: outbox jobs cancel")
		m.outbox(0, "jobs", "cancel", fmt.Sprint(m.count(`SELECT max(id) FROM outbox.job WHERE state = 'running'`)))
	}
	before := remembered()
	if before == 0 || before >= letters {
		t.Fatalf("%d letters were sent before the last kill", before)
	}
	m.want(m.outbox(0, "dlt", "redrive", m.topic, "--all", "--yes"), fmt.Sprintf("redrive: %d of %d done, %d already done", letters-before, letters, before))
	ends, err := kadm.NewClient(m.client).ListEndOffsets(t.Context(), m.topic)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	if total < letters || total > letters+kills*rate/10 {
		t.Errorf("%d records are there of %d letters: more than a page is sent twice for each kill, or some are lost", total, letters)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(m.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	seen, last, read := map[int]bool{}, map[string]int{}, int64(0)
	await.Until(t, "the records are read", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			var p paid
			if err := json.Unmarshal(r.Value, &p); err != nil {
				t.Error(err)
			}
			// Of a key, the first time of each event comes in the order of the letters.
			if key := string(r.Key); !seen[p.Seq] && p.Seq < last[key] {
				t.Errorf("event %d of %s comes first behind %d", p.Seq, key, last[key])
			} else {
				last[key] = max(last[key], p.Seq)
			}
			seen[p.Seq] = true
			read++
		})
		return read == total
	})
	if len(seen) != letters {
		t.Errorf("%d letters of %d are there", len(seen), letters)
	}
}

func bigEndian(n uint64, size int) []byte { return binary.BigEndian.AppendUint64(nil, n)[8-size:] }

// Letters as Spring and Kafka Connect write them, of topics with their names, are listed, shown, and sent back into the partitions that they are from.
func TestLettersOfOthersAreListedShownAndSentBack(t *testing.T) {
	t.Parallel()
	m := newMailroom(t)
	connect := m.topic + ".sink-errors"
	if err := devkafka.CreateTopic(t.Context(), brokers, connect, 1, nil); err != nil {
		t.Fatal(err)
	}
	now := uint64(time.Now().UnixMilli())
	header := func(name string, value []byte) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: value} }
	spring := m.event(1, 0)
	spring.Topic += "-dlt"
	spring.Headers = append(spring.Headers,
		header("kafka_original-topic", []byte(m.topic)), header("kafka_original-partition", bigEndian(2, 4)), header("kafka_original-offset", bigEndian(7, 8)), header("kafka_original-timestamp", bigEndian(now, 8)),
		header("kafka_original-timestamp-type", []byte("CreateTime")), header("kafka_original-consumer-group", []byte("billing")),
		header("retry_topic-original-timestamp", bigEndian(now, 6)), header("retry_topic-attempts", bigEndian(2, 4)), header("retry_topic-attempts", bigEndian(4, 4)), header("retry_topic-backoff-timestamp", bigEndian(now, 6)),
		header("kafka_exception-fqcn", []byte("org.springframework.kafka.listener.ListenerExecutionFailedException")), header("kafka_exception-cause-fqcn", []byte("java.lang.IllegalStateException")),
		header("kafka_exception-message", []byte("Listener failed; locked")), header("kafka_exception-stacktrace", []byte("org.springframework…\n\tat x.Y")),
	)
	sink := m.event(2, 0)
	sink.Topic = connect
	for name, value := range map[string]string{"topic": m.topic, "partition": "1", "offset": "9", "connector.name": "sink", "task.id": "0", "stage": "VALUE_CONVERTER", "class.name": "x.JsonConverter", "exception.class.name": "x.DataException", "exception.message": "no JSON"} {
		sink.Headers = append(sink.Headers, header("__connect.errors."+name, []byte(value)))
	}
	m.produce(spring, sink)

	list := m.outbox(0, "dlt", "list", m.topic, connect)
	m.want(list, "Listener failed; locked (java.lang.IllegalStateException)", "no JSON", m.topic+"/2/7", m.topic+"/1/9", "e-1", "e-2")
	m.want(m.outbox(0, "dlt", "show", connect+"/0/0"), "sink could not handle it: no JSON; it was in "+m.topic+", partition 1, offset 9", "__connect.errors.stage: VALUE_CONVERTER", `"account": "account 2"`)
	var found struct {
		Letters []struct{ Offset, Partition int }
	}
	if err := json.Unmarshal([]byte(m.outbox(0, "dlt", "list", m.topic, "--json")), &found); err != nil || len(found.Letters) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	m.want(m.outbox(0, "dlt", "show", fmt.Sprintf("%s-dlt/%d/0", m.topic, found.Letters[0].Partition)), "billing could not handle it in 3 attempts: Listener failed; locked")

	m.want(m.outbox(0, "dlt", "redrive", m.topic, connect, "--all", "--yes"), "redrive: 2 of 2 done")
	reader, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(m.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	got := map[string]*kgo.Record{}
	await.Until(t, "the records are back", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got[string(r.Headers[0].Value)] = r })
		return len(got) == 2
	})
	for n, partition := range map[int]int32{1: 2, 2: 1} {
		r, want := got[fmt.Sprint("e-", n)], m.event(n, 0)
		if r.Partition != partition || !bytes.Equal(r.Key, want.Key) || !bytes.Equal(r.Value, want.Value) || len(r.Headers) != 3 || !bytes.Equal(r.Headers[2].Value, want.Headers[2].Value) {
			t.Errorf("event %d is in partition %d: %s=%s %v", n, r.Partition, r.Key, r.Value, r.Headers)
		}
	}
}

// Kafka does not delete records of a topic that it compacts: that is said.
func TestATopicThatIsCompactedIsNotPurged(t *testing.T) {
	t.Parallel()
	m := newMailroom(t)
	topic := m.topic + ".compacted-dlt"
	if err := devkafka.CreateTopic(t.Context(), brokers, topic, 1, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	m.produce(&kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")})
	m.want(m.outbox(1, "dlt", "purge", topic, "--all", "--yes", "--lose", "1"), "not deleted: partition 0 of "+topic, "cleanup.policy delete")
}
