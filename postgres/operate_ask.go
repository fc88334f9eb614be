package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// Find implements [operate.Requests], over the primary key and the unique index of event_id.
func (s *Store) Find(ctx context.Context, refs []operate.Ref) (found []operate.Target, missing []operate.Ref, err error) {
	var known []operate.Target
	err = s.change(ctx, "look for events", func(ctx context.Context, l survey) error {
		b := &eventSQL{survey: l, q: operate.EventQuery{EventFilter: operate.EventFilter{Refs: refs}}}
		ids, events := b.refs()
		of := func(state, columns, from, where string) string {
			return fmt.Sprintf("SELECT %s, %s AS state FROM %s WHERE %s", columns, state, from, where)
		}
		table := fmt.Sprintf("e.id, coalesce(e.event_id, %s), e.topic::text, e.partition_key::text, '' AS letter, '' AS code", nilUUID)
		alive, dead := "CASE WHEN e.published_at IS NULL THEN 'pending' ELSE 'published' END", "'dead'"
		text := of(alive, table, l.row.Table.SQL()+" e", "e.id = ANY ("+ids+")") +
			" UNION ALL " + of(alive, table, l.row.Table.SQL()+" e", "e.event_id = ANY ("+events+")") +
			" UNION ALL " + of(dead, "x.id, x.event_id, x.topic, x.partition_key, coalesce(x.letter_topic, ''), "+failedBy("x"), "outbox.dead_event x",
			"x.source = "+b.source()+" AND (x.id = ANY ("+ids+") OR x.event_id = ANY ("+events+"))")
		rows, err := l.tx.Query(ctx, text, b.args...)
		if err != nil {
			return err
		}
		known, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t operate.Target, err error) {
			var state string
			err = row.Scan(&t.ID, &t.EventID, &t.Topic, &t.PartitionKey, &t.Letter, &t.Code, &state)
			t.State = operate.State(state)
			return t, err
		})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	found, missing = match(refs, known)
	return found, missing, nil
}

// match finds the first of the known targets for each name. An event that has two names is one.
func match(refs []operate.Ref, known []operate.Target) (found []operate.Target, missing []operate.Ref) {
	byID, byEvent := map[int64][]operate.Target{}, map[uuid.UUID][]operate.Target{}
	for _, t := range known {
		byID[t.ID] = append(byID[t.ID], t)
		byEvent[t.EventID] = append(byEvent[t.EventID], t)
	}
	taken := map[relay.Ref]struct{}{}
	for _, r := range refs {
		candidates := byID[r.ID]
		if r.ID == 0 {
			candidates = byEvent[r.EventID]
		}
		t, ok := firstOf(candidates, r)
		if !ok {
			missing = append(missing, r)
			continue
		}
		name := relay.Ref{ID: t.ID, EventID: t.EventID}
		if _, twice := taken[name]; !twice {
			taken[name] = struct{}{}
			found = append(found, t)
		}
	}
	return found, missing
}

func firstOf(candidates []operate.Target, r operate.Ref) (operate.Target, bool) {
	for _, t := range candidates {
		if (r.ID == 0 || t.ID == r.ID) && (r.EventID == uuid.Nil || t.EventID == r.EventID) {
			return t, true
		}
	}
	return operate.Target{}, false
}

// alsoAskedSQL goes behind the rows of outbox.request that a statement writes as "asked". Where one lets a parked key go on whose event has another topic or partition key by now, for
// somebody has corrected its row, the owner of that key's lane is asked too: it reads the key again, which else only its sweep would find.
func alsoAskedSQL(r pg.Source) string {
	return fmt.Sprintf(`, also AS (
    INSERT INTO outbox.request (source, verb, topic, partition_key, id_of_event, event_id, requested_by, reason)
    SELECT a.source, '%s', t.topic, t.key, p.id, p.event_id, a.requested_by, a.reason
    FROM asked a JOIN outbox.parked_key p ON p.source = a.source AND p.key_hash = %s AND coalesce(a.id_of_event = p.id, true)
    CROSS JOIN LATERAL (
        SELECT coalesce(e.topic::text, '') AS topic, coalesce(e.partition_key::text, '') AS key FROM %s e
        WHERE e.id = p.id AND (e.event_id = p.event_id) IS TRUE AND e.published_at IS NULL LIMIT 1) t
    WHERE a.verb IN ('%s', '%[1]s') AND (t.topic, t.key) <> (a.topic, a.partition_key)
)`, VerbRetry, pg.KeyHashSQL("a.topic", "a.partition_key"), r.Table.SQL(), VerbUnpark)
}

// Ask implements [operate.Requests].
func (s *Store) Ask(ctx context.Context, audit int64, verb operate.Verb, t operate.Target, by, reason string) (id int64, err error) {
	key := relay.Key{Topic: t.Topic, PartitionKey: t.PartitionKey}
	if t.EventID == uuid.Nil && t.ID == 0 {
		id, err = s.ask(ctx, audit, string(verb), key, nil, by, reason)
	} else {
		id, err = s.ask(ctx, audit, string(verb), key, &relay.Ref{ID: t.ID, EventID: t.EventID}, by, reason)
	}
	if errors.Is(err, ErrCompeting) {
		return 0, operate.Refuse(operate.CodeConflict, "%s key %q of topic %s: %v", verb, t.PartitionKey, t.Topic, ErrCompeting)
	}
	if err != nil {
		return 0, s.refusal(ctx, err, "write a request", changeTimeout)
	}
	return id, nil
}

// Answer implements [operate.Requests].
func (s *Store) Answer(ctx context.Context, request int64) (operate.Answer, error) {
	out, err := s.Await(ctx, request)
	return operate.Answer{Text: out.Text, Problem: out.Problem}, err
}

var _ operate.Changes = (*Store)(nil)

// Pause implements [operate.Changes].
func (s *Store) Pause(ctx context.Context, what operate.Scope, by, reason string) (changed bool, err error) {
	return s.pausing(ctx, "pause "+what.String(), what, func(scope relay.PauseScope) (bool, error) {
		return s.Operator.Pause(ctx, scope, what.Topic, what.PartitionKey, by, reason)
	})
}

// Resume implements [operate.Changes].
func (s *Store) Resume(ctx context.Context, what operate.Scope) (changed bool, err error) {
	return s.pausing(ctx, "resume "+what.String(), what, func(scope relay.PauseScope) (bool, error) {
		return s.Operator.Resume(ctx, scope, what.Topic, what.PartitionKey)
	})
}

func (s *Store) pausing(ctx context.Context, doing string, what operate.Scope, do func(relay.PauseScope) (bool, error)) (bool, error) {
	scope := relay.PauseScope(what.Kind)
	if _, err := pauseKey(scope, what.Topic, what.PartitionKey); err != nil {
		return false, &operate.Error{Code: operate.CodeInvalid, Text: doing, Err: err}
	}
	changed, err := do(scope)
	if err != nil {
		return false, s.refusal(ctx, err, doing, changeTimeout)
	}
	return changed, nil
}
