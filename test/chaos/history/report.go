package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind is one way to be wrong, or a count of what is not wrong but worth knowing.
type Kind string

// What [Check] finds. The last four are no failures.
const (
	Lost        Kind = "lost: committed, and not in Kafka"
	Unbacked    Kind = "settled, and not in Kafka"
	Uncommitted Kind = "in Kafka, and never committed"
	Turned      Kind = "out of order: delivered before an earlier one of its key"
	Straggler   Kind = "straggler: an old record behind newer ones of its key"
	Unexplained Kind = "repeated without a fault"
	Unsettled   Kind = "in Kafka, and not settled at the end"
	Parked      Kind = "key parked without a bad event"
	Moved       Kind = "one key in two partitions"
	Garbled     Kind = "the record is not what was written"
	Ledger      Kind = "the ledger is wrong: a mistake of the laboratory, or the database has forgotten a commit"

	Repeated        Kind = "repeated"
	OwnRepeat       Kind = "repeated after an interruption that nobody made"
	FrozenStraggler Kind = "straggler of a frozen process"
	Arrived         Kind = "arrived"
)

// Finding is one thing that is wrong.
type Finding struct {
	Kind Kind
	Stream
	Text string
}

// Report is what [Check] has found.
type Report struct {
	// Counts tells how many there are of each kind.
	Counts map[Kind]int
	// Findings are what is wrong.
	Findings []Finding
	history  *History
}

// OK tells that nothing is wrong.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

// Has tells whether something of the kind was found.
func (r *Report) Has(k Kind) bool { return r.Counts[k] > 0 }

func (r *Report) count(k Kind) { r.Counts[k]++ }

func (r *Report) add(k Kind, s Stream, format string, args ...any) {
	r.count(k)
	r.Findings = append(r.Findings, Finding{k, s, fmt.Sprintf(format, args...)})
}

// Summary is one line of counts.
func (r *Report) Summary() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(r.Counts)) {
		name, _, _ := strings.Cut(string(k), ":")
		parts = append(parts, fmt.Sprintf("%s %d", name, r.Counts[k]))
	}
	return strings.Join(parts, ", ")
}

const (
	// mostFindings bounds how many are printed of one kind, mostStreams how many streams are printed whole.
	mostFindings = 10
	mostStreams  = 3
)

// String is the summary, the findings, and the history of the first streams concerned.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Summary())
	printed, streams := map[Kind]int{}, []Stream{}
	for _, f := range r.Findings {
		if printed[f.Kind]++; printed[f.Kind] > mostFindings {
			continue
		}
		fmt.Fprintf(&b, "%s: topic %s key %s: %s\n", f.Kind, f.Topic, f.Key, f.Text)
		if f.Key != "" && !slices.Contains(streams, f.Stream) && len(streams) < mostStreams {
			streams = append(streams, f.Stream)
		}
	}
	for _, s := range streams {
		r.history.describe(&b, s)
	}
	return b.String()
}

// describe prints what the topics and the table say of a stream, with the faults between, in the order of time.
func (h *History) describe(b *strings.Builder, s Stream) {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, r := range h.Records {
		if r.Stream == s {
			lines = append(lines, line{r.At, fmt.Sprintf("record %4d  offset %d event %s", r.Seq, r.Offset, r.ID)})
		}
	}
	for _, e := range h.Committed {
		if row, ok := h.Rows[e.ID]; ok && e.Stream == s && !row.PublishedAt.IsZero() {
			lines = append(lines, line{row.PublishedAt, fmt.Sprintf("settled %3d", e.Seq)})
		}
	}
	for _, f := range h.Faults {
		lines = append(lines, line{f.From, "FAULT begins: " + f.What}, line{f.Until, "fault is over: " + f.What})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	fmt.Fprintf(b, "\nhistory of topic %s key %s:\n", s.Topic, s.Key)
	for _, l := range lines {
		fmt.Fprintf(b, "  %s  %s\n", l.at.UTC().Format("15:04:05.000"), l.text)
	}
}
