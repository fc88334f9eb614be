package benchmark

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/migrate"
)

// Plan is what a run will make, and remove again but for the schema outbox.
type Plan struct {
	Schema string `json:"schema"`
	Topic  string `json:"topic"`
	// StateSchema tells that the database lacks the schema outbox, so that it is made too. It stays: [StateRemoval].
	StateSchema bool `json:"state_schema"`
	// Partitions and Replication of the topic; 0: the brokers' defaults.
	Partitions  int `json:"partitions"`
	Replication int `json:"replication"`
	// Events are about how many rows will be written, Bytes how much those take in the database.
	Events int   `json:"events"`
	Bytes  int64 `json:"bytes"`
	// Seconds is about how long the run takes where both answer quickly.
	Seconds int `json:"seconds"`
	// Leftovers of runs that were killed are removed first.
	Leftovers Leftovers `json:"leftovers"`
}

// ErrRights tells that the role may not do what the bench has to; the text says what is lacking and what gives it.
var ErrRights = errors.New("the role lacks rights")

// Bench is one run.
type Bench struct {
	cfg    Config
	topics *kafka.Scratch
	plan   Plan
	// workers are the connections of the writers and the probes.
	workers *workers
}

// New checks the configuration and connects to nothing yet.
func New(c Config) (*Bench, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configure the bench: %w", err)
	}
	topics, err := kafka.NewScratch(c.Kafka)
	if err != nil {
		return nil, err
	}
	return &Bench{cfg: c, topics: topics}, nil
}

// Close ends the connections to Kafka. The pool is the caller's.
func (b *Bench) Close() { b.topics.Close() }

// Plan looks at both sides, changes nothing, and says what Run will make. The database comes first; an error that wraps [ErrRights] says what the role lacks.
func (b *Bench) Plan(ctx context.Context) (Plan, error) {
	name := newName(b.cfg.now())
	p := Plan{Schema: name, Topic: topicOf(name), Events: b.cfg.Events + b.cfg.Rate*int((b.cfg.Duration+opening).Seconds())}
	// A row is its payload as jsonb, and some 450 bytes with its columns and its entries in three indexes; settling by marking writes it again.
	p.Bytes = int64(p.Events) * int64(2*b.cfg.Size+900)
	p.Seconds = int(b.cfg.Duration.Seconds()) + 10 + b.cfg.Events/20_000 + int(p.Bytes/50_000_000)
	if spec := b.cfg.Kafka.CreateTopics; spec != nil {
		p.Partitions, p.Replication = spec.Partitions, spec.Replication
	}
	var err error
	if p.StateSchema, err = b.checkDatabase(ctx); err != nil {
		return p, err
	}
	if err := b.topics.Open(ctx); err != nil {
		return p, err
	}
	p.Leftovers, err = b.leftovers(ctx)
	b.plan = p
	return p, err
}

// facts are what decides whether the bench can work in the database.
type facts struct {
	Database, Role                            string
	Standby, ReadOnly, MayCreate, State, Full bool
}

// checkDatabase refuses a database in which the bench could not work, and tells whether the schema outbox is lacking.
func (b *Bench) checkDatabase(ctx context.Context) (lacksState bool, err error) {
	rows, err := b.cfg.Pool.Query(ctx, `SELECT current_database() AS database, current_user AS role, pg_is_in_recovery() AS standby,
    current_setting('default_transaction_read_only')::boolean AS read_only, has_database_privilege(current_database(), 'CREATE') AS may_create, s.there AS state,
    s.there AND coalesce((SELECT bool_and(has_schema_privilege('outbox', 'USAGE') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'DELETE'))
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'outbox' AND c.relname IN ('source', 'lane')), false) AS full
FROM (SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'outbox') AS there) s`)
	if err != nil {
		return false, fmt.Errorf("look at the database: %w", err)
	}
	f, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[facts])
	if err != nil {
		return false, fmt.Errorf("look at the database: %w", err)
	}
	if err := f.check(); err != nil || !f.State {
		return !f.State, err
	}
	return false, b.checkState(ctx, f)
}

func (f facts) check() error {
	switch {
	case f.Standby:
		return errors.New("this server is a standby, where nothing can be written: name the primary in DATABASE_URL")
	case f.ReadOnly:
		return errors.New("default_transaction_read_only is on for this role or database: take it back, or use another role")
	case !f.MayCreate:
		return fmt.Errorf("%w: the bench makes a schema of its own, and %s may create none in database %s: GRANT CREATE ON DATABASE %s TO %s, or connect as another role",
			ErrRights, f.Role, f.Database, pgx.Identifier{f.Database}.Sanitize(), pgx.Identifier{f.Role}.Sanitize())
	}
	return nil
}

// checkState refuses a schema outbox that the bench would have to change: that is what a migration is for.
func (b *Bench) checkState(ctx context.Context, f facts) error {
	if !f.Full {
		return fmt.Errorf("%w: the bench registers a source, and %s may not write into the tables of the schema outbox: connect as its owner, who has run outbox migrate up, or use another database on the same server",
			ErrRights, f.Role)
	}
	status, err := migrate.GetStatus(ctx, b.cfg.Pool, migrate.Config{})
	switch {
	case err != nil:
		return err
	case status.Schema != nil:
		return status.Schema
	case len(status.Pending) > 0:
		return fmt.Errorf("the schema outbox lacks migrations of this program (%d, the first is %s), and the bench changes nothing of yours: run outbox migrate up, or use another database on the same server",
			len(status.Pending), status.Pending[0])
	}
	return nil
}
