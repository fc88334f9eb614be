package pg

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/operate"
)

// LacksRight says which right is missing to whom, and the one command that gives it. It is a refusal that starting again does not mend. err is the server's; flags
// are those of the command.
func LacksRight(q any, table Table, doing string, err error, flags ...string) error {
	reason := err.Error()
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		reason = pg.Message
	}
	text := fmt.Sprintf("%s: %s; as the owner of the table run what this prints: %s", doing, reason, advice.Grants(table.String(), RoleOf(q), flags...))
	return Misconfigured(&lackingRight{text, err})
}

// lackingRight is the server's refusal in words that say it whole.
type lackingRight struct {
	text string
	err  error
}

func (l *lackingRight) Error() string { return l.text }

// Unwrap returns what it is to programs, and the server's error.
func (l *lackingRight) Unwrap() []error {
	return []error{&operate.Error{Code: operate.CodeForbidden, Text: l.text}, l.err}
}

// RoleOf is the role by which a connection was made: a transaction that has failed answers nothing any more.
func RoleOf(q any) string {
	switch c := q.(type) {
	case *pgx.Conn:
		return c.Config().User
	case *pgxpool.Pool:
		return c.Config().ConnConfig.User
	case *pgxpool.Conn:
		return c.Conn().Config().User
	case pgx.Tx:
		return c.Conn().Config().User
	}
	return "…"
}
