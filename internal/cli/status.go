package cli

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

func (a *app) status() *cobra.Command {
	var db database
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what waits, for how long, and who publishes it",
		Long: `status shows the backlog, the age of its oldest event, parked keys and the relays,
and when each relay was last seen. It counts at most 1,000,000 unpublished events
and says when there are more.

With --config and no --source it shows all sources of the file. One that cannot be
reached is shown with its error, the others all the same, and the exit code is 1.`,
		Example: "  outbox status\n  outbox status --table orders.outbox_event --json\n  outbox status --config outbox.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			reports, err := a.statuses(cmd, &db)
			if err != nil {
				return err
			}
			if len(reports) == 1 {
				a.password = reports[0].password
				if err := reports[0].err; err != nil {
					return err
				}
			}
			if asJSON {
				err = a.encodeStatuses(reports)
			} else {
				err = a.printStatuses(reports)
			}
			if err == nil && slices.ContainsFunc(reports, func(r sourceStatus) bool { return r.err != nil }) {
				err = &quietError{}
			}
			return err
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object, for each source one in a line")
	return cmd
}

// operator makes the operators' side of the source; done closes its connections.
func (a *app) operator(cmd *cobra.Command, db *database) (operator *postgres.Operator, done func(), err error) {
	pool, err := db.pool(cmd.Context(), a, cmd)
	if err != nil {
		return nil, nil, &configError{err}
	}
	operator, err = postgres.NewOperator(pool, postgres.Config{Table: db.table})
	if err != nil {
		pool.Close()
		return nil, nil, &configError{err}
	}
	return operator, pool.Close, nil
}

// The JSON form is a contract of its own: ages in seconds, names as in the metrics.
type statusObject struct {
	Name                    string        `json:"name"`
	Table                   string        `json:"table"`
	Source                  string        `json:"source"`
	Pending                 int64         `json:"pending"`
	PendingCapped           bool          `json:"pending_capped"`
	OldestPendingAgeSeconds float64       `json:"oldest_pending_age_seconds"`
	EligibleAgeSeconds      float64       `json:"oldest_eligible_age_seconds"`
	ParkedKeys              int64         `json:"parked_keys"`
	PartialIndex            bool          `json:"partial_index"`
	FirstPublished          *time.Time    `json:"first_published_at"`
	LastPublished           *time.Time    `json:"last_published_at"`
	Pauses                  []pauseObject `json:"pauses"`
	Topics                  []topicObject `json:"topics"`
	Lanes                   []laneObject  `json:"lanes"`
	Relays                  []relayObject `json:"relays"`
}

type pauseObject struct {
	Scope        string    `json:"scope"`
	Topic        string    `json:"topic"`
	PartitionKey string    `json:"partition_key"`
	By           string    `json:"paused_by"`
	Reason       string    `json:"reason"`
	At           time.Time `json:"paused_at"`
}

type topicObject struct {
	Topic                   string  `json:"topic"`
	Pending                 int64   `json:"pending"`
	OldestPendingAgeSeconds float64 `json:"oldest_pending_age_seconds"`
	ParkedKeys              int64   `json:"parked_keys"`
	HeldCode                string  `json:"held_code"`
	HeldReason              string  `json:"held_reason"`
}

type laneObject struct {
	Lane             int32   `json:"lane"`
	Epoch            int64   `json:"epoch"`
	Owner            string  `json:"owner"`
	RemainingSeconds float64 `json:"remaining_seconds"`
	ParkedKeys       int64   `json:"parked_keys"`
}

type relayObject struct {
	Owner     string    `json:"owner"`
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
	Competing bool      `json:"competing"`
	Alive     bool      `json:"alive"`
	Lanes     int       `json:"lanes"`
}

func statusJSON(name string, s postgres.Status) statusObject {
	o := statusObject{
		Name: name, Table: s.Table, Source: s.SourceID.String(),
		Pending: s.Pending, PendingCapped: s.PendingCapped,
		OldestPendingAgeSeconds: s.OldestAge.Seconds(), EligibleAgeSeconds: s.EligibleAge.Seconds(),
		ParkedKeys: s.ParkedKeys, PartialIndex: s.Indexed,
		FirstPublished: timeOrNull(s.FirstPublished), LastPublished: timeOrNull(s.LastPublished),
		Pauses: []pauseObject{}, Topics: []topicObject{}, Lanes: lanesJSON(s.Lanes), Relays: []relayObject{},
	}
	for _, p := range s.Pauses {
		o.Pauses = append(o.Pauses, pauseObject{string(p.Scope), p.Topic, p.PartitionKey, p.By, p.Reason, p.At.UTC()})
	}
	for _, t := range s.Topics {
		o.Topics = append(o.Topics, topicObject{t.Topic, t.Pending, t.OldestAge.Seconds(), t.ParkedKeys, t.HeldCode, t.HeldReason})
	}
	for _, r := range s.Relays {
		o.Relays = append(o.Relays, relayObject{r.ID.String(), r.Name, r.Version, r.StartedAt, r.SeenAt, r.Competing, r.Remaining > 0, lanesOf(s.Lanes, r.ID)})
	}
	return o
}

func lanesJSON(lanes []postgres.LaneStatus) []laneObject {
	objects := []laneObject{}
	for _, l := range lanes {
		objects = append(objects, laneObject{l.Lane, l.Epoch, l.OwnerName, max(0, l.Remaining.Seconds()), l.ParkedKeys})
	}
	return objects
}

// lanesOf counts the lanes that an owner has.
func lanesOf(lanes []postgres.LaneStatus, owner uuid.UUID) (n int) {
	for _, l := range lanes {
		if l.Owner == owner && l.Remaining > 0 {
			n++
		}
	}
	return n
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (a *app) printStatus(name string, s postgres.Status, h postgres.Holding) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	more := ""
	if s.PendingCapped {
		more = " or more"
	}
	if name != "" {
		fmt.Fprintf(w, "source\t%s\n", name)
	}
	fmt.Fprintf(w, "table\t%s\n", s.Table)
	fmt.Fprintf(w, "pending\t%d%s\n", s.Pending, more)
	fmt.Fprintf(w, "oldest pending\t%s\n", age(s.Pending, s.OldestAge))
	fmt.Fprintf(w, "parked keys\t%d\n", s.ParkedKeys)
	printPauses(w, s.Pauses)
	if anyCompeting(s.Relays) {
		fmt.Fprintf(w, "held keys\tcompeting relays are alive: %s\n", heldElsewhere)
	}
	fmt.Fprintf(w, "last published\t%s\n", moment(s.LastPublished))
	printHolding(w, h)
	for i, r := range relays(s) {
		label := ""
		if i == 0 {
			label = "relays"
		}
		fmt.Fprintf(w, "%s\t%s\n", label, r)
	}
	if !s.Indexed {
		fmt.Fprintf(w, "index\tMISSING: no index WHERE published_at IS NULL, reading gets slower as the table grows: see outbox migrate status\n")
	}
	printTopics(w, s)
	return w.Flush()
}

// mostPauses bounds what the status lists; its JSON form has all.
const mostPauses = 5

// printPauses says what operators keep back; nothing when that is nothing.
func printPauses(w io.Writer, pauses []relay.Pause) {
	for i, p := range pauses {
		if i == mostPauses {
			fmt.Fprintf(w, "paused\tand %d more, see --json\n", len(pauses)-i)
			return
		}
		what := string(p.Scope)
		if p.Scope != relay.PauseSource {
			what += " " + printable(abridged(p.Topic))
		}
		if p.Scope == relay.PauseKey {
			what += " " + printable(abridged(p.PartitionKey))
		}
		why := ""
		if p.Reason != "" {
			why = ": " + printable(abridged(p.Reason))
		}
		fmt.Fprintf(w, "paused\t%s since %s, by %s%s\n", what, moment(p.At), printable(p.By), why)
	}
}

// printTopics says nothing of what holds a topic when no relay is alive that could know.
func printTopics(w io.Writer, s postgres.Status) {
	if len(s.Topics) == 0 {
		return
	}
	free := "-"
	if slices.ContainsFunc(s.Relays, func(r postgres.RelayStatus) bool { return r.Remaining > 0 }) {
		free = "no"
	}
	fmt.Fprintf(w, "\nTOPIC\tPENDING\tOLDEST\tPARKED KEYS\tHELD\n")
	for _, t := range s.Topics {
		held := free
		if t.HeldCode != "" {
			held = printable(t.HeldCode + ": " + t.HeldReason)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\n", printable(abridged(t.Topic)), t.Pending, age(t.Pending, t.OldestAge), t.ParkedKeys, held)
	}
}

func age(pending int64, d time.Duration) string {
	if pending == 0 {
		return "-"
	}
	return d.Round(100 * time.Millisecond).String()
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}
