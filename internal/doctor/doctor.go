// Package doctor looks at what a relay and the services around it depend on, and says of each thing that is wrong why it matters and what mends it.
//
// It only reads, and the rights of an operator are enough.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/checkup"
	"github.com/outbox-relay/outbox/migrate"
)

// Severity says what a finding means.
type Severity string

// The severities.
const (
	// Error: the relay cannot work, or events would be lost or stop.
	Error Severity = "error"
	// Warning: it works, with a drawback that the finding names.
	Warning Severity = "warning"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	// Code is a stable name, such as pooler-prepared-statements.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Text says what was found, Why what follows from it.
	Text string `json:"text"`
	Why  string `json:"why"`
	// Mend is what mends it: a command, a statement or a setting; "" when the text says it all.
	Mend string `json:"mend"`
	// MendSQL tells that Mend is SQL that can be run as it is, statement by statement: that breaks nothing on a busy server. SQL that does has a comment
	// before it that says what, and is not marked.
	MendSQL bool `json:"mend_is_sql"`
}

// Report is the outcome of an examination.
type Report struct {
	// Ready tells that there is no error among the findings, and that everything was looked at without which a relay cannot work.
	Ready bool `json:"ready"`
	// LookedAt is what was examined: database, kafka.
	LookedAt []string `json:"looked_at"`
	// NotLookedAt is what could not be, or not whole, each with the reason.
	NotLookedAt []Unseen `json:"not_looked_at"`
	// Findings has errors first.
	Findings []Finding `json:"findings"`
	// Sound are the things that were looked at and are as they should be, in the order in which they were looked at.
	Sound []string `json:"sound"`
	// ACLs are the commands that allow the user what a relay of these topics needs; none where nobody authenticates, or no topic is known.
	ACLs []string `json:"acls"`
}

// Unseen is something that was not looked at.
type Unseen struct {
	// What is the sentence that would have been true had all been well, or kafka.
	What string `json:"what"`
	// Why is what kept the doctor from it, such as a right that the role lacks.
	Why string `json:"why"`
	// Vital tells that no relay works without it, so that nobody knows whether one would.
	Vital bool `json:"vital,omitempty"`
}

// add takes in what a check has found; nothing means that its subject is sound.
func (r *Report) add(subject string, found []Finding) {
	if len(found) == 0 {
		r.Sound = append(r.Sound, subject)
		return
	}
	r.Findings = append(r.Findings, found...)
}

// Config is what is examined.
type Config struct {
	// Pool leads to the database. Its connections must prepare nothing, and it must allow two of them.
	Pool *pgxpool.Pool
	// Table has the form of [migrate.Config].
	Table string
	// Kafka is what the events go to; nil where that is not known, and WithoutKafka says why, or UnusableKafka where the files that lead there cannot be used.
	Kafka         *Kafka
	WithoutKafka  string
	UnusableKafka error
	// Exposed are files with secrets that others may read; nil where no file has any.
	Exposed []ExposedFile
	// Explain says in words what an error is, and what mends it. Default: its text.
	Explain func(error) (text, mend string)
	// Checkups says from where on something of the database is worth a word.
	Checkups checkup.Config
	// Limit is how long each look may take. Default: 5 s.
	Limit time.Duration
}

// defaultLimit is long enough for any look that does not hang.
const defaultLimit = 5 * time.Second

// ExposedFile is a file with a secret that others than its owner may read or change.
type ExposedFile struct {
	// Name is where the file is named, and Path is the file.
	Name, Path string
	Mode       fs.FileMode
}

// Examine looks at the database and at the brokers, at each of them also where the other cannot be used. It ends early, with an error, where there is no database to be
// reached and no cluster is known; whatever else cannot be looked at is in the report, with the reason. No look takes longer than its limit, and a database that leaves several
// without an answer is not asked any more.
func Examine(ctx context.Context, cfg Config) (Report, error) {
	cfg.Limit = cmp.Or(cfg.Limit, defaultLimit)
	r := Report{Findings: []Finding{}, Sound: []string{}, LookedAt: []string{}, NotLookedAt: []Unseen{}, ACLs: []string{}}
	db := database{Report: &r, cfg: cfg}
	err := db.examine(ctx)
	switch {
	case ctx.Err() != nil, err != nil && cfg.Kafka == nil && cfg.UnusableKafka == nil:
		return r, cmp.Or(ctx.Err(), err)
	case err != nil:
		db.unusable(err)
	default:
		r.LookedAt = append(r.LookedAt, "database")
	}
	switch {
	case cfg.UnusableKafka != nil:
		r.unusableKafka(cfg)
	case cfg.Kafka == nil:
		r.NotLookedAt = append(r.NotLookedAt, Unseen{What: "kafka", Why: cfg.WithoutKafka})
	default:
		r.LookedAt = append(r.LookedAt, "kafka")
		r.kafka(ctx, cfg, db.without)
	}
	if cfg.Exposed != nil {
		r.add("no secret's file can be read by others", exposed(cfg.Exposed))
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return rank(a) - rank(b) })
	r.Ready = !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Error }) &&
		!slices.ContainsFunc(r.NotLookedAt, func(u Unseen) bool { return u.Vital })
	return r, ctx.Err()
}

// unusable takes down that the database cannot be looked at, or no further.
func (d *database) unusable(err error) {
	const why = "the database cannot be used"
	text, mend := d.cfg.explain(err)
	d.Findings = append(d.Findings, Finding{Code: "database-unusable", Severity: Error, Text: text, Why: "no relay works without its database", Mend: mend})
	d.NotLookedAt = append(d.NotLookedAt, Unseen{What: "database", Why: why, Vital: true})
	d.without = why
}

// unusableKafka takes down that what leads to the cluster cannot be used.
func (r *Report) unusableKafka(cfg Config) {
	text, mend := cfg.explain(cfg.UnusableKafka)
	r.Findings = append(r.Findings, Finding{Code: "kafka-unusable", Severity: Error, Text: text, Why: "a relay with these settings does not start", Mend: mend})
	r.NotLookedAt = append(r.NotLookedAt, Unseen{What: "kafka", Why: "its settings cannot be used", Vital: true})
}

func (c Config) explain(err error) (text, mend string) {
	if c.Explain == nil {
		return err.Error(), ""
	}
	return c.Explain(err)
}

func exposed(files []ExposedFile) (found []Finding) {
	for _, f := range files {
		found = append(found, Finding{
			Code: "secret-exposed", Severity: Warning, Text: fmt.Sprintf("%s, of %s, can be read or changed by others than its owner (mode %04o)", f.Path, f.Name, f.Mode.Perm()),
			Why:  "who reads it can do there what the relay may do",
			Mend: "chmod 600 " + advice.Word(f.Path) + "; of a secret of Kubernetes: defaultMode: 0440, with fsGroup",
		})
	}
	return found
}

func rank(f Finding) int {
	if f.Severity == Error {
		return 0
	}
	return 1
}

// schema compares the schema outbox, the table and its registration with what this program needs.
func schema(ctx context.Context, pool *pgxpool.Pool, table string) (found []Finding, err error) {
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		s, err := migrate.GetStatus(ctx, tx, migrate.Config{Table: table})
		if err == nil {
			found = ofStatus(s)
		}
		return err
	})
	return found, err
}

func ofStatus(s migrate.Status) (found []Finding) {
	up := "outbox migrate up --table " + advice.Word(s.Table.String())
	switch {
	case s.Schema == nil:
	case errors.Is(s.Schema, migrate.ErrNewer) && !errors.Is(s.Schema, migrate.ErrOutgrown):
		found = append(found, Finding{Code: "schema-newer", Severity: Warning, Text: s.Schema.Error(),
			Why: "relays of this version work here; what newer ones do besides is not looked at"})
	default:
		found = append(found, Finding{Code: "schema-unusable", Severity: Error, Text: s.Schema.Error(), Why: "relays of this version do not fit it"})
	}
	if n := len(s.Pending); n > 0 {
		found = append(found, Finding{Code: "migrations-pending", Severity: Error, Text: fmt.Sprintf("migrations of the schema outbox that are not applied: %d, the first is %s", n, s.Pending[0]),
			Why: "the relay does not start before they are", Mend: up})
	}
	found = append(found, ofDifferences(s.Differences)...)
	if len(s.Pending) == 0 && s.Source == nil {
		found = append(found, Finding{Code: "source-missing", Severity: Error, Text: fmt.Sprintf("%s is not registered as a source", s.Table),
			Why: "nobody publishes its events", Mend: up})
	}
	for _, source := range s.Sources {
		if source.Gone {
			found = append(found, ofGone(source))
		}
	}
	return found
}

func ofDifferences(ds []migrate.Difference) (found []Finding) {
	for _, d := range ds {
		severity := Warning
		if d.Severity == migrate.Error {
			severity = Error
		}
		found = append(found, Finding{Code: d.Code, Severity: severity, Text: d.Text, Mend: d.Mend, MendSQL: d.Mend != "" && !d.Careful})
	}
	return found
}

// columns compares the table alone with what this program needs: that needs no right.
func columns(ctx context.Context, pool *pgxpool.Pool, table string) ([]Finding, error) {
	t, err := migrate.ParseTable(table)
	if err != nil {
		return nil, err
	}
	ds, err := migrate.Check(ctx, pool, t)
	return ofDifferences(ds), err
}

// ofGone names the table that was renamed. Giving it its name back breaks writers that know the new one, so that the statement is not marked as one to run as it is.
func ofGone(source migrate.Source) Finding {
	f := Finding{Code: "source-gone", Severity: Warning, Text: fmt.Sprintf("the table of the source %s is gone: dropped, or renamed together with its index", source.Table), Why: "a relay of it cannot start"}
	if source.Renamed != (migrate.Table{}) {
		f.Text = fmt.Sprintf("the table of the source %s was renamed to %s", source.Table, source.Renamed)
		f.Why = "a relay of the old name cannot start, and nobody publishes what is in the table; outbox migrate up would not take it along"
		f.Mend = fmt.Sprintf("-- Writers that know the new name fail from then on.\n%s\n-- Where the new name is meant, run instead, and give the relay that name: outbox migrate up --table %s",
			source.RenameBack(), advice.Word(source.Renamed.String()))
	}
	return f
}
