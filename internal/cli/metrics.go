package cli

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// collector asks the relays and their databases when it is scraped, so that an age grows although nothing happens. Every series has the label source, whose values are those
// of the configuration.
type collector struct {
	relays    *relayFleet
	retention retentionMetrics
	measures  measureMetrics

	ready, pending, oldest, published, errors, parked, lanes, inFlight, held, heldKeys, unsettled, sinceAck, dead, delayed, paused, settled, throttled *prometheus.Desc
}

func newCollector(relays *relayFleet) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("outbox_"+name, help, append([]string{"source"}, labels...), nil)
	}
	return &collector{
		relays:    relays,
		retention: newRetentionMetrics(desc),
		measures:  newMeasureMetrics(desc),
		ready:     desc("source_ready", "1 when events of the source flow, or would if this relay had lanes, else 0; /readyz says why."),
		pending:   desc("pending", "Unpublished events, counted to 100,000."),
		oldest:    desc("oldest_pending_age_seconds", "Age of the oldest unpublished event by the database's clock; 0 when there is none."),
		published: desc("published_total", "Events that Kafka has acknowledged to this relay."),
		errors:    desc("publish_errors_total", "Failures to publish by class.", "class"),
		parked:    desc("parked_keys", "Keys that wait for an operator."),
		lanes:     desc("lanes", "Lanes that this relay has; the sum over all relays of a table is its number of lanes."),
		inFlight:  desc("in_flight", "Events that are read and not settled."),
		held:      desc("held_topics", "Topics that cannot be published to."),
		heldKeys:  desc("held_keys", "Keys that a relay of mode competing leaves out for a while after an event has failed; it tries them again by itself."),
		unsettled: desc("unsettled_total", "Events that are in Kafka and whose rows could not be marked."),
		sinceAck:  desc("seconds_since_ack", "How long events have been outstanding without an answer of Kafka; 0 while none are outstanding."),
		dead:      desc("dead_events_total", "Events that this relay has moved to outbox.dead_event by policy."),
		delayed:   desc("delayed_keys", "Keys that wait for the next attempt with an event that has failed."),
		settled:   desc("oldest_settled_age_seconds", "Age of the oldest settled event that is still there, as far as the lowest ids tell; 0 when they tell nothing."),
		throttled: desc("throttled_seconds_total", "Seconds for which brokers have had this relay wait because a quota is exceeded; at the same time counts once."),
		paused:    desc("paused", "What operators have paused: the source itself, topics and keys.", "scope"),
	}
}

// Describe is of prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range slices.Concat([]*prometheus.Desc{c.ready, c.pending, c.oldest, c.published, c.errors, c.parked, c.lanes, c.inFlight, c.held, c.heldKeys, c.unsettled, c.sinceAck, c.dead, c.delayed, c.paused, c.settled, c.throttled}, c.retention.all(), c.measures.all()) {
		ch <- d
	}
}

const scrapeTimeout = 5 * time.Second

// Collect is of prometheus.Collector. The sources are asked at the same time, so one that does not answer holds up no other beyond one timeout.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	var wg sync.WaitGroup
	for _, s := range c.relays.States() {
		wg.Go(func() { c.collect(ch, s) })
	}
	wg.Wait()
}

// collect tells of one source. While its database cannot be asked, the series that come from there are absent rather than wrong.
func (c *collector) collect(ch chan<- prometheus.Metric, s sourceState) {
	metric := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, value, append([]string{s.Name}, labels...)...)
	}
	metric(c.ready, prometheus.GaugeValue, zeroOrOne(sourceReady(s) == nil))
	if !s.Made {
		return
	}
	stats := s.Engine.Stats()
	metric(c.published, prometheus.CounterValue, float64(stats.Published))
	metric(c.lanes, prometheus.GaugeValue, float64(stats.Lanes))
	metric(c.inFlight, prometheus.GaugeValue, float64(stats.InFlight))
	metric(c.held, prometheus.GaugeValue, float64(len(stats.HeldTopics)))
	metric(c.heldKeys, prometheus.GaugeValue, float64(stats.HeldKeys))
	metric(c.unsettled, prometheus.CounterValue, float64(stats.Unsettled))
	metric(c.sinceAck, prometheus.GaugeValue, stats.Silent.Seconds())
	metric(c.dead, prometheus.CounterValue, float64(stats.Dead))
	metric(c.delayed, prometheus.GaugeValue, float64(stats.DelayedKeys))
	if s.Engine.throttled != nil {
		metric(c.throttled, prometheus.CounterValue, s.Engine.throttled().Seconds())
	}
	for class, n := range stats.Errors {
		metric(c.errors, prometheus.CounterValue, float64(n), class.String())
	}
	c.measures.collect(&stats, metric)
	for d, of := range c.measures.distributions(&stats.Measures) {
		ch <- histogram(d, of, s.Name)
	}
	if r := s.Engine.retention; r != nil {
		c.retention.collect(r.Stats(), metric)
	}
	read := s.Engine.reading.get(s.Engine.read)
	// A backlog that cannot be counted in time is no reason to leave it out.
	if read.settledErr == nil {
		metric(c.settled, prometheus.GaugeValue, read.settled.Seconds())
	}
	if read.backlogErr != nil {
		return
	}
	backlog := read.backlog
	metric(c.pending, prometheus.GaugeValue, float64(backlog.Pending))
	metric(c.oldest, prometheus.GaugeValue, backlog.OldestAge.Seconds())
	metric(c.paused, prometheus.GaugeValue, zeroOrOne(backlog.Paused.Source), string(relay.PauseSource))
	metric(c.paused, prometheus.GaugeValue, float64(backlog.Paused.Topics), string(relay.PauseTopic))
	metric(c.paused, prometheus.GaugeValue, float64(backlog.Paused.Keys), string(relay.PauseKey))
	metric(c.parked, prometheus.GaugeValue, float64(max(backlog.ParkedKeys, int64(stats.ParkedKeys))))
}

// reading is what a scrape asks the database.
type reading struct {
	settled                time.Duration
	backlog                postgres.Backlog
	settledErr, backlogErr error
}

// read asks the source's database, which has one session for it.
func (s *sourceRelay) read() (all reading) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	all.settled, all.settledErr = s.settled.OldestSettledAge(ctx)
	all.backlog, all.backlogErr = s.source.Backlog(ctx)
	return all
}

func zeroOrOne(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
