package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// pausesNameSQL is a name for what is paused: it changes with every row that comes or goes. $1 is the source.
const pausesNameSQL = `(SELECT coalesce(sum(hashtextextended(scope || ' ' || encode(key_hash, 'hex') || ' ' || extract(epoch FROM paused_at) || ' ' || topic, 0))::text, '')
    FROM outbox.pause WHERE source = $1)`

// pausesOf reads what is paused and its name in one snapshot. It relies on the primary key of outbox.pause.
func pausesOf(ctx context.Context, conn *pgx.Conn, source uuid.UUID) (relay.Pauses, error) {
	var p relay.Pauses
	rows, err := conn.Query(ctx, `
SELECT `+pausesNameSQL+`, coalesce(p.scope, ''), coalesce(p.topic, ''), coalesce(p.partition_key, ''), coalesce(p.paused_by, ''), coalesce(p.reason, ''),
    coalesce(p.paused_at, 'epoch')
FROM (SELECT) one LEFT JOIN outbox.pause p ON p.source = $1 ORDER BY p.paused_at, p.scope, p.topic, p.key_hash`, source)
	if err != nil {
		return p, err
	}
	var one relay.Pause
	_, err = pgx.ForEachRow(rows, []any{&p.Name, &one.Scope, &one.Topic, &one.PartitionKey, &one.By, &one.Reason, &one.At}, func() error {
		if one.Scope != "" {
			p.All = append(p.All, one)
		}
		return nil
	})
	return p, err
}

// Pauses implements [relay.Failures].
func (f *failures) Pauses(ctx context.Context) (p relay.Pauses, err error) {
	err = f.db.Run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		p, err = pausesOf(ctx, conn, f.row.ID)
		return err
	})
	if err != nil {
		return relay.Pauses{}, fmt.Errorf("read what is paused of %s: %w", f.row.Table, err)
	}
	return p, nil
}

// Pauses returns what is paused, the oldest first.
func (o *Operator) Pauses(ctx context.Context) ([]relay.Pause, error) {
	row, err := o.db.Source(ctx)
	if err != nil {
		return nil, err
	}
	f := newFailures(o.db, row)
	p, err := f.Pauses(ctx)
	return p.All, err
}

// Pause keeps events from being published until [Operator.Resume]: all of the source, those of a topic, or those of a key. topic is "" for the source, and partitionKey counts for
// a key alone. Every relay obeys within a second, competing ones too; what was handed to Kafka before is finished, and nothing is lost. by says who, and reason
// why; neither may hold a secret. It tells whether something changed: what is paused already stays as it is.
func (o *Operator) Pause(ctx context.Context, scope relay.PauseScope, topic, partitionKey, by, reason string) (changed bool, err error) {
	key, err := pauseKey(scope, topic, partitionKey)
	if err == nil && strings.TrimSpace(by) == "" {
		err = errors.New("nobody is named who asks for it")
	}
	if err != nil {
		return false, fmt.Errorf("pause: %w", err)
	}
	return o.changePause(ctx, "pause", `
INSERT INTO outbox.pause (source, scope, topic, key_hash, partition_key, paused_by, reason) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING`, string(scope), key.Topic, pauseHash(scope, key), key.PartitionKey, pg.Storable(by), pg.Storable(reason))
}

// Resume takes a pause back. What it kept is read again from the oldest event on, unless another pause still keeps it. It tells whether there was such a pause.
func (o *Operator) Resume(ctx context.Context, scope relay.PauseScope, topic, partitionKey string) (changed bool, err error) {
	key, err := pauseKey(scope, topic, partitionKey)
	if err != nil {
		return false, fmt.Errorf("resume: %w", err)
	}
	return o.changePause(ctx, "resume", `
DELETE FROM outbox.pause WHERE source = $1 AND scope = $2 AND topic = $3 AND key_hash = $4`, string(scope), key.Topic, pauseHash(scope, key))
}

func (o *Operator) changePause(ctx context.Context, doing, sql string, args ...any) (changed bool, err error) {
	row, err := o.db.Source(ctx)
	if err != nil {
		return false, err
	}
	tag, err := o.db.Pool.Exec(ctx, sql, append([]any{row.ID}, args...)...)
	if err != nil {
		return false, fmt.Errorf("%s %s: %w", doing, o.db.Table, err)
	}
	return tag.RowsAffected() > 0, nil
}

// pauseHash is empty unless a key is paused: a topic and a key may be longer together than an index entry.
func pauseHash(scope relay.PauseScope, key relay.Key) []byte {
	if scope != relay.PauseKey {
		return []byte{}
	}
	return pg.KeyHash(key)
}

// pauseKey checks what is to be paused, and leaves out what does not count.
func pauseKey(scope relay.PauseScope, topic, partitionKey string) (relay.Key, error) {
	if err := cmp.Or(pausable("topic", topic), pausable("partition key", partitionKey)); err != nil {
		return relay.Key{}, err
	}
	switch {
	case scope == relay.PauseSource && topic == "" && partitionKey == "":
		return relay.Key{}, nil
	case scope == relay.PauseSource:
		return relay.Key{}, errors.New("the source has no topic and no partition key: pause the topic or the key instead, or name neither")
	case scope != relay.PauseTopic && scope != relay.PauseKey:
		return relay.Key{}, fmt.Errorf("the scope %q is unknown: use source, topic or key", scope)
	case topic == "":
		return relay.Key{}, fmt.Errorf("the %s to pause has no topic: name it", scope)
	case len(topic) > maxTopic:
		return relay.Key{}, fmt.Errorf("the topic is longer than %d bytes: Kafka has none of more than 249 characters", maxTopic)
	case scope == relay.PauseTopic && partitionKey != "":
		return relay.Key{}, errors.New("a topic is paused as a whole: pause the key instead, or leave the partition key out")
	}
	return relay.Key{Topic: topic, PartitionKey: partitionKey}, nil
}

func pausable(what, s string) error {
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return fmt.Errorf("the %s is no text that PostgreSQL can hold: it must be UTF-8 without NUL", what)
	}
	return nil
}

// unpausedSQL is the condition for the row e to be of nothing that is paused, for relays that look at each row anyway. The lookups of source and topics are done once for the
// statement, that of the key once for each row, over the primary key.
func unpausedSQL(s *statement, source uuid.UUID) string {
	id := s.param(pgtype.UUIDOID, [16]byte(source))
	return fmt.Sprintf(`NOT EXISTS (SELECT FROM outbox.pause WHERE source = %[1]s AND scope = 'source')
    AND coalesce(e.topic::text, '') <> ALL (ARRAY(SELECT topic FROM outbox.pause WHERE source = %[1]s AND scope = 'topic'))
    AND (SELECT true FROM outbox.pause p WHERE p.source = %[1]s AND p.scope = 'key' AND p.topic = coalesce(e.topic::text, '') AND p.key_hash = %[2]s) IS NULL`,
		id, pg.KeyHashSQL("coalesce(e.topic::text, '')", "coalesce(e.partition_key::text, '')"))
}
