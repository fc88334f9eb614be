//go:build integration && unix

package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/test/chaos/history"
)

// judge waits until everything is settled, stops the relays, and compares the witnesses. What never settles, the report tells.
func (l *lab) judge() *history.Report {
	l.t.Helper()
	if !l.drain() {
		for _, r := range l.relays {
			l.t.Logf("%d events stay unpublished; %s says:\n%s", l.unpublished(), r.name(), r.said.tail(15))
		}
	}
	for _, r := range l.relays {
		r.stop()
	}
	return history.Check(l.history())
}

// drain waits until everything is settled, for as long as that goes on.
func (l *lab) drain() bool {
	left := l.unpublished()
	for left != 0 {
		fewer := func() bool {
			n := l.unpublished()
			if n < 0 || (left >= 0 && n >= left) {
				return false
			}
			left = n
			return true
		}
		if !poll(waitLimit, fewer) {
			return false
		}
	}
	return true
}

func (l *lab) history() *history.History {
	l.t.Helper()
	conn := l.connect(l.database)
	defer conn.Close(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	h := &history.History{}
	if err := l.ledger.balance(ctx, conn, h); err != nil {
		l.t.Fatal(err)
	}
	if !l.deletes {
		h.Rows = l.rows(ctx, conn)
	}
	h.Parked = l.parked(ctx, conn)
	h.Records = l.records(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		h.Faults = append(h.Faults, *f)
	}
	h.Faults = append(h.Faults, l.interruptions()...)
	return h
}

func (l *lab) rows(ctx context.Context, conn *pgx.Conn) map[uuid.UUID]history.Row {
	l.t.Helper()
	rows, err := conn.Query(ctx, "SELECT event_id, created_at, published_at FROM outbox_event")
	if err != nil {
		l.t.Fatal(err)
	}
	found := map[uuid.UUID]history.Row{}
	var id uuid.UUID
	var created time.Time
	var published *time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &created, &published}, func() error {
		row := history.Row{CreatedAt: created}
		if published != nil {
			row.PublishedAt = *published
		}
		found[id] = row
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return found
}

func (l *lab) parked(ctx context.Context, conn *pgx.Conn) map[history.Stream]string {
	l.t.Helper()
	rows, err := conn.Query(ctx, "SELECT topic, partition_key, code || ' at event ' || event_id FROM outbox.parked_key")
	if err != nil {
		l.t.Fatal(err)
	}
	found := map[history.Stream]string{}
	var s history.Stream
	var reason string
	if _, err = pgx.ForEachRow(rows, []any{&s.Topic, &s.Key, &reason}, func() error {
		found[s] = reason
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	return found
}

// records reads the topics from offset 0 to where they end now.
func (l *lab) records(ctx context.Context) []history.Record {
	l.t.Helper()
	left := l.appended(ctx)
	if left < 0 {
		l.t.Fatal("no broker tells where the topics end")
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(l.cluster.Brokers()...), kgo.ConsumeTopics(l.topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(4<<20))
	if err != nil {
		l.t.Fatal(err)
	}
	defer client.Close()
	records, names := make([]history.Record, 0, left), map[string]string{}
	for int64(len(records)) < left {
		more, cancel := context.WithTimeout(ctx, waitLimit)
		fetches := client.PollFetches(more)
		err := more.Err()
		cancel()
		if fetches.NumRecords() == 0 && err != nil {
			l.t.Fatalf("read the topics: %d of %d records: %v", len(records), left, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { records = append(records, l.record(r, names)) })
	}
	return records
}

// appended is how many records the topics hold; -1 when no broker tells.
func (l *lab) appended(ctx context.Context) int64 {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	ends, err := l.cluster.admin.ListEndOffsets(ctx, l.topics...)
	if err != nil || ends.Error() != nil {
		return -1
	}
	n := int64(0)
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// record keeps nothing of what was fetched, and each name once.
func (l *lab) record(r *kgo.Record, names map[string]string) history.Record {
	key, known := names[string(r.Key)]
	if !known {
		key = string(r.Key)
		names[key] = key
	}
	topic := l.topics[slices.Index(l.topics, r.Topic)]
	rec := history.Record{Stream: history.Stream{Topic: topic, Key: key}, Partition: r.Partition, Offset: r.Offset, At: r.Timestamp}
	for _, h := range r.Headers {
		if h.Key == kafka.HeaderEventID {
			rec.ID, _ = uuid.Parse(string(h.Value)) // an id that cannot be read is one that nobody knows
		}
	}
	var p payload
	if err := json.Unmarshal(r.Value, &p); err != nil {
		l.t.Errorf("the value at offset %d of %s is %q: %v", r.Offset, r.Topic, r.Value, err)
	}
	rec.Seq = p.Seq
	return rec
}

// interruptions are faults that nobody made: a relay that could not work for a moment on a busy machine, and says so.
func (l *lab) interruptions() []history.Fault {
	var found []history.Fault
	for _, r := range l.relays {
		r.said.mu.Lock()
		for _, i := range r.said.interruptions {
			found = append(found, history.Fault{
				What: fmt.Sprintf("%s says: relay interrupted: %s", r.name(), i.why), From: i.at.Add(-leaseTTL), Until: i.at, Repeats: true, Own: true,
			})
		}
		r.said.mu.Unlock()
	}
	return found
}

// complaints are what the relays have said or done that no fault explains.
func (l *lab) complaints() []string {
	l.mu.Lock()
	calm := len(l.faults) == 0
	l.mu.Unlock()
	var found []string
	for _, r := range l.relays {
		found = append(found, r.unexpected()...)
		r.said.mu.Lock()
		for msg, times := range r.said.messages {
			// After a lease was lost, what somebody else has settled is no surprise.
			settles := strings.Contains(msg, "somebody else settles") && calm
			if strings.Contains(msg, "the sweep found") || settles {
				found = append(found, fmt.Sprintf("%s says, %d times: %s", r.name(), times, msg))
			}
		}
		for _, line := range r.said.crashes {
			found = append(found, fmt.Sprintf("%s has written: %s", r.name(), line))
		}
		r.said.mu.Unlock()
	}
	return found
}

// messages counts what the relays have said, from warnings on.
func (l *lab) messages() string {
	counts := map[string]int{}
	for _, r := range l.relays {
		r.said.mu.Lock()
		for msg, times := range r.said.warnings {
			counts[msg] += times
		}
		r.said.mu.Unlock()
	}
	var parts []string
	for _, msg := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%q %d", msg, counts[msg]))
	}
	return strings.Join(parts, ", ")
}
