package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/relay"
)

// keeper knows what keeps the pending events of a page, all of it asked for once for the page.
type keeper struct {
	lanes  int
	pauses []operate.Pause
	holds  []operate.Hold
	// silent are the outages by the relay, owners the relays by their lane.
	silent map[uuid.UUID]operate.Outage
	owners map[int32]uuid.UUID
	relays present
}

// addKept says of each pending event what keeps it, the most telling first: a pause, its topic, that nobody is there, Kafka.
func (l survey) addKept(ctx context.Context, events []operate.Event) error {
	var hashes [][]byte
	for _, e := range events {
		if e.State == operate.StatePending {
			hashes = append(hashes, pg.KeyHash(relayKey(e.Topic, e.PartitionKey)))
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	k, err := l.keeper(ctx, hashes)
	if err != nil {
		return fmt.Errorf("find what keeps events: %w", err)
	}
	for i := range events {
		if events[i].State == operate.StatePending {
			events[i].Kept = k.keeps(events[i])
		}
	}
	return nil
}

func (l survey) keeper(ctx context.Context, hashes [][]byte) (k keeper, err error) {
	k = keeper{lanes: l.row.Lanes, silent: map[uuid.UUID]operate.Outage{}, owners: map[int32]uuid.UUID{}}
	if k.pauses, err = readPauses(ctx, l, "(scope <> 'key' OR key_hash = ANY ($2::bytea[]))", hashes); err != nil {
		return k, err
	}
	if k.holds, err = readHolds(ctx, l, ""); err != nil {
		return k, err
	}
	outages, owners, err := readOutages(ctx, l)
	if err != nil {
		return k, err
	}
	for i, o := range outages {
		k.silent[owners[i]] = o
	}
	lanes, err := readLanes(ctx, l.tx, l.row.ID)
	if err != nil {
		return k, err
	}
	for _, lane := range lanes {
		if lane.Remaining > 0 {
			k.owners[lane.Lane] = lane.Owner
		}
	}
	k.relays, err = l.present(ctx)
	return k, err
}

// keeps is nil when nothing is known to keep the event.
func (k keeper) keeps(e operate.Event) *operate.Reason {
	if p := k.pause(e); p != nil {
		return p
	}
	if i := slices.IndexFunc(k.holds, func(h operate.Hold) bool { return h.Topic == e.Topic }); i >= 0 {
		h := k.holds[i]
		return &operate.Reason{Code: operate.ReasonTopicHeld, Since: h.Since, By: h.Relay, Text: fmt.Sprintf("%s: %s (topic held since %s)", h.Code, h.Reason, pg.Clock(h.Since))}
	}
	lane := relay.Lane(e.PartitionKey, k.lanes)
	owner, owned := k.owners[lane]
	o, silent := k.silent[owner]
	switch {
	case owned && silent:
		return &operate.Reason{Code: operate.ReasonOutage, Since: o.Since, By: o.Relay, Text: fmt.Sprintf("Kafka does not answer %s since %s", o.Relay, pg.Clock(o.Since))}
	case owned || k.relays.competing > 0:
		return nil
	}
	if r := k.relays.laneFree(lane); r != nil {
		return r
	}
	return &operate.Reason{Code: operate.ReasonNoRelay, Text: "no relay is alive"}
}

// pause finds the widest pause that keeps the event.
func (k keeper) pause(e operate.Event) *operate.Reason {
	for _, scope := range []string{operate.ScopeSource, operate.ScopeTopic, operate.ScopeKey} {
		for _, p := range k.pauses {
			if p.Scope != scope || scope != operate.ScopeSource && p.Topic != e.Topic || scope == operate.ScopeKey && p.PartitionKey != e.PartitionKey {
				continue
			}
			what := map[string]string{operate.ScopeSource: "all", operate.ScopeTopic: "topic", operate.ScopeKey: "key"}[scope]
			text := fmt.Sprintf("%s paused by %s since %s", what, p.By, pg.Clock(p.Since))
			if p.Reason != "" {
				text += ": " + p.Reason
			}
			return &operate.Reason{Code: operate.ReasonPaused, Since: p.Since, By: p.By, Text: text}
		}
	}
	return nil
}
