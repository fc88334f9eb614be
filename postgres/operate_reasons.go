package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// addReasons says why the event does not move, the most telling reason first.
func (l survey) addReasons(ctx context.Context, d *operate.EventDetail) error {
	switch d.State {
	case operate.StatePublished:
		d.Why = []operate.Reason{{Code: operate.ReasonPublished, Text: "it is in Kafka since " + pg.Clock(d.PublishedAt), Since: d.PublishedAt}}
		return nil
	case operate.StateDead:
		d.Why = []operate.Reason{{
			Code: operate.ReasonDead, Since: d.Since, By: d.DiedBy,
			Text: fmt.Sprintf("%s gave it up at %s (%s: %s)", d.DiedBy, pg.Clock(d.Since), d.Code, d.Error),
		}}
		return nil
	}
	for _, find := range []func(context.Context, *operate.EventDetail) ([]operate.Reason, error){
		l.whyParked, l.whyTried, l.whyPaused, l.whyHeld, l.whyNobody, l.whyOutage, l.whyLocked, l.whyRequested,
	} {
		reasons, err := find(ctx, d)
		if err != nil {
			return fmt.Errorf("find why it does not move: %w", err)
		}
		d.Why = append(d.Why, reasons...)
	}
	if len(d.Why) == 0 {
		d.Why = []operate.Reason{l.queued(d)}
	}
	writers, err := l.whyWriters(ctx, d)
	d.Why = append(d.Why, writers...)
	return err
}

// queued is what is left when the database knows of nothing that keeps it. A relay writes down that an event has failed when it has decided what becomes of it.
func (l survey) queued(d *operate.EventDetail) operate.Reason {
	r := operate.Reason{Code: operate.ReasonQueued, By: d.LaneOwner, Text: fmt.Sprintf(
		"nothing that the database knows keeps it: %s has its lane, and comes to it, has sent it and waits for Kafka, or has not yet decided what becomes of it after a failure, as while a dead letter is on its way; its log says what has failed",
		d.LaneOwner)}
	if d.LaneOwner == "" {
		r.Text = "nothing that the database knows keeps it: relays of mode competing come to it"
	}
	return r
}

func (l survey) whyParked(ctx context.Context, d *operate.EventDetail) ([]operate.Reason, error) {
	var ref operate.Ref
	var code, reason, topic string
	var since time.Time
	var root *int64
	var stops bool
	var rootEvent *uuid.UUID
	err := l.tx.QueryRow(ctx, `
SELECT p.id, p.event_id, p.code, p.reason, p.parked_at, f.id, f.event_id, coalesce(f.topic, ''), EXISTS (SELECT FROM `+l.row.Table.SQL()+` e
    WHERE e.id = p.id AND e.event_id = p.event_id AND e.published_at IS NULL AND e.topic::text = p.topic AND e.partition_key::text = p.partition_key)
FROM outbox.parked_key p
LEFT JOIN LATERAL (SELECT r.id, r.event_id, r.topic `+rootsOfSQL+`) f ON true WHERE p.source = $1::uuid AND p.key_hash = $2::bytea`,
		l.row.ID.String(), pg.KeyHash(relayKey(d.Topic, d.PartitionKey))).Scan(&ref.ID, &ref.EventID, &code, &reason, &since, &root, &rootEvent, &topic, &stops)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	since = since.UTC()
	switch {
	case code == relay.CodeAggregateParked && root != nil && rootEvent != nil:
		return []operate.Reason{waitsFor(ref == d.Ref(), since, ref, operate.Ref{ID: *root, EventID: *rootEvent}, topic)}, nil
	case code == relay.CodeAggregateParked:
		return []operate.Reason{{Code: operate.ReasonAggregateParked, Since: since, Text: fmt.Sprintf(
			"its key waited since %s for an aggregate that nothing stops any more: the relay that has its lane lets it go on in a moment", pg.Clock(since))}}, nil
	case ref == d.Ref():
		return []operate.Reason{{Code: operate.ReasonParked, Since: since, Text: fmt.Sprintf(
			"it stops its key since %s (%s: %s); when that is mended outbox keys unpark %[4]s lets the key go on, outbox keys skip %[4]s goes on without it", pg.Clock(since), code, reason, keyFlags(d))}}, nil
	case !stops:
		return []operate.Reason{{Code: operate.ReasonBehindParked, Since: since, Event: &ref, Text: fmt.Sprintf(
			"its key is parked since %s by event %d, which does not wait under this key any more: outbox keys unpark %s lets the key go on", pg.Clock(since), ref.ID, keyFlags(d))}}, nil
	}
	return []operate.Reason{{
		Code: operate.ReasonBehindParked, Since: since, Event: &ref,
		Text: fmt.Sprintf("its key is parked since %s by event %d (%s: %s)", pg.Clock(since), ref.ID, code, reason),
	}}, nil
}

// keyFlags are the flags that name the event's key.
func keyFlags(d *operate.EventDetail) string {
	if d.PartitionKey == "" {
		return "--topic " + advice.Word(d.Topic) + " --empty-key"
	}
	return "--topic " + advice.Word(d.Topic) + " --key " + advice.Word(d.PartitionKey)
}

// waitsFor is the reason of an event whose key waits, at the event at or at this one, for a root.
func waitsFor(itself bool, since time.Time, at, root operate.Ref, topic string) operate.Reason {
	what := "its aggregate is"
	if !itself {
		what = fmt.Sprintf("it is behind event %d of its key, whose aggregate is", at.ID)
	}
	return operate.Reason{
		Code: operate.ReasonAggregateParked, Since: since, Event: &root,
		Text: fmt.Sprintf("%s stopped since %s by event %d (%s) of topic %s; it goes on by itself when the key of that one does: outbox keys unpark, or outbox keys skip",
			what, pg.Clock(since), root.ID, root.EventID, topic),
	}
}

// whyTried finds the first event of the key that waits for its next attempt.
func (l survey) whyTried(ctx context.Context, d *operate.EventDetail) ([]operate.Reason, error) {
	var ref operate.Ref
	var attempts int
	var text string
	var next time.Time
	err := l.tx.QueryRow(ctx, `
SELECT id, event_id, attempts, coalesce(last_error, ''), next_attempt_at FROM outbox.failure
WHERE source = $1::uuid AND topic = $2 AND partition_key = $3 AND id <= $4::bigint AND next_attempt_at > now() ORDER BY id LIMIT 1`,
		l.row.ID.String(), d.Topic, d.PartitionKey, d.ID).Scan(&ref.ID, &ref.EventID, &attempts, &text, &next)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := operate.Reason{Code: operate.ReasonNextAttempt, Text: fmt.Sprintf("it is tried again at %s, after %s (%s)", pg.Clock(next), tries(attempts), text)}
	if ref != d.Ref() {
		r.Event = &ref
		r.Text = fmt.Sprintf("event %d of its key is tried again at %s, after %s (%s)", ref.ID, pg.Clock(next), tries(attempts), text)
	}
	return []operate.Reason{r}, nil
}

// tries is "1 attempt" or "3 attempts".
func tries(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

func (l survey) whyPaused(ctx context.Context, d *operate.EventDetail) (reasons []operate.Reason, err error) {
	pauses, err := readPauses(ctx, l, "(scope = 'source' OR scope = 'topic' AND topic = $2 OR scope = 'key' AND key_hash = $3::bytea)", d.Topic, pg.KeyHash(relayKey(d.Topic, d.PartitionKey)))
	for _, p := range pauses {
		what := map[string]string{"source": l.row.Table.String() + " is", "topic": "its topic is", "key": "its key is"}[p.Scope]
		text := fmt.Sprintf("%s paused since %s by %s", what, pg.Clock(p.Since), p.By)
		if p.Reason != "" {
			text += " (" + p.Reason + ")"
		}
		reasons = append(reasons, operate.Reason{Code: operate.ReasonPaused, Since: p.Since, By: p.By, Text: text})
	}
	return reasons, err
}

func (l survey) whyHeld(ctx context.Context, d *operate.EventDetail) (reasons []operate.Reason, err error) {
	holds, err := readHolds(ctx, l, d.Topic)
	for _, h := range holds {
		reasons = append(reasons, operate.Reason{
			Code: operate.ReasonTopicHeld, Since: h.Since, By: h.Relay,
			Text: fmt.Sprintf("%s can publish nothing to its topic since %s (%s: %s)", h.Relay, pg.Clock(h.Since), h.Code, h.Reason),
		})
	}
	return reasons, err
}

// noTrace is why nobody can say when the last relay was there.
const noTrace = "when the last one was there is not known, for one that stops cleanly leaves no trace"

// whyNobody tells that no relay is there to publish it.
func (l survey) whyNobody(ctx context.Context, d *operate.EventDetail) ([]operate.Reason, error) {
	if d.LaneOwner != "" {
		return nil, nil
	}
	p, err := l.present(ctx)
	if err != nil || p.competing > 0 {
		return nil, err
	}
	if r := p.laneFree(d.Lane); r != nil {
		return []operate.Reason{*r}, nil
	}
	var dead *string
	var seen *time.Time
	err = l.tx.QueryRow(ctx, `SELECT max(seen_at), (array_agg(name ORDER BY seen_at DESC))[1] FROM outbox.relay WHERE source = $1::uuid`, l.row.ID.String()).Scan(&seen, &dead)
	switch {
	case err != nil:
		return nil, err
	case seen == nil || dead == nil:
		return []operate.Reason{{Code: operate.ReasonNoRelay, Text: "no relay is alive: start one (outbox relay); " + noTrace}}, nil
	}
	// Others may have come and gone since then.
	return []operate.Reason{{Code: operate.ReasonNoRelay, By: *dead, Text: fmt.Sprintf("no relay is alive: start one (outbox relay); %s was last seen at %s, and ended without a word", *dead, pg.Clock(*seen))}}, nil
}

// whyOutage tells that the owner of the lane hears nothing of Kafka, by its own word: when Kafka last answered tells nothing of a relay that had nothing to ask since.
func (l survey) whyOutage(ctx context.Context, d *operate.EventDetail) ([]operate.Reason, error) {
	var name string
	var silent time.Time
	err := l.tx.QueryRow(ctx, `
SELECT r.name, r.silent_since FROM outbox.lane n JOIN outbox.relay r ON r.source = n.source AND r.owner = n.owner
WHERE n.source = $1::uuid AND n.lane = $2::integer AND n.expires_at > now() AND r.silent_since IS NOT NULL`, l.row.ID.String(), d.Lane).Scan(&name, &silent)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []operate.Reason{{
		Code: operate.ReasonOutage, By: name, Since: silent.UTC(),
		Text: fmt.Sprintf("%s has its lane, and Kafka has not answered it since %s: look at the brokers, and at its log", name, pg.Clock(silent)),
	}}, nil
}

// whyRequested shows what somebody has asked for and is not done yet.
func (l survey) whyRequested(ctx context.Context, d *operate.EventDetail) ([]operate.Reason, error) {
	rows, err := l.tx.Query(ctx, `
SELECT id, verb, requested_by, requested_at, coalesce(job, 0) FROM outbox.request
WHERE source = $1::uuid AND done_at IS NULL AND topic = $2 AND partition_key = $3 AND coalesce(event_id = $4::text::uuid, true) ORDER BY id LIMIT 5`,
		l.row.ID.String(), d.Topic, d.PartitionKey, d.EventID.String())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (operate.Reason, error) {
		var id, job int64
		var verb string
		r := operate.Reason{Code: operate.ReasonRequested}
		err := row.Scan(&id, &verb, &r.By, &r.Since, &job)
		r.Since = r.Since.UTC()
		what, cancel := fmt.Sprintf("request %d", id), fmt.Sprintf("--request %d", id)
		if job != 0 {
			what, cancel = fmt.Sprintf("request %d of job %d", id, job), fmt.Sprint(job)
		}
		r.Text = fmt.Sprintf("%s asked at %s for %s (%s), which the owner of its lane has not done yet; outbox jobs cancel %s takes that back", r.By, pg.Clock(r.Since), verb, what, cancel)
		return r, err
	})
}

// whyWriters shows transactions that began before the event and are open. They keep nobody but themselves, but who looks for an event that does not
// come looks for them.
func (l survey) whyWriters(ctx context.Context, d *operate.EventDetail) (reasons []operate.Reason, err error) {
	if d.EventID == uuid.Nil {
		return nil, nil
	}
	writers, err := l.writers(ctx)
	for _, w := range writers {
		if !w.Began.IsZero() && w.Began.After(d.CreatedAt) {
			continue
		}
		reasons = append(reasons, operate.Reason{
			Code: operate.ReasonOpenWriter, Since: w.Began, Writer: &w,
			Text: "an older transaction that has written events is open: " + writerText(w) + "; its own events wait for its end, others do not",
		})
	}
	return reasons, err
}
