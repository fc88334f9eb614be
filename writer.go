package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// DefaultTable is the table that events are written to.
const DefaultTable = "outbox_event"

// Config configures a [Writer]. The zero value is what the package-level functions use.
type Config struct {
	// Schema of the table. "" means that the connection's search_path finds it.
	Schema string
	// Table is the table's name without its schema, taken literally: it is quoted. Default [DefaultTable]. A dot would be part of the name,
	// so "public.outbox_event" is refused; for a table whose name does hold a dot, set Schema.
	Table string
	// Topics derives the topic of events that name none. The zero value derives nothing.
	Topics Topics
	// Headers says how a writer makes sure that the table has the optional column headers. Default [HeadersAsk].
	Headers HeadersMode
	// ContextHeaders takes headers out of the context of a write, such as the trace that it belongs to: package tracing has it for OpenTelemetry. They are
	// added to each event, all of them or, when it has one of their names already, none. They are stored only if the table has the column headers; that it has none is no
	// error, unless an event has headers of its own or the column is [HeadersAssumed]. With [HeadersAsk] each write that has some looks into the catalog. Default: none.
	ContextHeaders func(context.Context) map[string]string
	// Now gives the time for [Event.OccurredAt]. Default time.Now.
	Now func() time.Time
	// NewID gives the id of events that have none. Default UUIDv7, whose order keeps the unique index small and fast.
	NewID func() uuid.UUID
}

// HeadersMode says how a writer makes sure that the table has the optional column headers, when an event has headers.
type HeadersMode int

const (
	// HeadersAsk looks into the catalog in the same transaction, each time that an event has headers: one more round trip. The answer is not kept,
	// because a process may write to several databases, and a schema sync may drop the column.
	HeadersAsk HeadersMode = iota
	// HeadersAssumed saves the round trip. If the column is missing after all, the transaction is broken.
	HeadersAssumed
)

// Writer writes events with its own settings. It holds no connection, starts nothing, and may be used by many goroutines.
type Writer struct {
	cfg   Config
	table string
}

// NewWriter returns a writer, or everything that is wrong with its configuration.
func NewWriter(cfg Config) (*Writer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure outbox writer: %w", err)
	}
	return newWriter(cfg), nil
}

func defaultWriter() *Writer { return newWriter(Config{}.withDefaults()) }

func newWriter(cfg Config) *Writer {
	return &Writer{cfg: cfg, table: quoteTable(cfg.Schema, cfg.Table)}
}

func (c Config) withDefaults() Config {
	if c.Table == "" {
		c.Table = DefaultTable
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = newID
	}
	return c
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func (c Config) validate() error {
	var errs []error
	if c.Schema != "" {
		errs = append(errs, checkIdentifier("Schema", c.Schema))
	}
	errs = append(errs, checkIdentifier("Table", c.Table), c.checkDot())
	if c.Topics.Service != "" {
		if f := checkService(c.Topics.Service); f != nil {
			errs = append(errs, fmt.Errorf("Topics.Service: %w", f))
		}
	}
	if c.Topics.PerAggregate && c.Topics.Service == "" {
		errs = append(errs, errors.New("Topics.PerAggregate: has no effect without Topics.Service: set the service"))
	}
	if c.Headers != HeadersAsk && c.Headers != HeadersAssumed {
		errs = append(errs, fmt.Errorf("Headers: unknown mode %d: use HeadersAsk or HeadersAssumed", int(c.Headers)))
	}
	return errors.Join(errs...)
}

// checkDot refuses a qualified name, which would only be found out by the first write.
func (c Config) checkDot() error {
	schema, table, dotted := strings.Cut(c.Table, ".")
	if !dotted || c.Schema != "" {
		return nil
	}
	return fmt.Errorf("Table: %q has a dot: write Schema: %q, Table: %q; or set Schema, if the table's name itself has the dot", c.Table, schema, table)
}

// checkIdentifier refuses what PostgreSQL would cut off silently, and so find another table by.
func checkIdentifier(field, name string) error {
	const most = 63
	switch {
	case len(name) > most:
		return fmt.Errorf("%s: name of %d bytes: PostgreSQL keeps at most %d", field, len(name), most)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s: name is not valid UTF-8: correct it", field)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("%s: name contains U+0000: remove it", field)
	}
	return nil
}
