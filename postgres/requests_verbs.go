package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/relay"
)

// do carries out requests of one verb. Their targets differ.
func (b *batch) do(ctx context.Context, tx pgx.Tx, verb string, rs []request) ([]reply, error) {
	switch verb {
	case VerbUnpark:
		return b.butFollowers(ctx, tx, rs, b.unpark)
	case VerbRetry:
		return b.butFollowers(ctx, tx, rs, b.retry)
	case VerbSkip, VerbDead:
		giveUp := func(ctx context.Context, tx pgx.Tx, rs []request) ([]reply, error) {
			return b.giveUp(ctx, tx, verb, rs)
		}
		// An event that is named is given up whatever its key waits for.
		return b.byKind(ctx, tx, rs, func(ctx context.Context, tx pgx.Tx, rs []request) ([]reply, error) {
			return b.butFollowers(ctx, tx, rs, giveUp)
		}, giveUp)
	case VerbRestore:
		return b.restore(ctx, tx, rs)
	}
	return alike(rs, refused("the verb %q is unknown to this relay: it knows unpark, retry, skip, dead and restore; a newer relay may know it", verb)), nil
}

// hashesOf are what parked_key is keyed by.
func hashesOf(rs []request) [][]byte {
	hashes := make([][]byte, len(rs))
	for i, r := range rs {
		hashes[i] = pg.KeyHash(r.key)
	}
	return hashes
}

// refsOf are the events as two lists, whose ids are text: a pool that prepares nothing cannot send others. Zero ids stand for none.
func refsOf(rs []request) (ids []int64, eventIDs []string) {
	ids, eventIDs = make([]int64, len(rs)), make([]string, len(rs))
	for i, r := range rs {
		ref := r.target().ref
		ids[i], eventIDs[i] = ref.ID, ref.EventID.String()
	}
	return ids, eventIDs
}

// butFollowers refuses what would let a key go on that waits for an aggregate which another key stops, and has do carry out the rest: its event is in order, and the relay would
// stop the key again.
func (b *batch) butFollowers(ctx context.Context, tx pgx.Tx, rs []request, do func(context.Context, pgx.Tx, []request) ([]reply, error)) ([]reply, error) {
	replies, err := b.waiting(ctx, tx, rs)
	if err != nil {
		return nil, fmt.Errorf("look for what keys wait for: %w", err)
	}
	return replies, answerSome(ctx, tx, rs, replies, unanswered(replies), do)
}

// pick returns the requests for whose place which is true, with their places.
func pick(rs []request, which func(i int) bool) (picked []request, of []int) {
	for i, r := range rs {
		if which(i) {
			picked, of = append(picked, r), append(of, i)
		}
	}
	return picked, of
}

// unanswered tells of a place that there is no reply yet.
func unanswered(replies []reply) func(i int) bool {
	return func(i int) bool { return replies[i].outcome == "" }
}

// answerSome has do carry out some of the requests, and puts its replies in their places. It does nothing where there are none.
func answerSome(ctx context.Context, tx pgx.Tx, rs []request, replies []reply, which func(i int) bool, do func(context.Context, pgx.Tx, []request) ([]reply, error)) error {
	picked, of := pick(rs, which)
	if len(picked) == 0 {
		return nil
	}
	got, err := do(ctx, tx, picked)
	for j, r := range got {
		replies[of[j]] = r
	}
	return err
}

// waiting has a reply for each request that is about a follower, for the key or for the event at which it has stopped.
func (b *batch) waiting(ctx context.Context, tx pgx.Tx, rs []request) ([]reply, error) {
	replies := make([]reply, len(rs))
	rows, err := tx.Query(ctx, `
SELECT u.n, p.id, p.event_id, f.id, f.event_id, f.topic FROM unnest($2::bytea[]) WITH ORDINALITY u(hash, n)
JOIN outbox.parked_key p ON p.source = $1 AND p.key_hash = u.hash
CROSS JOIN LATERAL (SELECT r.id, r.event_id, r.topic `+rootsOfSQL+`) f`, b.row.ID, hashesOf(rs))
	if err != nil {
		return nil, err
	}
	var n int
	var at, root relay.Ref
	var topic string
	_, err = pgx.ForEachRow(rows, []any{&n, &at.ID, &at.EventID, &root.ID, &root.EventID, &topic}, func() error {
		if r := rs[n-1]; r.event == nil || *r.event == at {
			replies[n-1] = refused("the key waits for event %s (id %d) of topic %s, which stops the aggregate of its next event: unpark or skip that one's key, and this one goes on by itself",
				root.EventID, root.ID, topic)
		}
		return nil
	})
	return replies, err
}

// unpark takes keys out of parked_key.
func (b *batch) unpark(ctx context.Context, tx pgx.Tx, rs []request) ([]reply, error) {
	replies := alike(rs, notFound("the key is not parked"))
	err := b.letGo(ctx, tx, rs, "unparked", replies, `
DELETE FROM outbox.parked_key p USING unnest($2::bytea[]) WITH ORDINALITY u(hash, n)
WHERE p.source = $1 AND p.key_hash = u.hash RETURNING u.n, p.id, p.event_id`, b.row.ID, hashesOf(rs))
	if err != nil {
		return nil, fmt.Errorf("unpark keys: %w", err)
	}
	return replies, nil
}

// retry lets keys go on that are stopped by the events, and makes those due that wait for their next attempt.
func (b *batch) retry(ctx context.Context, tx pgx.Tx, rs []request) ([]reply, error) {
	if someWhole(rs) {
		return b.byKind(ctx, tx, rs, b.unpark, b.retry)
	}
	replies := make([]reply, len(rs))
	ids, eventIDs := refsOf(rs)
	err := b.letGo(ctx, tx, rs, "retried: its key goes on with it", replies, `
DELETE FROM outbox.parked_key p USING unnest($2::bytea[], $3::bigint[], $4::text[]::uuid[]) WITH ORDINALITY u(hash, id, event_id, n)
WHERE p.source = $1 AND p.key_hash = u.hash AND p.id = u.id AND p.event_id = u.event_id RETURNING u.n, p.id, p.event_id`, b.row.ID, hashesOf(rs), ids, eventIDs)
	if err != nil {
		return nil, fmt.Errorf("unpark the keys of events: %w", err)
	}
	err = eachNumber(ctx, tx, func(i int) {
		if replies[i].outcome == "" {
			replies[i].outcome = "retried: it is tried again now"
		}
	}, `
WITH due AS (
    UPDATE outbox.failure f SET next_attempt_at = CASE WHEN f.next_attempt_at IS NOT NULL THEN clock_timestamp() END
    FROM unnest($2::bigint[], $3::text[]::uuid[]) WITH ORDINALITY u(id, event_id, n)
    WHERE f.source = $1 AND f.id = u.id AND f.event_id = u.event_id RETURNING u.n, f.next_attempt_at
)
SELECT n FROM due WHERE next_attempt_at IS NOT NULL`, b.row.ID, ids, eventIDs)
	if err != nil {
		return nil, fmt.Errorf("make events due: %w", err)
	}
	return replies, b.fill(ctx, tx, rs, replies, finding.whyNotRetried)
}

// letGo has the keys go on that a statement takes out of parked_key; it returns the number of each request, counted from 1, and the event that has stopped the key. Somebody may have
// corrected the row's topic or partition key meanwhile: then the event has another key, which is read again as well, else only the sweep would find it there.
func (b *batch) letGo(ctx context.Context, tx pgx.Tx, rs []request, outcome string, replies []reply, sql string, args ...any) error {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	var of []int
	var ids []int64
	var eventIDs []string
	var n int
	var at relay.Ref
	_, err = pgx.ForEachRow(rows, []any{&n, &at.ID, &at.EventID}, func() error {
		replies[n-1] = reply{outcome: outcome, released: true}
		of, ids, eventIDs = append(of, n-1), append(ids, at.ID), append(eventIDs, at.EventID.String())
		return nil
	})
	if err != nil || len(of) == 0 {
		return err
	}
	rows, err = tx.Query(ctx, fmt.Sprintf(`
SELECT u.n, t.topic, t.key FROM unnest($1::bigint[], $2::text[]::uuid[]) WITH ORDINALITY u(id, event_id, n) CROSS JOIN LATERAL (
    SELECT coalesce(t.topic::text, '') AS topic, coalesce(t.partition_key::text, '') AS key FROM %s t
    WHERE t.id = u.id AND (t.event_id = u.event_id) IS TRUE AND t.published_at IS NULL LIMIT 1) t`, b.row.Table.SQL()), ids, eventIDs)
	if err != nil {
		return fmt.Errorf("look for their events: %w", err)
	}
	var key relay.Key
	_, err = pgx.ForEachRow(rows, []any{&n, &key.Topic, &key.PartitionKey}, func() error {
		if i := of[n-1]; key != rs[i].key {
			replies[i].outcome += "; its event has another topic or partition key by now"
			moved := key
			replies[i].moved = &moved
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for their events: %w", err)
	}
	return nil
}

// giveUp moves events to outbox.dead_event: those that the requests name, or those that stop their keys.
func (b *batch) giveUp(ctx context.Context, tx pgx.Tx, verb string, rs []request) ([]reply, error) {
	replies := make([]reply, len(rs))
	named, err := b.nameCulprits(ctx, tx, rs, replies)
	if err != nil {
		return nil, err
	}
	code, word := "SKIPPED", "skipped"
	if verb == VerbDead {
		code, word = "DEAD", "dead"
	}
	doomed, of := pick(named, unanswered(replies))
	deaths := make([]death, len(doomed))
	for i, r := range doomed {
		deaths[i] = death{key: r.key, ref: *r.event, code: code, reason: r.reason, by: r.requestedBy}
	}
	became, err := bury(ctx, tx, b.row, deaths)
	if err != nil {
		return nil, err
	}
	for j, d := range became {
		switch ref := deaths[j].ref; {
		case d.moved:
			replies[of[j]] = reply{outcome: fmt.Sprintf("%s: event %s (id %d) is in outbox.dead_event", word, ref.EventID, ref.ID), released: d.released, changed: true}
		case d.found:
			replies[of[j]] = refused("the table keeps the row of event %s (id %d): a trigger, or row-level security, lets no DELETE through", ref.EventID, ref.ID)
		}
	}
	if err := b.fill(ctx, tx, named, replies, finding.whyNotGivenUp); err != nil {
		return nil, err
	}
	return replies, b.releaseEmpty(ctx, tx, rs, replies)
}

// nameCulprits gives the requests for keys the events that stop these.
func (b *batch) nameCulprits(ctx context.Context, tx pgx.Tx, rs []request, replies []reply) ([]request, error) {
	if !someWhole(rs) {
		return rs, nil
	}
	named := append([]request(nil), rs...)
	rows, err := tx.Query(ctx, `
SELECT u.n, p.id, p.event_id FROM unnest($2::bytea[]) WITH ORDINALITY u(hash, n)
JOIN outbox.parked_key p ON p.source = $1 AND p.key_hash = u.hash`, b.row.ID, hashesOf(rs))
	if err != nil {
		return nil, fmt.Errorf("look for what stops the keys: %w", err)
	}
	var n int
	var ref relay.Ref
	_, err = pgx.ForEachRow(rows, []any{&n, &ref.ID, &ref.EventID}, func() error {
		if named[n-1].event == nil {
			found := ref
			named[n-1].event = &found
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for what stops the keys: %w", err)
	}
	for i, r := range named {
		if r.event == nil {
			replies[i] = notFound("the key is not parked")
		}
	}
	return named, nil
}

// releaseEmpty lets keys go on that were to be rid of an event which is gone: nothing stops them any more.
func (b *batch) releaseEmpty(ctx context.Context, tx pgx.Tx, rs []request, replies []reply) error {
	empty := func(i int) bool { return rs[i].event == nil && replies[i].gone }
	var where []string
	for i := range rs {
		if empty(i) {
			where = append(where, replies[i].problem)
		}
	}
	return answerSome(ctx, tx, rs, replies, empty, func(ctx context.Context, tx pgx.Tx, rs []request) ([]reply, error) {
		got, err := b.unpark(ctx, tx, rs)
		for j := range got {
			if got[j].released {
				got[j].outcome = "unparked: the event that stopped the key is not waiting in the table any more: " + where[j]
			}
		}
		return got, err
	})
}

// byKind does the requests for keys in one way and those for events in another.
func (b *batch) byKind(ctx context.Context, tx pgx.Tx, rs []request, keys, events func(context.Context, pgx.Tx, []request) ([]reply, error)) ([]reply, error) {
	replies := make([]reply, len(rs))
	isKey := func(i int) bool { return rs[i].event == nil }
	isEvent := func(i int) bool { return !isKey(i) }
	if err := answerSome(ctx, tx, rs, replies, isKey, keys); err != nil {
		return nil, err
	}
	return replies, answerSome(ctx, tx, rs, replies, isEvent, events)
}

func someWhole(rs []request) bool {
	for _, r := range rs {
		if r.event == nil {
			return true
		}
	}
	return false
}

// eachNumber runs a statement that returns numbers of elements, counted from 1, and calls f with each, counted from 0.
func eachNumber(ctx context.Context, tx pgx.Tx, f func(i int), sql string, args ...any) error {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	var n int
	_, err = pgx.ForEachRow(rows, []any{&n}, func() error {
		f(n - 1)
		return nil
	})
	return err
}

// finding is what is known of an event that a request could do nothing with.
type finding struct {
	ref relay.Ref
	// inTable tells that the row is there, sameKey that it is of the request's key, published when it was settled.
	inTable, sameKey bool
	published        *time.Time
	// dead tells that it is among the dead ones.
	dead bool
	// culprit is the event that the request's key is parked at; the zero Ref if it is not.
	culprit relay.Ref
	// kept says what keeps an event that has not failed, for people; "" when nothing is known to.
	kept string
}

// keptSQL are the reasons why an event of the request u may wait although it has not failed, the most telling with the smallest n. A command that stands in for the relays is none.
const keptSQL = `
    SELECT 1 AS n, CASE scope WHEN 'source' THEN 'everything is' WHEN 'topic' THEN 'its topic is' ELSE 'its key is' END || ' paused by ' || paused_by || '; outbox resume lets it go on' AS text
    FROM outbox.pause WHERE source = $1 AND (scope = 'source' OR scope = 'topic' AND topic = u.topic OR scope = 'key' AND key_hash = u.hash)
    UNION ALL
    SELECT 2, r.name || ' can publish nothing to its topic (' || h.code || ': ' || h.reason || '); when that is mended it goes out by itself'
    FROM outbox.held_topic h JOIN outbox.relay r USING (source, owner) WHERE h.source = $1 AND h.topic = u.topic AND r.expires_at > clock_timestamp()
    UNION ALL
    SELECT 3, 'no relay is alive to publish it; start one (outbox relay)'
    WHERE NOT EXISTS (SELECT FROM outbox.relay WHERE source = $1 AND expires_at > clock_timestamp() AND (name, version) <> ('` + standInName + `', ''))`

// fill gives the requests that have no reply yet the one that what is found of their events suggests.
func (b *batch) fill(ctx context.Context, tx pgx.Tx, rs []request, replies []reply, why func(finding) reply) error {
	open, of := pick(rs, unanswered(replies))
	if len(open) == 0 {
		return nil
	}
	ids, eventIDs := refsOf(open)
	topics, keys := make([]string, len(open)), make([]string, len(open))
	for i, r := range open {
		topics[i], keys[i] = r.key.Topic, r.key.PartitionKey
	}
	rows, err := tx.Query(ctx, fmt.Sprintf(`
SELECT u.n, u.id, u.event_id, t.id IS NOT NULL, coalesce(t.topic::text = u.topic AND t.partition_key::text = u.key, false), t.published_at,
    EXISTS (SELECT FROM outbox.dead_event d WHERE d.source = $1 AND d.id = u.id AND d.event_id = u.event_id),
    coalesce(p.id, 0), coalesce(p.event_id, '%s'), coalesce((SELECT text FROM (`+keptSQL+`) k ORDER BY n LIMIT 1), '')
FROM unnest($2::bigint[], $3::text[]::uuid[], $4::text[], $5::text[], $6::bytea[]) WITH ORDINALITY u(id, event_id, topic, key, hash, n)
LEFT JOIN LATERAL (SELECT t.* FROM %s t WHERE t.id = u.id AND (t.event_id = u.event_id) IS TRUE LIMIT 1) t ON true
LEFT JOIN outbox.parked_key p ON p.source = $1 AND p.key_hash = u.hash`, uuid.Nil, b.row.Table.SQL()),
		b.row.ID, ids, eventIDs, topics, keys, hashesOf(open))
	if err != nil {
		return fmt.Errorf("look for the events: %w", err)
	}
	var n int
	var w finding
	_, err = pgx.ForEachRow(rows, []any{&n, &w.ref.ID, &w.ref.EventID, &w.inTable, &w.sameKey, &w.published, &w.dead, &w.culprit.ID, &w.culprit.EventID, &w.kept}, func() error {
		replies[of[n-1]] = why(w)
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for the events: %w", err)
	}
	return nil
}

// common are the replies that do not depend on the verb.
func (w finding) common() reply {
	switch {
	case w.ref == relay.Ref{}:
		return refused("the request names its event by half: it takes id and event_id")
	case w.inTable && !w.sameKey:
		return refused("event %s (id %d) is of another topic or partition key than the request", w.ref.EventID, w.ref.ID)
	}
	return notFound("there is no event %s (id %d), neither in the table nor among the dead ones", w.ref.EventID, w.ref.ID)
}

func (w finding) whyNotRetried() reply {
	switch {
	case w.inTable && w.published != nil && w.sameKey:
		return already("event %s (id %d) is published since %s", w.ref.EventID, w.ref.ID, stamp(*w.published))
	case w.inTable && w.sameKey && w.culprit != relay.Ref{}:
		return refused("event %s (id %d) stops nothing: it waits behind event %s (id %d), at which its key is parked: retry that one", w.ref.EventID, w.ref.ID, w.culprit.EventID, w.culprit.ID)
	case w.inTable && w.sameKey:
		// It may have been corrected while another key was parked at it: its own is read again, which does no harm.
		r := refused("event %s (id %d) has not failed: %s", w.ref.EventID, w.ref.ID, cmp.Or(w.kept, "it waits for its turn"))
		r.changed = true
		return r
	case w.dead:
		return refused("event %s (id %d) is among the dead ones: restore it", w.ref.EventID, w.ref.ID)
	}
	return w.common()
}

func (w finding) whyNotGivenUp() reply {
	switch {
	case w.inTable && w.published != nil && w.sameKey:
		return refused("event %s (id %d) is published since %s", w.ref.EventID, w.ref.ID, stamp(*w.published)).ofNothing()
	case w.inTable && w.sameKey:
		// Somebody has its row locked.
		return reply{outcome: OutcomeRefused, later: true}
	case w.inTable && w.published != nil:
		return refused("event %s (id %d) has another topic or partition key by now, and is published since %s", w.ref.EventID, w.ref.ID, stamp(*w.published)).ofNothing()
	case w.dead:
		return already("event %s (id %d) is among the dead ones", w.ref.EventID, w.ref.ID).ofNothing()
	}
	return w.common().ofNothing()
}

func (w finding) whyNotRestored() reply {
	switch {
	case w.inTable && w.published == nil && w.sameKey:
		return already("event %s (id %d) is in the table and unpublished", w.ref.EventID, w.ref.ID)
	case w.inTable && w.sameKey:
		return already("event %s (id %d) is in the table and published since %s", w.ref.EventID, w.ref.ID, stamp(*w.published))
	case w.dead:
		// Somebody has its row locked.
		return reply{outcome: OutcomeRefused, later: true}
	}
	return w.common()
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
