package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
)

// Topics implements [operate.Lookups]. It counts the oldest unpublished events, parked keys and dead events of a window each.
func (s *Store) Topics(ctx context.Context, limit time.Duration) (operate.TopicList, error) {
	return see(ctx, s, limit, "list topics", func(ctx context.Context, l survey) (operate.TopicList, error) { return l.listTopics(ctx) })
}

func (l survey) listTopics(ctx context.Context) (operate.TopicList, error) {
	t := topicCounter{survey: l, topics: map[string]*operate.Topic{}, list: operate.TopicList{Topics: []operate.Topic{}}}
	err := firstError(
		t.holds(ctx), t.pauses(ctx), t.outages(ctx),
		l.tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outbox.relay WHERE source = $1::uuid AND expires_at > now())`, l.row.ID.String()).Scan(&t.list.Watched),
		t.countAll(ctx), t.letters(ctx),
	)
	for _, name := range slices.Sorted(maps.Keys(t.topics)) {
		t.list.Topics = append(t.list.Topics, *t.topics[name])
	}
	return t.list, err
}

// countedRows is something that is counted by topic.
type countedRows struct {
	what, rows string
	set        func(*operate.Topic, topicCount)
	// cap marks the number as one that may be larger.
	cap func(*operate.Topic)
}

func (t *topicCounter) countAll(ctx context.Context) error {
	var capped []countedRows
	for _, c := range []countedRows{
		{
			"unpublished events", "SELECT coalesce(topic::text, '') AS topic, created_at, id FROM " + t.row.Table.SQL() + " WHERE published_at IS NULL ORDER BY id LIMIT $1",
			func(to *operate.Topic, n topicCount) { to.Pending, to.OldestAge = n.count, n.age },
			func(to *operate.Topic) { to.PendingCapped = true },
		},
		{
			"parked keys", "SELECT topic, parked_at AS created_at, id FROM outbox.parked_key WHERE source = $2::uuid ORDER BY id LIMIT $1",
			func(to *operate.Topic, n topicCount) { to.ParkedKeys = n.count },
			func(to *operate.Topic) { to.ParkedKeysCapped = true },
		},
		{
			"dead events", "SELECT topic, died_at AS created_at, id FROM outbox.dead_event WHERE source = $2::uuid ORDER BY id LIMIT $1",
			func(to *operate.Topic, n topicCount) { to.Dead = n.count },
			func(to *operate.Topic) { to.DeadCapped = true },
		},
	} {
		more, err := t.count(ctx, c)
		if err != nil {
			return fmt.Errorf("count %s by topic: %w", c.what, err)
		}
		if more {
			capped = append(capped, c)
		}
	}
	// What was not reached may be of any topic.
	for _, c := range capped {
		for _, to := range t.topics {
			c.cap(to)
		}
	}
	return nil
}

type topicCounter struct {
	survey
	topics map[string]*operate.Topic
	list   operate.TopicList
}

func (t *topicCounter) topic(name string) *operate.Topic {
	if t.topics[name] == nil {
		t.topics[name] = &operate.Topic{Topic: name}
	}
	return t.topics[name]
}

// topicCount is what was counted of a topic in the window: how many, the age of the oldest, the first and last id, and whether there are rows behind the window.
type topicCount struct {
	topic       string
	count       int64
	age         float64
	first, last int64
	more        bool
}

// count counts the rows of a window by topic. It tells whether there are more, and then says how far it went.
func (t *topicCounter) count(ctx context.Context, c countedRows) (more bool, err error) {
	args := []any{t.windows.topics + 1}
	if strings.Contains(c.rows, "$2") {
		args = append(args, t.row.ID.String())
	}
	rows, err := t.tx.Query(ctx, fmt.Sprintf(`
SELECT topic, count(*) FILTER (WHERE n < $1), coalesce(greatest(0, extract(epoch FROM now() - min(created_at) FILTER (WHERE n < $1 AND isfinite(created_at)))), 0)::float8,
    coalesce(min(id) FILTER (WHERE n < $1), 0), coalesce(max(id) FILTER (WHERE n < $1), 0), bool_or(n >= $1)
FROM (SELECT topic, created_at, id, row_number() OVER (ORDER BY id) AS n FROM (%s) w) w GROUP BY topic`, c.rows), args...)
	if err != nil {
		return false, err
	}
	look := operate.Look{What: c.what}
	var n topicCount
	_, err = pgx.ForEachRow(rows, []any{&n.topic, &n.count, &n.age, &n.first, &n.last, &n.more}, func() error {
		if more = more || n.more; n.count == 0 {
			return nil
		}
		c.set(t.topic(n.topic), n)
		if look.Events == 0 || n.first < look.From {
			look.From = n.first
		}
		look.Events, look.To = look.Events+n.count, max(look.To, n.last)
		return nil
	})
	if more {
		t.list.Looks = append(t.list.Looks, look)
	}
	return more, err
}

func (t *topicCounter) holds(ctx context.Context) error {
	holds, err := readHolds(ctx, t.survey, "")
	for _, h := range holds {
		to := t.topic(h.Topic)
		to.Holds = append(to.Holds, h)
	}
	return err
}

func (t *topicCounter) pauses(ctx context.Context) error {
	pauses, err := readPauses(ctx, t.survey, "scope IN ('source', 'topic')")
	for _, p := range pauses {
		if p.Scope == "source" {
			t.list.Paused = &p
			continue
		}
		t.topic(p.Topic).Paused = &p
	}
	if err != nil {
		return err
	}
	rows, err := t.tx.Query(ctx, `SELECT topic, count(*) FROM outbox.pause WHERE source = $1::uuid AND scope = 'key' GROUP BY topic`, t.row.ID.String())
	if err != nil {
		return err
	}
	var topic string
	var keys int64
	_, err = pgx.ForEachRow(rows, []any{&topic, &keys}, func() error {
		t.topic(topic).PausedKeys = keys
		return nil
	})
	return err
}

func (t *topicCounter) outages(ctx context.Context) (err error) {
	t.list.Outages, _, err = readOutages(ctx, t.survey)
	return err
}
