package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// Overtaken implements [operate.Requests].
func (s *Store) Overtaken(ctx context.Context, t operate.Target) (operate.Overtaken, error) {
	answer, err := s.overtaken(ctx, t.Topic, t.PartitionKey, t.ID)
	return answer.word(), err
}

// overtaken looks behind one dead event.
func (s *Store) overtaken(ctx context.Context, topic, partitionKey string, id int64) (Overtaken, error) {
	row, err := s.db.Source(ctx)
	if err != nil {
		return OvertakenUnknown, err
	}
	answers, err := overtakenBy(ctx, s.db, row, []relay.Key{relayKey(topic, partitionKey)}, []int64{id})
	if err != nil {
		return OvertakenUnknown, s.refusal(ctx, err, "look for newer events of the key", changeTimeout)
	}
	return answers[0], nil
}

const (
	// overtakenSpan is how far apart the ids of dead events may be that are looked behind at once: half of the rows that such a look passes, so that each has as many behind it.
	overtakenSpan = overtakenRows / 2
	// overtakenLooks is how many such looks a page may take.
	overtakenLooks = 10
)

// OvertakenOf implements [operate.Matches].
func (s *Store) OvertakenOf(ctx context.Context, bulk operate.Bulk, at operate.Cursor, limit int) (operate.OvertakenPage, error) {
	targets, next, err := s.deadTargets(ctx, bulk, at, limit)
	if err != nil {
		return operate.OvertakenPage{}, err
	}
	row, err := s.db.Source(ctx)
	if err != nil {
		return operate.OvertakenPage{}, err
	}
	page := operate.OvertakenPage{Next: next}
	for looks := 0; len(page.Events) < len(targets); looks++ {
		done := len(page.Events)
		if looks == overtakenLooks {
			page.Next = behindTarget(bulk, at, done, targets[done-1])
			break
		}
		group := targets[done : done+closeTogether(targets[done:])]
		keys, ids := make([]relay.Key, len(group)), make([]int64, len(group))
		for i, t := range group {
			keys[i], ids[i] = relayKey(t.Topic, t.PartitionKey), t.ID
		}
		answers, err := overtakenBy(ctx, s.db, row, keys, ids)
		if err != nil {
			return page, s.refusal(ctx, err, "look for newer events of keys", changeTimeout)
		}
		for i, t := range group {
			page.Events = append(page.Events, operate.OvertakenEvent{Topic: t.Topic, PartitionKey: t.PartitionKey, Overtaken: answers[i].word()})
		}
	}
	return page, nil
}

func (o Overtaken) word() operate.Overtaken {
	switch o {
	case OvertakenNo:
		return operate.OvertakenNo
	case OvertakenYes:
		return operate.OvertakenYes
	case OvertakenRowsGone:
		return operate.OvertakenRowsGone
	}
	return operate.OvertakenUnknown
}

// closeTogether is how many of the first targets, by id, are looked behind at once.
func closeTogether(targets []operate.Target) int {
	for i, t := range targets {
		if t.ID-targets[0].ID > overtakenSpan {
			return i
		}
	}
	return len(targets)
}

// behindTarget is the place behind the last of n targets that were looked behind.
func behindTarget(bulk operate.Bulk, at operate.Cursor, n int, last operate.Target) operate.Cursor {
	if bulk.Only != nil {
		return operate.Cursor{ID: at.ID + int64(n)}
	}
	return operate.Cursor{Walk: at.Walk, ID: last.ID, EventID: last.EventID}
}

// deadTargets are the next dead events that a restore finds, by id. Of those that were named the cursor's id is how many were taken.
func (s *Store) deadTargets(ctx context.Context, bulk operate.Bulk, at operate.Cursor, limit int) (targets []operate.Target, next operate.Cursor, err error) {
	if bulk.Only != nil {
		from := int(at.ID)
		part := bulk.Only[from:min(from+limit, len(bulk.Only))]
		return part, operate.Cursor{ID: int64(from + len(part)), End: from+len(part) >= len(bulk.Only)}, nil
	}
	var end lookedAt
	err = s.change(ctx, "look for dead events", func(ctx context.Context, l survey) error {
		b, err := newBulkSQL(l, bulk, limit)
		if err != nil {
			return err
		}
		rows, err := l.tx.Query(ctx, b.parts(walksOf(bulk)[at.Walk], at, "NULL")+`
SELECT last.looked, last.id, last.event_id, last.hash, h.topic, h.partition_key, h.id, h.event_id FROM last LEFT JOIN hit h ON true ORDER BY h.id, h.event_id`, b.args...)
		if err != nil {
			return err
		}
		var topic, key *string
		var id *int64
		var event *uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&end.looked, &end.id, &end.eventID, &end.hash, &topic, &key, &id, &event}, func() error {
			if topic != nil && key != nil && id != nil && event != nil {
				targets = append(targets, operate.Target{Topic: *topic, PartitionKey: *key, ID: *id, EventID: *event, State: operate.StateDead})
			}
			return nil
		})
		return err
	})
	return targets, end.next(bulk, at, limit), err
}
