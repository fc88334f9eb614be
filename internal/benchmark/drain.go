package benchmark

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/relay"
)

// Drain is how a relay works off a backlog.
type Drain struct {
	Events int `json:"events"`
	// Seconds is from the first acknowledgement to the last row settled, PerSecond the events within it; Start what came before: connecting, leases, the first read.
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"events_per_second"`
	Start     float64 `json:"start_seconds"`
	// Reading and Settling are the shares of Seconds in which such a statement was under way: 1 is always. Each has one connection, so more than that is not to be had.
	Reading  float64 `json:"reading"`
	Settling float64 `json:"settling"`
	// Read and Settle are the means of these statements, and Publish that of the time an event is with the Kafka client, in milliseconds.
	Read    float64 `json:"read_mean_ms"`
	Settle  float64 `json:"settle_mean_ms"`
	Publish float64 `json:"publish_mean_ms"`
	// InFlight is how much of max-in-flight was used in the mean, OutWith the share of those that were with Kafka; what is left of them waited for its settle.
	InFlight float64 `json:"in_flight"`
	OutWith  float64 `json:"with_kafka"`
	// Processors is how many of Cores this process kept busy in the mean; -1 where the system does not tell.
	Processors float64 `json:"processors"`
	Cores      int     `json:"cores"`
}

// What one transaction of the backlog has at most: so many events, and so many bytes of payloads.
const (
	chunkEvents = 10_000
	chunkBytes  = 20_000_000
)

// fill writes the backlog, on the server alone.
func (b *Bench) fill(ctx context.Context) error {
	table := pgx.Identifier{b.plan.Schema, "outbox_event"}.Sanitize()
	if _, err := b.cfg.Pool.Exec(ctx, "TRUNCATE "+table); err != nil {
		return fmt.Errorf("clear the scratch table: %w", err)
	}
	// Ids are in the order of time, as version 7 has them. The notes differ, so that compression gains no more than it would with events of a service.
	insert := `INSERT INTO ` + table + ` (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || substr(r, 1, 3) || '8' || substr(r, 4, 15))::uuid,
    'Bench', i::text, $1, jsonb_build_object('n', i, 'note', left(note, $2::integer)), $3, 'key-' || (i % $4::bigint)
FROM (SELECT i, md5(random()::text) AS r, (SELECT string_agg(md5(i::text || ':' || j::text), '') FROM generate_series(0, $2::integer / 32) j) AS note
    FROM generate_series($5::bigint, $6::bigint) i) s`
	chunk := min(chunkEvents, chunkBytes/b.cfg.Size)
	for from := 1; from <= b.cfg.Events; from += chunk {
		to := min(b.cfg.Events, from+chunk-1)
		if _, err := b.cfg.Pool.Exec(ctx, insert, eventType, b.padding(), b.plan.Topic, b.cfg.Keys, from, to); err != nil {
			return fmt.Errorf("write the backlog: %w", err)
		}
	}
	if _, err := b.cfg.Pool.Exec(ctx, "ANALYZE "+table); err != nil {
		return fmt.Errorf("analyze the scratch table: %w", err)
	}
	return nil
}

// drain runs a relay until the backlog is gone.
func (b *Bench) drain(ctx context.Context) (d Drain, err error) {
	r, err := b.newRelay(true, nil)
	if err != nil {
		return d, err
	}
	began := time.Now()
	w := &drainWatch{relay: r, most: cmp.Or(b.cfg.Relay.MaxInFlight, 20_000), began: began, moved: began, cpu: processorTime()}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	var stalled error
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.look(time.Now())
			if stalled == nil && time.Since(w.moved) > b.cfg.stall {
				stalled = w.stalled(b.cfg.Events, b.cfg.stall)
				stop()
			}
		case err := <-ended:
			if stalled != nil {
				return d, errors.Join(stalled, ctx.Err())
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return d, fmt.Errorf("drain the backlog: %w", err)
			}
			return w.result(b.cfg.Events)
		}
	}
}

// drainWatch looks at a relay that drains.
type drainWatch struct {
	relay *relay.Relay
	most  int
	began time.Time
	cpu   time.Duration
	// first is when the first acknowledgement was seen, of already events; last is when the number of settled events was seen to rise last.
	first, last      time.Time
	already, settled int64
	// moved is when the relay was seen to get on last: an acknowledgement, or a row settled.
	moved         time.Time
	published     int64
	looks         int
	inFlight, out float64
}

func (w *drainWatch) look(now time.Time) {
	s := w.relay.Stats()
	if w.first.IsZero() && s.Published > 0 {
		w.first, w.already = now, s.Published
	}
	if s.Published > w.published || s.Settled > w.settled {
		w.published, w.moved = s.Published, now
	}
	if s.Settled > w.settled {
		w.settled, w.last = s.Settled, now
	}
	if s.InFlight > 0 {
		w.looks++
		w.inFlight += float64(s.InFlight)
		w.out += float64(s.Outstanding)
	}
}

// stalled says of a relay that does not get on how far it came, and which side does not answer.
func (w *drainWatch) stalled(events int, after time.Duration) error {
	s := w.relay.Stats()
	side := "the database has not answered, or the relay found no lanes: look at its locks and its load"
	switch {
	case len(s.HeldTopics) > 0:
		side = fmt.Sprintf("topics are held: %v", s.HeldTopics)
	case s.Outstanding > 0:
		side = fmt.Sprintf("%d are with Kafka, which does not acknowledge them: look at the brokers", s.Outstanding)
	case s.Published == 0:
		side = "either side has not answered: look at the brokers, and at the database's locks and load"
	}
	return fmt.Errorf("drain the backlog: nothing moved for %s: %d of %d events are published, %d of them settled; %s", after, s.Published, events, s.Settled, side)
}

func (w *drainWatch) result(events int) (d Drain, err error) {
	end := time.Now()
	w.look(end)
	s := w.relay.Stats()
	if int(s.Settled) != events {
		return d, fmt.Errorf("drain the backlog: %d of %d events were published; %d keys parked, topics held: %v", s.Settled, events, s.ParkedKeys, s.HeldTopics)
	}
	counted := events - int(w.already)
	// So few events that all was over between two looks are counted with the start.
	if counted < events/2 {
		w.first, counted = w.began, events
	}
	took := max(w.last.Sub(w.first), time.Millisecond)
	d = Drain{Events: events, Seconds: took.Seconds(), PerSecond: float64(counted) / took.Seconds(), Start: w.first.Sub(w.began).Seconds(), Processors: -1, Cores: runtime.GOMAXPROCS(0)}
	m := s.Measures
	d.Reading, d.Settling = min(1, m.Read.Sum/end.Sub(w.began).Seconds()), min(1, m.Settle.Sum/took.Seconds())
	d.Read, d.Settle, d.Publish = meanMillis(m.Read), meanMillis(m.Settle), meanMillis(m.Publish)
	if w.looks > 0 {
		d.InFlight, d.OutWith = w.inFlight/float64(w.looks*w.most), w.out/max(1, w.inFlight)
	}
	if w.cpu >= 0 {
		d.Processors = (processorTime() - w.cpu).Seconds() / end.Sub(w.began).Seconds()
	}
	return d, nil
}

func meanMillis(d relay.Distribution) float64 {
	n := uint64(0)
	for _, c := range d.Counts {
		n += c
	}
	if n == 0 {
		return 0
	}
	return d.Sum / float64(n) * 1000
}
