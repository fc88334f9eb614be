package benchmark

import (
	"fmt"
	"time"
)

// Limit says what one of the figures is limited by.
type Limit struct {
	// Of is drain, latency or writer.
	Of string `json:"of"`
	// By is a word for programs: processor, kafka, settle, read, commit, statements, wait, writers, nothing.
	By   string `json:"by"`
	Text string `json:"text"`
}

func limits(r Report) []Limit { return []Limit{ofDrain(r), ofLatency(r), ofWriter(r)} }

// A share from which on something counts as the limit: this much of the processors, of the events that may be in flight, of the time.
const (
	busyProcessors = 0.8
	fullInFlight   = 0.7
)

// ofDrain goes by what is exhausted. Where events in flight are at their limit, those behind the reader are slow; else the reader is. Where most of them are with Kafka, nothing waits for
// its settle.
func ofDrain(r Report) Limit {
	d := r.Drain
	l := Limit{Of: "drain"}
	switch {
	case d.Processors >= busyProcessors*float64(d.Cores):
		l.By, l.Text = "processor", fmt.Sprintf("the processors of this machine: this process kept %.1f of %d busy", d.Processors, d.Cores)
	case d.InFlight >= fullInFlight && d.OutWith >= 0.5:
		l.By, l.Text = "kafka", fmt.Sprintf("Kafka: %.0f %% of the events that may be in flight were, and most of them waited for the brokers, for %.1f ms in the mean; a larger --max-in-flight, more partitions, or --compression may help", 100*d.InFlight, d.Publish)
	case d.InFlight >= fullInFlight, d.OutWith < 0.5 && d.Settling >= d.Reading && d.Settling >= 0.5:
		l.By, l.Text = "settle", fmt.Sprintf("settling, in the database: such a statement was under way for %.0f %% of the time, %.1f ms each; --settle delete may be quicker", 100*d.Settling, d.Settle)
	case d.Reading >= 0.5:
		l.By, l.Text = "read", fmt.Sprintf("reading, in the database: such a statement was under way for %.0f %% of the time, %.1f ms each; a larger --batch-size may help, or for large events --max-in-flight-bytes", 100*d.Reading, d.Read)
	default:
		l.By, l.Text = "nothing", fmt.Sprintf("nothing that is exhausted: reading took %.0f %% of the time, settling %.0f %%, an event was with Kafka for %.1f ms in the mean", 100*d.Reading, 100*d.Settling, d.Publish)
	}
	if d.Seconds < shortDrain.Seconds() {
		l.Text += fmt.Sprintf(". The backlog was gone after %.2f s, too soon to be exact: try more --events", d.Seconds)
	}
	return l
}

// shortDrain is what is too short to be exact.
const shortDrain = 500 * time.Millisecond

func ofLatency(r Report) Limit {
	l := Limit{Of: "latency"}
	t := r.Latency
	produce := r.Kafka.Produce.P50
	switch {
	case t.Missing > 0:
		l.By, l.Text = "kafka", fmt.Sprintf("%d events were not acknowledged within %s", t.Missing, arrivalLimit)
	case t.Reached < 0.95*float64(t.Asked):
		l.By, l.Text = "writers", fmt.Sprintf("the writers: %d of them commit %.0f transactions a second, and not %d; a lower --rate shows the relay alone", t.Writers, t.Reached, t.Asked)
	case produce*2 >= t.Took.P50:
		l.By, l.Text = "kafka", fmt.Sprintf("Kafka's acknowledgement: by itself a single record takes %s, and an event %s from COMMIT on", inMillis(produce), inMillis(t.Took.P50))
	default:
		l.By, l.Text = "wait", fmt.Sprintf("the wait for the next look at the table, and for the events before it: an acknowledgement alone takes %s of %s, a read %.1f ms; --poll-interval bounds that wait",
			inMillis(produce), inMillis(t.Took.P50), t.Read)
	}
	return l
}

func ofWriter(r Report) Limit {
	l := Limit{Of: "writer"}
	sync, plain := r.Database.Sync(), r.Writer.Plain.P50
	extra := max(0, r.Writer.WithEvent.P50-plain)
	if sync*2 >= plain {
		l.By, l.Text = "commit", fmt.Sprintf("the commit's wait for the disk, and for standbys that confirm: %s, where the transaction takes %s; the event adds %s, a statement and its round trip", inMillis(sync), inMillis(plain), inMillis(extra))
		return l
	}
	l.By, l.Text = "statements", fmt.Sprintf("statements and round trips (%s each): the commit's wait for the disk is %s of %s; the event adds %s",
		inMillis(r.Database.RoundTrip.P50), inMillis(sync), inMillis(plain), inMillis(extra))
	return l
}

func inMillis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
