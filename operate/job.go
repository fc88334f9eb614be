package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The sizes of a job's steps. Requests are written in batches, of which two are open at a time: the relays have always something to do, and nothing grows
// with the number of matches.
const (
	askAtOnce   = 5_000
	openAtMost  = 2 * askAtOnce
	matchAtOnce = 20_000
	// lookEvery is how often outcomes are looked at, reportEvery how often a job says how far it is.
	lookEvery   = 200 * time.Millisecond
	reportEvery = 500 * time.Millisecond
	// seenEvery is how often it is written down that somebody runs it, whatever it waits for.
	seenEvery = 5 * time.Second
)

// Progress is how far a job is.
type Progress struct {
	// Job is 0 while it is still being counted; then Done is how many were found so far, and Total is 0.
	Job                 int64
	Total, Done, Failed int64
}

// FailedFor is why some of a job failed.
type FailedFor struct {
	Text  string `json:"text"`
	Count int64  `json:"count"`
	// IDs are the first 100 of them where they were named one by one and refused; nil elsewhere.
	IDs []string `json:"ids,omitempty"`
}

// The states of a job.
const (
	JobRunning   = "running"
	JobDone      = "done"
	JobCancelled = "cancelled"
	JobFailed    = "failed"
)

// Report is what a job has truly done. Done, AlreadyDone, Failed, NotFound and Untouched add up to Total.
type Report struct {
	// Job is its id in outbox.job; 0 when there was nothing to do.
	Job  int64 `json:"job,string,omitempty"`
	Verb Verb  `json:"verb"`
	// State is [JobDone], [JobCancelled] or [JobFailed]: a job is done even when some of it failed.
	State string `json:"state"`
	// Total is how many were confirmed, and those that were named and need nothing, cannot, or are not there.
	Total int64 `json:"total"`
	Done  int64 `json:"done"`
	// AlreadyDone are those where somebody else was quicker, or that were named and need nothing.
	AlreadyDone int64 `json:"already_done"`
	Failed      int64 `json:"failed"`
	// NotFound are those that were counted, or named, and are no longer there.
	NotFound int64 `json:"not_found"`
	// Untouched are those that a cancelled or failed job has left as they were.
	Untouched int64 `json:"untouched"`
	// Reasons are why some failed, the most frequent first; at most 20 and "other reasons". Those that differ in numbers and ids only are one: what differs is left out of the
	// text, but of sizes in bytes it has the largest.
	Reasons []FailedFor `json:"reasons"`
	// FailedIDs are, of a replay, the ids of the first 100 events that were tried and failed, in their order, and MoreFailedIDs counts those behind them. Again says how to replay them.
	FailedIDs     []string `json:"failed_ids,omitempty"`
	MoreFailedIDs int64    `json:"more_failed_ids,omitempty"`
	Again         string   `json:"again,omitempty"`
	// Missing are the ids that were named and that nothing has.
	Missing []string `json:"missing,omitempty"`
	// LastID is the id up to which a replay that was cancelled has tried everything; 0 when it got nowhere, and of other verbs.
	LastID int64 `json:"last_id,string,omitempty"`
	// Note says why a job failed, and of a replay that ended early how to go on.
	Note string `json:"note,omitempty"`
}

// job is one that runs.
type job struct {
	store   Store
	id      int64
	report  Report
	reasons reasons
	// planned is how many there are to do: the rest of the report's total was decided by the plan. refused is why, of those that it refused.
	planned  int64
	refused  []FailedFor
	progress func(Progress)
	reported time.Time
	// place says how to go on if this process ends without a word; "" where the requests tell.
	place string
	// cancelled tells that somebody has cancelled it.
	cancelled bool
}

func (s *Service) startJob(ctx context.Context, actor Actor, audit int64, b Bulk, p Plan, progress func(Progress)) (*job, error) {
	report := p.decided(b.Verb)
	report.Total += p.Count
	id, err := s.store.StartJob(ctx, JobStart{Audit: audit, Verb: b.Verb, Filter: b.filter(), Actor: actor.Name, Reason: b.Reason, Total: report.Total})
	if err != nil {
		return nil, fmt.Errorf("write down the job; nothing was changed: %w", err)
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	report.Job = id
	return &job{
		store: s.store, id: id, progress: progress, reasons: reasons{}, reported: time.Now(),
		report: report, planned: p.Count, refused: p.Refused,
	}, nil
}

// keepSeen writes down that somebody runs the job, until stop is called. What cannot be written down counts when it goes on for too long: the next report learns that the job is over.
func (j *job) keepSeen(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for rest(ctx, seenEvery); ctx.Err() == nil; rest(ctx, seenEvery) {
			_ = j.store.SeeJob(ctx, j.id)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// failed counts failures of one reason, whatever numbers are in it.
func (j *job) failed(reason string, n int64) {
	j.report.Failed += n
	j.reasons.add(reason, n)
}

// step tells how far it is, with what is counted but not yet folded into the report. It writes that down now and then, and learns there whether it is cancelled.
func (j *job) step(ctx context.Context, done, failed int64) error {
	j.progress(Progress{Job: j.id, Total: j.report.Total, Done: done, Failed: failed})
	if time.Since(j.reported) < reportEvery {
		return nil
	}
	j.reported = time.Now()
	cancelled, err := j.store.ReportJob(ctx, j.id, done, failed, j.place)
	j.cancelled = j.cancelled || cancelled
	if err != nil {
		return fmt.Errorf("write down how far job %d is: %w", j.id, err)
	}
	return nil
}

// end closes the job. What is neither done nor failed was not touched, or is not there any more.
func (j *job) end(ctx context.Context, cause error) (Report, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	r := &j.report
	// Whoever cancels a job closes its requests: it may be through before it has learned that.
	if cancelled, err := j.store.ReportJob(ctx, j.id, r.Done+r.AlreadyDone, r.Failed, j.place); err == nil {
		j.cancelled = j.cancelled || cancelled
	}
	rest := max(r.Total-r.Done-r.AlreadyDone-r.Failed-r.NotFound-r.Untouched, 0)
	switch {
	case cause != nil:
		r.State, r.Note = JobFailed, cmp.Or(r.Note, cause.Error())
		r.Untouched += rest
	case j.cancelled:
		r.State = JobCancelled
		r.Untouched += rest
	default:
		r.State = JobDone
		r.NotFound += rest
	}
	r.Reasons = append(j.reasons.list(), j.refused...)
	j.progress(Progress{Job: j.id, Total: r.Total, Done: r.Done + r.AlreadyDone, Failed: r.Failed})
	err := j.store.EndJob(ctx, j.id, r.Done+r.AlreadyDone, r.Failed, r.State, r.summary())
	if err != nil && cause == nil {
		cause = fmt.Errorf("write down the end of job %d: %w", j.id, err)
	}
	return *r, cause
}

// failures are counts of texts, the most frequent first.
func failures(reasons map[string]int64) []FailedFor {
	list := make([]FailedFor, 0, len(reasons))
	for text, n := range reasons {
		list = append(list, FailedFor{Text: text, Count: n})
	}
	slices.SortFunc(list, func(a, b FailedFor) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text)) })
	return list
}

// summary is the report in a line, for the lists of jobs and the audit.
func (r *Report) summary() string {
	text := fmt.Sprintf("%d done", r.Done)
	for _, part := range []struct {
		n    int64
		what string
	}{{r.AlreadyDone, "already done"}, {r.Failed, "failed"}, {r.NotFound, "not found"}, {r.Untouched, "untouched"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	if len(r.Reasons) > 0 {
		text += "; " + r.Reasons[0].Text
	}
	for _, onward := range []string{r.Note, r.Again} {
		if onward != "" {
			text += "; " + onward
		}
	}
	return text
}

// batch are requests that are not all carried out.
type batch struct {
	first, last int64
	tally       Tally
}

// asking is a job whose work the owners of the lanes do.
type asking struct {
	*job
	bulk  Bulk
	by    string
	next  Cursor
	asked int64
	open  []batch
}

// run asks and waits until everything is answered. An interrupted one takes back what is still open, and then knows what has happened.
func (a *asking) run(ctx context.Context) error {
	for {
		if a.cancelled || ctx.Err() != nil {
			return a.takeBack(ctx)
		}
		moved, err := a.turn(ctx)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil:
			// The requests of a job whose command fails are not left to surprise somebody later.
			if backErr := a.takeBack(ctx); backErr != nil {
				err = fmt.Errorf("%w; requests of it may still be open, and be carried out: %w", err, backErr)
			}
			return err
		case len(a.open) == 0 && a.finished():
			return nil
		case !moved:
			rest(ctx, lookEvery)
		}
	}
}

func (a *asking) finished() bool { return a.next.End || a.asked >= a.planned }

// turn writes requests if there is room, and looks at the outcomes. It tells whether something moved.
func (a *asking) turn(ctx context.Context) (moved bool, err error) {
	if room := min(askAtOnce, a.planned-a.asked); room > 0 && !a.next.End && a.waiting() <= openAtMost-askAtOnce {
		asked, err := a.store.AskMatching(ctx, a.id, a.bulk, a.by, a.next, int(room))
		if err != nil {
			return false, fmt.Errorf("write requests: %w", err)
		}
		a.next, a.asked, moved = asked.Next, a.asked+asked.Count, true
		if asked.Count > 0 {
			a.open = append(a.open, batch{asked.First, asked.Last, Tally{Open: asked.Count}})
		}
	}
	settled, err := a.look(ctx)
	if err != nil {
		return moved, err
	}
	done, failed := a.report.Done+a.report.AlreadyDone, a.report.Failed
	for _, b := range a.open {
		done += b.tally.Done + b.tally.AlreadyDone
		failed += b.tally.failures()
	}
	return moved || settled, a.step(ctx, done, failed)
}

func (a *asking) waiting() (n int64) {
	for _, b := range a.open {
		n += b.tally.Open
	}
	return n
}

// look counts the outcomes of the open batches, and folds those that are through into the report.
func (a *asking) look(ctx context.Context) (moved bool, err error) {
	for i := range a.open {
		b := &a.open[i]
		before := b.tally.Open
		if b.tally, err = a.store.Tally(ctx, a.id, b.first, b.last); err != nil {
			return moved, fmt.Errorf("look at the outcomes: %w", err)
		}
		moved = moved || b.tally.Open < before
		if b.tally.Open == 0 {
			a.fold(b.tally)
		}
	}
	a.open = slices.DeleteFunc(a.open, func(b batch) bool { return b.tally.Open == 0 })
	return moved, nil
}

func (t *Tally) failures() (n int64) {
	for _, c := range t.Failed {
		n += c
	}
	return n
}

func (a *asking) fold(t Tally) {
	a.report.Done += t.Done
	a.report.AlreadyDone += t.AlreadyDone
	a.report.NotFound += t.NotFound
	a.report.Untouched += t.Cancelled
	for _, reason := range slices.Sorted(maps.Keys(t.Failed)) {
		a.failed(reason, t.Failed[reason])
	}
}

// takeBack closes what is open, and counts what was done before that.
func (a *asking) takeBack(ctx context.Context) error {
	a.cancelled = true
	ctx, cancel := detached(ctx)
	defer cancel()
	if err := a.store.CancelJob(ctx, a.id, a.by); err != nil && CodeOf(err) != CodeConflict {
		return fmt.Errorf("cancel job %d: %w", a.id, err)
	}
	_, err := a.look(ctx)
	if err != nil || len(a.open) == 0 {
		return err
	}
	return fmt.Errorf("%d requests of job %d are still open", a.waiting(), a.id)
}

// rest waits, or less when ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
