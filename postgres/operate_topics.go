package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
		t.count(ctx, "unpublished events", fmt.Sprintf("SELECT coalesce(topic::text, '') AS topic, created_at, id FROM %s WHERE published_at IS NULL ORDER BY id LIMIT $1", l.row.table.sql()),
			func(to *operate.Topic, n int64, age float64) { to.Pending, to.OldestAge = n, age }),
		t.count(ctx, "parked keys", "SELECT topic, parked_at AS created_at, id FROM outbox.parked_key WHERE source = $2::uuid ORDER BY id LIMIT $1",
			func(to *operate.Topic, n int64, _ float64) { to.ParkedKeys = n }),
		t.count(ctx, "dead events", "SELECT topic, died_at AS created_at, id FROM outbox.dead_event WHERE source = $2::uuid ORDER BY id LIMIT $1",
			func(to *operate.Topic, n int64, _ float64) { to.Dead = n }),
		t.holds(ctx), t.pauses(ctx), t.outages(ctx),
		l.tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outbox.relay WHERE source = $1::uuid AND expires_at > now())`, l.row.id.String()).Scan(&t.list.Watched),
	)
	for _, name := range slices.Sorted(maps.Keys(t.topics)) {
		t.list.Topics = append(t.list.Topics, *t.topics[name])
	}
	return t.list, err
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

// count counts the rows of a window by topic, and says how far it went when there are more.
func (t *topicCounter) count(ctx context.Context, what, rows string, set func(*operate.Topic, int64, float64)) error {
	args := []any{t.windows.topics + 1}
	if slices.Contains([]string{"parked keys", "dead events"}, what) {
		args = append(args, t.row.id.String())
	}
	found, err := t.tx.Query(ctx, fmt.Sprintf(`
SELECT topic, count(*), coalesce(greatest(0, extract(epoch FROM now() - min(created_at) FILTER (WHERE isfinite(created_at)))), 0)::float8, min(id), max(id)
FROM (%s) w GROUP BY topic`, rows), args...)
	if err != nil {
		return fmt.Errorf("count %s by topic: %w", what, err)
	}
	looked := operate.Look{What: what}
	var topic string
	var n, first, last int64
	var age float64
	_, err = pgx.ForEachRow(found, []any{&topic, &n, &age, &first, &last}, func() error {
		set(t.topic(topic), n, age)
		if looked.Events == 0 || first < looked.From {
			looked.From = first
		}
		looked.Events, looked.To = looked.Events+n, max(looked.To, last)
		return nil
	})
	if looked.Events > int64(t.windows.topics) {
		t.list.Looks = append(t.list.Looks, looked)
	}
	return err
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
	rows, err := t.tx.Query(ctx, `SELECT topic, count(*) FROM outbox.pause WHERE source = $1::uuid AND scope = 'key' GROUP BY topic`, t.row.id.String())
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
