package cli

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/operate"
	"github.com/outbox-relay/outbox/postgres/retention"
)

// retain makes what deletes old events of the source beside its relay, and watches the size of the table.
func (p *part) retain() (*retention.Retention, error) {
	return retention.New(p.pool, retention.Config{
		Table: p.cfg.Table, Deleted: p.cfg.Settle == "delete", Logger: p.log, Rules: retentionRules(&p.cfg), Name: p.name,
	})
}

// retentionRules leaves out what is not set.
func retentionRules(s *config.Source) (rules operate.Prune) {
	if s.Retain > 0 || s.RetainNewest > 0 {
		rules.Events = &operate.PruneEvents{OlderThan: s.Retain, Keep: int64(s.RetainNewest)}
	}
	if s.RetainDead > 0 {
		rules.Dead = &s.RetainDead
	}
	if s.RetainAudit > 0 {
		rules.Audit = &s.RetainAudit
	}
	return rules
}

// retainAll deletes in the background for all sources, until stop is called.
func retainAll(ctx context.Context, parts []*part) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, p := range parts {
		wg.Go(func() { p.retention.Run(ctx) })
	}
	return func() {
		cancel()
		// It gives back what it alone may do, which a silent server does not take.
		soon(wg.Wait)
	}
}

// warnOfOnce names the settings that a relay which ends by itself does not look at.
func warnOfOnce(parts []*part) {
	for _, p := range parts {
		for _, key := range []string{"retain", "retain-newest", "retain-dead", "retain-audit"} {
			if p.once && p.cfg.Made(key) {
				p.log.Warn("a relay that runs once deletes nothing: run outbox prune", "setting", p.cfg.Named(key))
			}
		}
	}
}

// retentionMetrics are of what a source holds and deletes.
type retentionMetrics struct {
	pruned, overdue, bytes *prometheus.Desc
}

func newRetentionMetrics(desc describe) retentionMetrics {
	return retentionMetrics{
		pruned:  desc("pruned_total", "Rows that this relay has deleted because they were old, by what they were.", "what"),
		overdue: desc("prune_overdue_seconds", "How long the settled events that are deleted next have been due for, at the relay that deletes; 0 when none is left."),
		bytes:   desc("table_bytes", "What the table takes, with its indexes and partitions; looked at once a minute."),
	}
}

func (m retentionMetrics) all() []*prometheus.Desc {
	return []*prometheus.Desc{m.pruned, m.overdue, m.bytes}
}

// collect gives what the retention knows; it asks nobody.
func (m retentionMetrics) collect(s retention.Stats, metric emit) {
	for what, n := range map[string]int64{"event": s.Pruned.Events, "dead": s.Pruned.Dead, "audit": s.Pruned.Audit, "request": s.Pruned.Requests, "job": s.Pruned.Jobs} {
		metric(m.pruned, prometheus.CounterValue, float64(n), what)
	}
	if s.Active {
		metric(m.overdue, prometheus.GaugeValue, s.Overdue.Seconds())
	}
	if s.Holding.Bytes > 0 {
		metric(m.bytes, prometheus.GaugeValue, float64(s.Holding.Bytes))
	}
}
