package postgres

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
)

var _ operate.LetterKeeper = (*Store)(nil)

// letterLists are letters as the parameters of a statement: topics, partitions, offsets, and times in milliseconds, as Kafka has them.
func letterLists(letters []*operate.LetterRecord) (topics []string, partitions []int32, offsets, times []int64) {
	for _, l := range letters {
		topics, partitions = append(topics, l.Topic), append(partitions, l.Partition)
		offsets, times = append(offsets, l.Offset), append(times, l.At.UnixMilli())
	}
	return topics, partitions, offsets, times
}

// redrivenSQL relies on redriven_pkey.
const redrivenSQL = `
SELECT r.topic, r.partition, r.record_offset, r.at, r.by
FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::bigint[]) l(topic, partition, record_offset, ms)
JOIN outbox.redriven r ON r.topic = l.topic AND r.partition = l.partition AND r.record_offset = l.record_offset AND r.record_at = to_timestamp(l.ms / 1000.0)`

// RedrivenOf implements [operate.LetterKeeper].
func (s *Store) RedrivenOf(ctx context.Context, letters []*operate.LetterRecord) (map[operate.LetterRef]operate.Redriven, error) {
	found := map[operate.LetterRef]operate.Redriven{}
	topics, partitions, offsets, times := letterLists(letters)
	err := s.letters(ctx, "look for what was sent back", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, redrivenSQL, topics, partitions, offsets, times)
		if err != nil {
			return err
		}
		var ref operate.LetterRef
		var r operate.Redriven
		_, err = pgx.ForEachRow(rows, []any{&ref.Topic, &ref.Partition, &ref.Offset, &r.At, &r.By}, func() error {
			found[ref] = operate.Redriven{At: r.At.UTC(), By: r.By}
			return nil
		})
		return err
	})
	return found, err
}

// KeptOf implements [operate.LetterKeeper], over dead_event_event_id.
func (s *Store) KeptOf(ctx context.Context, letters []*operate.LetterRecord) (map[operate.LetterRef]struct{}, error) {
	found := map[operate.LetterRef]struct{}{}
	var events []uuid.UUID
	var ours []*operate.LetterRecord
	for _, l := range letters {
		if id, err := uuid.Parse(l.EventID); err == nil && l.Form == operate.LetterOfRelay {
			events, ours = append(events, id), append(ours, l)
		}
	}
	if len(ours) == 0 {
		return found, nil
	}
	topics, partitions, offsets, _ := letterLists(ours)
	err := s.letters(ctx, "look for what is among the dead events", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
SELECT l.topic, l.partition, l.record_offset
FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::uuid[]) l(topic, partition, record_offset, event_id)
JOIN outbox.source s ON true
JOIN outbox.dead_event d ON d.source = s.id AND d.event_id = l.event_id AND d.letter_topic = l.topic AND d.letter_partition = l.partition AND d.letter_offset = l.record_offset`,
			topics, partitions, offsets, events)
		if err != nil {
			return err
		}
		var ref operate.LetterRef
		_, err = pgx.ForEachRow(rows, []any{&ref.Topic, &ref.Partition, &ref.Offset}, func() error {
			found[ref] = struct{}{}
			return nil
		})
		return err
	})
	return found, err
}

// MarkRedriven implements [operate.LetterKeeper].
func (s *Store) MarkRedriven(ctx context.Context, letters []*operate.LetterRecord, by string) error {
	topics, partitions, offsets, times := letterLists(letters)
	return s.change(ctx, "write down what was sent back", func(ctx context.Context, l survey) error {
		_, err := l.tx.Exec(ctx, `
INSERT INTO outbox.redriven (topic, partition, record_offset, record_at, by)
SELECT l.topic, l.partition, l.record_offset, to_timestamp(l.ms / 1000.0), $5::text
FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::bigint[]) l(topic, partition, record_offset, ms)
ORDER BY 1, 2, 3
ON CONFLICT (topic, partition, record_offset) DO UPDATE SET record_at = excluded.record_at, at = clock_timestamp(), by = excluded.by`,
			topics, partitions, offsets, times, l.row.Storable(by))
		return err
	})
}

// ForgetRedriven implements [operate.LetterKeeper], over the primary key.
func (s *Store) ForgetRedriven(ctx context.Context, topic string, partition int32, before int64) error {
	return s.letters(ctx, "forget what was sent back", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM outbox.redriven WHERE topic = $1::text AND partition = $2::integer AND record_offset < $3::bigint`, topic, partition, before)
		return err
	})
}

// Handled implements [operate.LetterKeeper], over the inbox's primary key.
func (s *Store) Handled(ctx context.Context, consumer string, ids []string) (map[string]struct{}, error) {
	found := map[string]struct{}{}
	if len(ids) == 0 {
		return found, nil
	}
	err := s.letters(ctx, "look into the inbox", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT event_id FROM outbox.inbox WHERE consumer = $1::text AND event_id = ANY ($2::text[])`, consumer, texts(ids))
		if err != nil {
			return err
		}
		var id string
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
			found[id] = struct{}{}
			return nil
		})
		return err
	})
	return found, err
}

// texts leaves out what no text of PostgreSQL can be: it is not there either.
func texts(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !utf8.ValidString(id) || strings.ContainsRune(id, 0) })
}

// letters runs fn in a transaction. None of its statements reads more than a page.
func (s *Store) letters(ctx context.Context, what string, fn func(context.Context, pgx.Tx) error) error {
	err := pg.InTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lookSettingsSQL, pg.Milliseconds(changeTimeout)); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
	if err != nil {
		return s.refusal(ctx, err, what, changeTimeout)
	}
	return nil
}
