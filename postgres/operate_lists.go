package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

func relayKey(topic, partitionKey string) relay.Key {
	return relay.Key{Topic: topic, PartitionKey: partitionKey}
}

// Lanes implements [operate.Lookups].
func (s *Store) Lanes(ctx context.Context, limit time.Duration) ([]operate.Lane, error) {
	return see(ctx, s, limit, "list lanes", func(ctx context.Context, l survey) ([]operate.Lane, error) {
		found, err := readLanes(ctx, l.tx, l.row.ID)
		lanes := make([]operate.Lane, len(found))
		for i, f := range found {
			lanes[i] = operate.Lane{Lane: f.Lane, Epoch: f.Epoch, ParkedKeys: f.ParkedKeys, Remaining: max(0, f.Remaining.Seconds())}
			if f.Remaining > 0 {
				lanes[i].Owner, lanes[i].Relay = f.Owner, f.OwnerName
			}
		}
		return lanes, err
	})
}

// Relays implements [operate.Lookups].
func (s *Store) Relays(ctx context.Context, limit time.Duration) ([]operate.Relay, error) {
	return see(ctx, s, limit, "list relays", func(ctx context.Context, l survey) ([]operate.Relay, error) {
		rows, err := l.tx.Query(ctx, `
SELECT r.owner, r.name, r.version, r.mode = 'competing', r.started_at, r.seen_at, r.proved_at, r.expires_at > now(),
    (SELECT count(*) FROM outbox.lane n WHERE n.source = r.source AND n.owner = r.owner AND n.expires_at > now()),
    (SELECT count(*) FROM outbox.held_topic h WHERE h.source = r.source AND h.owner = r.owner),
    ARRAY(SELECT h.topic FROM outbox.held_topic h WHERE h.source = r.source AND h.owner = r.owner ORDER BY h.topic LIMIT 10), r.silent_since
FROM outbox.relay r WHERE r.source = $1::uuid ORDER BY r.expires_at > now() DESC, r.started_at, r.owner`, l.row.ID.String())
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r operate.Relay, err error) {
			var proved, silent *time.Time
			err = row.Scan(&r.Owner, &r.Name, &r.Version, &r.Competing, &r.StartedAt, &r.SeenAt, &proved, &r.Alive, &r.Lanes, &r.Holds, &r.HeldNames, &silent)
			r.StartedAt, r.SeenAt, r.ProvedAt, r.SilentSince = r.StartedAt.UTC(), r.SeenAt.UTC(), timeOrZero(proved), timeOrZero(silent)
			return r, err
		})
	})
}

// competingNames are the relays that compete for the source's rows and are alive.
func competingNames(ctx context.Context, q pg.Querier, source uuid.UUID) ([]string, error) {
	rows, err := q.Query(ctx, `
SELECT name FROM outbox.relay WHERE source = $1::uuid AND mode = 'competing' AND expires_at > clock_timestamp() ORDER BY name`, source.String())
	if err != nil {
		return nil, fmt.Errorf("look for competing relays: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Pauses implements [operate.Lookups].
func (s *Store) Pauses(ctx context.Context, limit time.Duration) ([]operate.Pause, error) {
	return see(ctx, s, limit, "list pauses", func(ctx context.Context, l survey) ([]operate.Pause, error) {
		return readPauses(ctx, l, "true")
	})
}

// readPauses returns those of the source for which the condition holds.
func readPauses(ctx context.Context, l survey, condition string, args ...any) ([]operate.Pause, error) {
	rows, err := l.tx.Query(ctx, `
SELECT scope, topic, partition_key, paused_by, reason, paused_at FROM outbox.pause WHERE source = $1::uuid AND `+condition+`
ORDER BY paused_at, scope, topic, key_hash`, append([]any{l.row.ID.String()}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanPause)
}

func scanPause(row pgx.CollectableRow) (p operate.Pause, err error) {
	err = row.Scan(&p.Scope, &p.Topic, &p.PartitionKey, &p.By, &p.Reason, &p.Since)
	p.Since = p.Since.UTC()
	return p, err
}

// readOutages returns the relays that are alive and that Kafka answers nothing, each with its id.
func readOutages(ctx context.Context, l survey) (outages []operate.Outage, owners []uuid.UUID, err error) {
	rows, err := l.tx.Query(ctx, `
SELECT owner, name, silent_since FROM outbox.relay WHERE source = $1::uuid AND expires_at > now() AND silent_since IS NOT NULL ORDER BY silent_since, name`, l.row.ID.String())
	if err != nil {
		return nil, nil, err
	}
	var owner uuid.UUID
	var o operate.Outage
	_, err = pgx.ForEachRow(rows, []any{&owner, &o.Relay, &o.Since}, func() error {
		o.Since = o.Since.UTC()
		outages, owners = append(outages, o), append(owners, owner)
		return nil
	})
	return outages, owners, err
}

// readHolds returns what relays that are alive can publish nothing to: of one topic, or of all with "".
func readHolds(ctx context.Context, l survey, topic string) ([]operate.Hold, error) {
	// A relay keeps only the beginning of a long name.
	rows, err := l.tx.Query(ctx, `
SELECT h.topic, r.name, h.code, h.reason, h.held_at FROM outbox.held_topic h JOIN outbox.relay r ON r.source = h.source AND r.owner = h.owner
WHERE h.source = $1::uuid AND r.expires_at > now() AND ($2::text = '' OR h.topic = $2::text) ORDER BY h.topic, h.held_at, r.name`,
		l.row.ID.String(), pg.Storable(topic[:min(len(topic), maxTopic)]))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (h operate.Hold, err error) {
		err = row.Scan(&h.Topic, &h.Relay, &h.Code, &h.Reason, &h.Since)
		h.Since = h.Since.UTC()
		return h, err
	})
}
