package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/outbox-relay/outbox/internal/pg"
)

// SettleMode says how an event that is in Kafka is written down.
type SettleMode int

// The ways to settle.
const (
	// Mark sets published_at and keeps the row. It is the default.
	Mark SettleMode = iota
	// Delete removes the row: the table stays small, and nothing is left to look at.
	Delete
)

func (m SettleMode) String() string {
	switch m {
	case Mark:
		return "mark"
	case Delete:
		return "delete"
	}
	return fmt.Sprintf("settle mode %d", int(m))
}

// Config says which table is relayed, and how. The zero value works for a table made by outbox migrate with its defaults.
type Config struct {
	// Table is the outbox table, schema-qualified and spelled as in the catalog (nothing is folded to lower case). A name that
	// holds a dot is put in double quotes: "my.schema"."Outbox". Without a schema it is in public. Default: public.outbox_event.
	Table string
	// Settle says what becomes of a published row: Mark (default) or Delete.
	Settle SettleMode
	// Moves tells that the relay's policies move events that cannot be published to outbox.dead_event: [Source.Open] then warns where the role may not delete rows.
	Moves bool
	// ApplicationName is shown in pg_stat_activity for the source's own connections, whatever the pool's say; what is longer than 63 bytes is cut. By [DefaultApplicationName], alone
	// or before a space, outbox doctor and outbox events show know relays. Default: DefaultApplicationName.
	ApplicationName string
	// Logger receives what no method returns, such as a changed condition of the table. Default: slog.Default().
	Logger *slog.Logger
}

// DefaultApplicationName is what relays are called in pg_stat_activity.
const DefaultApplicationName = pg.DefaultApplicationName

func (c Config) withDefaults() Config {
	if c.Table == "" {
		c.Table = pg.DefaultTable
	}
	if c.ApplicationName == "" {
		c.ApplicationName = DefaultApplicationName
	}
	c.ApplicationName = strings.ToValidUTF8(c.ApplicationName[:min(len(c.ApplicationName), pg.MaxName)], "")
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	var problems []error
	if _, err := pg.ParseTable(c.Table); err != nil {
		problems = append(problems, err)
	}
	if c.Settle != Mark && c.Settle != Delete {
		problems = append(problems, fmt.Errorf("%s is unknown: use Mark or Delete", c.Settle))
	}
	return errors.Join(problems...)
}
