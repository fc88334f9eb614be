package cli

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outbox-relay/outbox/relay"
)

// describe makes the description of a series of one source.
type describe func(name, help string, labels ...string) *prometheus.Desc

// emit gives a value of one source.
type emit func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)

// measureMetrics are what a relay measures of its own work, without asking anybody.
type measureMetrics struct {
	lag, readEvents, read, settle, publish                                                                  *prometheus.Desc
	laneChanges, sourceLanes, letters, topics, holes, writers, connected, sweeps, foreign, lastAck, settled *prometheus.Desc
}

func newMeasureMetrics(desc describe) measureMetrics {
	return measureMetrics{
		lag:         desc("delivery_lag_seconds", "How long events took from created_at, the start of the writer's transaction, to Kafka's acknowledgement, by the database's clock."),
		readEvents:  desc("read_events", "How many events a read has brought, of the reads that have brought any."),
		read:        desc("read_duration_seconds", "How long the statements took that read events."),
		settle:      desc("settle_duration_seconds", "How long the statements took that settle events."),
		publish:     desc("publish_duration_seconds", "How long events were with the Kafka client until they were acknowledged."),
		laneChanges: desc("lane_changes_total", "Lanes that this relay has taken, returned, and lost because its lease was not renewed in time.", "kind"),
		sourceLanes: desc("source_lanes", "Lanes of the source; 0 until the relay has opened it, and in mode competing."),
		letters:     desc("letters_total", "Dead-letter records that Kafka has acknowledged to this relay."),
		topics:      desc("topic_published_total", "Events that Kafka has acknowledged to this relay, by topic: of its first hundred topics, and of all others together.", "topic"),
		holes:       desc("holes", "Ranges of ids that were passed over and whose rows may still appear."),
		writers:     desc("open_writers", "Transactions that the reader waits for because they may have drawn ids."),
		connected:   desc("source_connected", "1 while the relay works on its connections to the database, 0 when they are to be made or a failure has interrupted it."),
		sweeps:      desc("sweep_finds_total", "Forgotten events that the sweep has found; normally 0."),
		foreign:     desc("foreign_settles_total", "Events that somebody else had settled or deleted while their lanes were this relay's; normally 0."),
		lastAck:     desc("last_ack_timestamp_seconds", "When Kafka acknowledged an event to this relay last, by this machine's clock; 0 if never."),
		settled:     desc("settled_total", "Events that this relay has settled."),
	}
}

func (m *measureMetrics) all() []*prometheus.Desc {
	return []*prometheus.Desc{m.lag, m.readEvents, m.read, m.settle, m.publish, m.laneChanges, m.sourceLanes, m.letters, m.topics, m.holes, m.writers, m.connected, m.sweeps, m.foreign, m.lastAck, m.settled}
}

// distributions are those that are given as histograms.
func (m *measureMetrics) distributions(s *relay.Measures) map[*prometheus.Desc]relay.Distribution {
	return map[*prometheus.Desc]relay.Distribution{m.lag: s.Lag, m.readEvents: s.ReadEvents, m.read: s.Read, m.settle: s.Settle, m.publish: s.Publish}
}

func (m *measureMetrics) collect(s *relay.Stats, metric emit) {
	of := &s.Measures
	for kind, n := range map[string]int64{"taken": of.LanesTaken, "returned": of.LanesReturned, "lost": of.LanesLost} {
		metric(m.laneChanges, prometheus.CounterValue, float64(n), kind)
	}
	for topic, n := range of.Topics {
		metric(m.topics, prometheus.CounterValue, float64(n), topic)
	}
	metric(m.sourceLanes, prometheus.GaugeValue, float64(of.SourceLanes))
	metric(m.letters, prometheus.CounterValue, float64(of.Letters))
	metric(m.holes, prometheus.GaugeValue, float64(of.Holes))
	metric(m.writers, prometheus.GaugeValue, float64(s.OpenWriters))
	metric(m.connected, prometheus.GaugeValue, zeroOrOne(of.Connected))
	metric(m.sweeps, prometheus.CounterValue, float64(s.SweepFinds))
	metric(m.foreign, prometheus.CounterValue, float64(s.ForeignSettles))
	metric(m.settled, prometheus.CounterValue, float64(s.Settled))
	last := 0.0
	if !s.LastAck.IsZero() {
		last = float64(s.LastAck.UnixMilli()) / 1000
	}
	metric(m.lastAck, prometheus.GaugeValue, last)
}

// histogram is a distribution as Prometheus has it: each bucket counts the ones below it too.
func histogram(d *prometheus.Desc, of relay.Distribution, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(of.Bounds))
	var count uint64
	for i, n := range of.Counts {
		count += n
		if i < len(of.Bounds) {
			buckets[of.Bounds[i]] = count
		}
	}
	return prometheus.MustNewConstHistogram(d, count, of.Sum, buckets, labels...)
}

// buildInfo says what runs.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "outbox_build_info",
		Help:        "1, with the relay's version and that of Go.",
		ConstLabels: prometheus.Labels{"version": version(), "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}
