package operate

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// Prune says what may be deleted. What is nil is left alone; so is, whatever it says, every unpublished event. Dead events are deleted by Dead alone.
type Prune struct {
	// Events are settled events.
	Events *PruneEvents `json:"events,omitempty"`
	// Dead are dead events that died longer ago than that.
	Dead *time.Duration `json:"dead,omitempty"`
	// Audit are rows of the audit, and requests and jobs, that ended longer ago than that.
	Audit *time.Duration `json:"audit,omitempty"`
	// Partitions are whole partitions of a partitioned table, created ahead and dropped.
	Partitions *PrunePartitions `json:"partitions,omitempty"`
}

// PruneEvents says which settled events may be deleted: those of which all that is said here is true.
type PruneEvents struct {
	// OlderThan: published_at is longer ago than that, by the database's clock. Zero is any age.
	OlderThan time.Duration `json:"older_than"`
	// Keep: at least so many settled events have a higher id. Zero keeps none for their number.
	Keep int64 `json:"keep"`
}

// PrunePartitions says what to do with the partitions of a table that is partitioned by ranges of id or of created_at.
type PrunePartitions struct {
	// OlderThan: a partition is dropped when all of its events are settled, and were longer ago than that. Zero is any age.
	OlderThan time.Duration `json:"older_than"`
	// Ahead is how many empty partitions there are to be beyond the one that is written to now. Zero makes none.
	Ahead int `json:"ahead"`
}

// The bounds of a [Prune].
const (
	// MaxPruneKeep bounds PruneEvents.Keep: so many rows are counted each time.
	MaxPruneKeep = 1_000_000_000
	// MaxPruneAhead bounds PrunePartitions.Ahead.
	MaxPruneAhead = 1000
)

// Check returns what is wrong with the request, with CodeInvalid.
func (p Prune) Check() error {
	switch {
	case p.Events == nil && p.Dead == nil && p.Audit == nil && p.Partitions == nil:
		return Refuse(CodeInvalid, "nothing to prune: say how old settled events, dead events or the audit have to be")
	case p.Events != nil && (p.Events.OlderThan < 0 || p.Events.Keep < 0 || p.Events.Keep > MaxPruneKeep):
		return Refuse(CodeInvalid, "prune settled events: want an age that is not negative, and 0 to %d to keep", MaxPruneKeep)
	case p.Partitions != nil && (p.Partitions.OlderThan < 0 || p.Partitions.Ahead < 0 || p.Partitions.Ahead > MaxPruneAhead):
		return Refuse(CodeInvalid, "prune partitions: want an age that is not negative, and 0 to %d partitions ahead", MaxPruneAhead)
	case p.Dead != nil && *p.Dead < 0, p.Audit != nil && *p.Audit < 0:
		return Refuse(CodeInvalid, "prune dead events or the audit: want an age that is not negative")
	}
	return nil
}

// Pruned is what was deleted, or in a [PrunePlan] what would be.
type Pruned struct {
	Events   int64 `json:"events"`
	Dead     int64 `json:"dead"`
	Audit    int64 `json:"audit"`
	Requests int64 `json:"requests"`
	Jobs     int64 `json:"jobs"`
	// Skipped are rows that were old enough and are still there: somebody had them locked, or something refused to let them go.
	Skipped int64 `json:"skipped"`
	// Created and Dropped are partitions by name; DroppedRows, the rows that went with them as the statistics count them.
	Created     []string `json:"created,omitempty"`
	Dropped     []string `json:"dropped,omitempty"`
	DroppedRows int64    `json:"dropped_rows,omitempty"`
	// Attached are tables that were partitions, were left detached by a run that was killed, and are partitions again: no relay had read them.
	Attached []string `json:"attached,omitempty"`
	// Stranded are tables that were partitions and hold unpublished events, which no relay reads, and that are left alone: people have renamed them, or detach them. It says of each what is
	// the case, and which statement makes it a partition again.
	Stranded map[string]string `json:"stranded,omitempty"`
}

// Strand adds to Stranded.
func (p *Pruned) Strand(name, why string) {
	if p.Stranded == nil {
		p.Stranded = map[string]string{}
	}
	p.Stranded[name] = why
}

// Err is about Stranded, with [CodeConflict]; nil when there is nothing in it.
func (p Pruned) Err() error {
	if len(p.Stranded) == 0 {
		return nil
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.Stranded)) {
		all = append(all, name+" holds unpublished events, which no relay reads: "+p.Stranded[name])
	}
	return Refuse(CodeConflict, "%s", strings.Join(all, "; "))
}

// Rows is the number of rows of all kinds, without those of dropped partitions.
func (p Pruned) Rows() int64 { return p.Events + p.Dead + p.Audit + p.Requests + p.Jobs }

// PrunePlan is what a [Prune] would do, counted without changing anything.
type PrunePlan struct {
	Pruned
	// EventsEstimated tells that Pruned.Events is an estimate, from what could be counted in some seconds.
	EventsEstimated bool `json:"events_estimated"`
	// Kept says for each partition that stays although it is not the one written to, why.
	Kept map[string]string `json:"kept,omitempty"`
}

// Pruner is what a [Service] needs to prune. Package postgres/retention implements it.
type Pruner interface {
	// PlanPrune counts, for some seconds at most. A missing right is an error with CodeForbidden that names the command which prints the grants.
	PlanPrune(ctx context.Context, p Prune) (PrunePlan, error)
	// Prune deletes in small transactions of their own, so what is deleted when ctx ends or an error comes stays deleted: the result is valid beside an error. progress, which
	// may be nil, is called after each.
	Prune(ctx context.Context, p Prune, progress func(Pruned)) (Pruned, error)
}
