package checkup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/pg"
)

const relaysSQL = `
SELECT r.source::text, r.owner::text, r.name, r.version, r.mode = 'competing', r.expires_at > clock_timestamp(),
    greatest(0, extract(epoch FROM clock_timestamp() - r.seen_at))::float8, r.silent_since
FROM outbox.relay r JOIN outbox.source s ON s.id = r.source
WHERE s.table_schema = $1 AND s.table_name = $2 ORDER BY r.started_at, r.owner`

const freeLanesSQL = `
SELECT count(l.lane), count(l.lane) FILTER (WHERE l.owner IS NULL OR l.expires_at <= clock_timestamp()), count(*) FILTER (WHERE l.expires_at <= clock_timestamp()),
    bool_or(s.first_published_at IS NOT NULL), coalesce(max(s.lanes), 0), count(l.lane) FILTER (WHERE l.lane >= s.lanes), coalesce(max(s.id::text), '')
FROM outbox.source s LEFT JOIN outbox.lane l ON l.source = s.id WHERE s.table_schema = $1 AND s.table_name = $2`

// seenRelay is a registration.
type seenRelay struct {
	source, owner, name, version string
	competing, alive             bool
	seen                         float64
	silentSince                  *time.Time
}

func (c checks) leases(ctx context.Context, tx pgx.Tx) (found []Symptom, unseen string, err error) {
	rows, err := tx.Query(ctx, relaysSQL, c.table.Schema, c.table.Name)
	if err != nil {
		return nil, "", fmt.Errorf("look at the relays: %w", err)
	}
	relays, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r seenRelay, err error) {
		err = row.Scan(&r.source, &r.owner, &r.name, &r.version, &r.competing, &r.alive, &r.seen, &r.silentSince)
		return r, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("look at the relays: %w", err)
	}
	l := laneCensus{}
	var published *bool
	if err := tx.QueryRow(ctx, freeLanesSQL, c.table.Schema, c.table.Name).Scan(&l.all, &l.free, &l.expired, &published, &l.wanted, &l.beyond, &l.source); err != nil {
		return nil, "", fmt.Errorf("look at the lanes: %w", err)
	}
	l.published = published != nil && *published
	return append(l.wrong(c.table), leaseSymptoms(relays, l, c.table)...), "", nil
}

type laneCensus struct {
	all, free, expired int64
	published          bool
	// wanted is how many the source says that it has, and beyond how many of all have a number above that.
	wanted, beyond int64
	source         string
}

// wrong finds what no relay starts with: a lane that is not there, or one too many.
func (l laneCensus) wrong(table pg.Table) []Symptom {
	missing := l.wanted - (l.all - l.beyond)
	switch {
	case missing > 0:
		return []Symptom{{
			Code: "lanes-missing", Grave: true, Text: fmt.Sprintf("the source %s has %s, and %d of them are missing from outbox.lane", table, plainCount(l.wanted, "lane"), missing),
			Why: "no relay of it starts; this is what is left where only a part of the schema outbox was restored", Mend: "outbox migrate up --table " + advice.Word(table.String()),
		}}
	case l.beyond > 0:
		return []Symptom{{
			Code: "lanes-too-many", Grave: true, Text: fmt.Sprintf("the source %s has %s, and %d more are in outbox.lane", table, plainCount(l.wanted, "lane"), l.beyond),
			Why: "no relay of it starts",
			Mend: "-- Only while no relay of the source runs.\n" +
				fmt.Sprintf("DELETE FROM outbox.lane WHERE source = '%s' AND lane >= %d;", l.source, l.wanted),
		}}
	}
	return nil
}

func leaseSymptoms(relays []seenRelay, l laneCensus, table pg.Table) (found []Symptom) {
	var versions []string
	leased, alive := 0, 0
	for _, r := range relays {
		switch {
		case !r.alive:
			found = append(found, r.gone())
			continue
		case r.silentSince != nil:
			found = append(found, Symptom{
				Code: "relay-without-kafka", Text: fmt.Sprintf("Kafka does not answer the relay %s since %s", r.name, pg.Clock(*r.silentSince)),
				Why: "it publishes nothing, and leaves its lanes to another relay if Kafka answers one", Mend: "look at the network between that relay and the brokers",
			})
		}
		alive++
		if !r.competing {
			leased++
		}
		if !slices.Contains(versions, r.version) {
			versions = append(versions, r.version)
		}
	}
	if len(versions) > 1 {
		found = append(found, Symptom{
			Code: "relay-versions-differ", Text: "relays of different versions are alive: " + strings.Join(versions, ", "),
			Why: "that is what a deploy looks like; for longer it is not meant to be", Mend: "deploy the same version everywhere",
		})
	}
	switch {
	case leased > 0 && l.free > 0:
		found = append(found, Symptom{
			Code: "lanes-unowned", Text: fmt.Sprintf("%d of %s belong to no relay that is alive, %d of them by a lease that has run out", l.free, plainCount(l.all, "lane"), l.expired),
			Why: "the events of their keys wait; relays take such lanes within seconds, unless they may not or do not get to it", Mend: "look again; if it stays, outbox lanes list and the relays' logs say why",
		})
	case alive == 0 && (l.published || len(relays) > 0):
		found = append(found, Symptom{
			Code: "relay-none-alive", Text: fmt.Sprintf("no relay of %s is alive, and there has been one", table), Why: "nobody publishes its events", Mend: "start outbox relay",
		})
	}
	return found
}

func (r seenRelay) gone() Symptom {
	return Symptom{
		Code: "relay-not-renewing", Text: fmt.Sprintf("the relay %s has not been seen for %s, and has not said that it stops", r.name, rounded(r.seen)),
		Why: "it was killed, hangs, or cannot reach the database; others take its lanes",
		Mend: "-- Where it is gone for good; one that comes back registers again.\n" +
			fmt.Sprintf("DELETE FROM outbox.relay WHERE source = '%s' AND owner = '%s' AND expires_at < clock_timestamp();", r.source, r.owner), SQL: true,
	}
}
