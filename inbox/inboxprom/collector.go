// Package inboxprom shows Prometheus what a consumer does. It is a package of its own so that only those link Prometheus' client who use it.
package inboxprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outbox-relay/outbox/inbox"
)

// Collector asks a consumer for its figures when it is scraped. Make one with [NewCollector].
type Collector struct {
	stats func() inbox.Stats

	records, failures, inFlight, waiting, available *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a collector, to be registered, of the figures that stats returns; the method Stats of kafka.Consumer is such a function, and so is that of [inbox.Runner].
// The series are
//
//	outbox_consumer_records_total{consumer, outcome}   records that are done with: handled, repeated, ignored, retried, dead_lettered, skipped
//	outbox_consumer_failures_total{consumer}           attempts in vain
//	outbox_consumer_in_flight_records{consumer}        records that were taken, from the first of each partition on that is not settled
//	outbox_consumer_waiting_keys{consumer}             keys that wait for their next attempt, or for the time of a retry topic
//	outbox_consumer_database_available{consumer}       0 while the database is waited for, else 1
//
// and all of them are there from the start. The label consumer tells apart several consumers of one process: each needs a name of its own.
func NewCollector(consumer string, stats func() inbox.Stats) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("outbox_consumer_"+name, help, labels, prometheus.Labels{"consumer": consumer})
	}
	return &Collector{
		stats:     stats,
		records:   desc("records_total", "Records that are done with, by what became of them.", "outcome"),
		failures:  desc("failures_total", "Attempts in vain to handle a record."),
		inFlight:  desc("in_flight_records", "Records that were taken, from the first of each partition on that is not settled."),
		waiting:   desc("waiting_keys", "Keys that wait for their next attempt, or for the time of a retry topic."),
		available: desc("database_available", "0 while the database is waited for, else 1."),
	}
}

// Describe is of prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.records, c.failures, c.inFlight, c.waiting, c.available} {
		ch <- d
	}
}

// Collect is of prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v int) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter(c.records, s.Handled, "handled")
	counter(c.records, s.Repeats, "repeated")
	counter(c.records, s.Ignored, "ignored")
	counter(c.records, s.Retried, "retried")
	counter(c.records, s.DeadLettered, "dead_lettered")
	counter(c.records, s.Skipped, "skipped")
	counter(c.failures, s.Failures)
	gauge(c.inFlight, s.InFlight)
	gauge(c.waiting, s.Waiting)
	available := 1
	if s.Unavailable {
		available = 0
	}
	gauge(c.available, available)
}
