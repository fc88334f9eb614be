package cli

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// collector asks the relay and the database when it is scraped, so that an age grows although nothing happens.
type collector struct {
	engine *relay.Relay
	source *postgres.Source

	pending, oldest, published, errors, parked, leading, inFlight, held, unsettled *prometheus.Desc
}

func newCollector(engine *relay.Relay, source *postgres.Source) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("outbox_"+name, help, labels, nil)
	}
	return &collector{
		engine:    engine,
		source:    source,
		pending:   desc("pending", "Unpublished events, counted to 100,000."),
		oldest:    desc("oldest_pending_age_seconds", "Age of the oldest unpublished event by the database's clock; 0 when there is none."),
		published: desc("published_total", "Events that Kafka has acknowledged to this relay."),
		errors:    desc("publish_errors_total", "Failures to publish by class.", "class"),
		parked:    desc("parked_keys", "Keys that wait for an operator."),
		leading:   desc("leading", "1 when this relay holds the lease, else 0."),
		inFlight:  desc("in_flight", "Events that are read and not settled."),
		held:      desc("held_topics", "Topics that cannot be published to."),
		unsettled: desc("unsettled_total", "Events that are in Kafka and whose rows could not be marked."),
	}
}

// Describe is of prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.pending, c.oldest, c.published, c.errors, c.parked, c.leading, c.inFlight, c.held, c.unsettled} {
		ch <- d
	}
}

const scrapeTimeout = 5 * time.Second

// Collect is of prometheus.Collector. While the database cannot be asked, the series that come from it are absent rather than wrong.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	stats := c.engine.Stats()
	ch <- prometheus.MustNewConstMetric(c.published, prometheus.CounterValue, float64(stats.Published))
	ch <- prometheus.MustNewConstMetric(c.leading, prometheus.GaugeValue, zeroOrOne(stats.Leading))
	ch <- prometheus.MustNewConstMetric(c.inFlight, prometheus.GaugeValue, float64(stats.InFlight))
	ch <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(len(stats.HeldTopics)))
	ch <- prometheus.MustNewConstMetric(c.unsettled, prometheus.CounterValue, float64(stats.Unsettled))
	for class, n := range stats.Errors {
		ch <- prometheus.MustNewConstMetric(c.errors, prometheus.CounterValue, float64(n), class.String())
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	backlog, err := c.source.Backlog(ctx)
	if err != nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(c.pending, prometheus.GaugeValue, float64(backlog.Pending))
	ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, backlog.OldestAge.Seconds())
	ch <- prometheus.MustNewConstMetric(c.parked, prometheus.GaugeValue, float64(backlog.ParkedKeys))
}

func zeroOrOne(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
