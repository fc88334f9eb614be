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
	if !poll(waitLimit, func() bool { return l.unpublished() == 0 }) {
		for _, r := range l.relays {
			l.t.Logf("%d events stay unpublished; %s says:\n%s", l.unpublished(), r.name(), r.tail(15))
		}
	}
	for _, r := range l.relays {
		r.stop()
	}
	return history.Check(l.history())
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
	h.Records = l.records(ctx)
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
	ends, err := l.cluster.admin.ListEndOffsets(ctx, l.topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		l.t.Fatalf("ask where the topics end: %v", err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	client, err := kgo.NewClient(kgo.SeedBrokers(l.cluster.Brokers()...), kgo.ConsumeTopics(l.topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		l.t.Fatal(err)
	}
	defer client.Close()
	var records []history.Record
	for int64(len(records)) < left {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			l.t.Fatalf("read the topics: %d of %d records: %v", len(records), left, ctx.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) { records = append(records, l.record(r)) })
	}
	return records
}

func (l *lab) record(r *kgo.Record) history.Record {
	rec := history.Record{Stream: history.Stream{Topic: r.Topic, Key: string(r.Key)}, Partition: r.Partition, Offset: r.Offset, At: r.Timestamp}
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
		said, _ := r.lines()
		for _, line := range said {
			if line.Msg == "relay interrupted" {
				found = append(found, history.Fault{
					What: fmt.Sprintf("%s says: %s: %s", r.name(), line.Msg, line.Error), From: line.Time.Add(-leaseTTL), Until: line.Time, Repeats: true, Own: true,
				})
			}
		}
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
		said, rest := r.lines()
		for _, line := range said {
			// After a lease was lost, what somebody else has settled is no surprise.
			settles := strings.Contains(line.Msg, "somebody else settles") && calm
			if strings.Contains(line.Msg, "the sweep found") || settles {
				found = append(found, fmt.Sprintf("%s says: %s", r.name(), line.Msg))
			}
		}
		for _, line := range rest {
			if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "DATA RACE") {
				found = append(found, fmt.Sprintf("%s has written: %s", r.name(), line))
			}
		}
	}
	return found
}

// messages counts what the relays have said, from warnings on.
func (l *lab) messages() string {
	counts := map[string]int{}
	for _, r := range l.relays {
		said, _ := r.lines()
		for _, line := range said {
			if line.Level != "INFO" && line.Level != "DEBUG" {
				counts[line.Msg]++
			}
		}
	}
	var parts []string
	for _, msg := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%q %d", msg, counts[msg]))
	}
	return strings.Join(parts, ", ")
}
